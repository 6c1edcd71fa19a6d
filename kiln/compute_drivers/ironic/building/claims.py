"""Claims of nodes: idempotent builds and deletes by Ironic's allocations.

The name of an allocation is unique in Ironic, and is made from the owner and the key of
a build: of two requests for one build, one has the claim, and both find it. Its id is drawn
for each claim and is the id of the amphora, so no id is used again. A claim whose deploy was
never requested is an amphora that is pending: the repeated build deploys it, a delete ends it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kiln.clock import Clock, current_deadline
from kiln.compute_drivers.authoring.adoption import adopted
from kiln.compute_drivers.authoring.claiming import key_in_use
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.authoring.openstack_networks import Networks
from kiln.compute_drivers.ironic import translate
from kiln.compute_drivers.ironic.api.client import Ironic
from kiln.compute_drivers.ironic.building.choice import (
    Wanted,
    choose,
    connected,
    facts_of,
    instance_info,
    nics_of,
)
from kiln.compute_drivers.ironic.building.config_drive import config_drive
from kiln.compute_drivers.ironic.building.nics import Nics, Port
from kiln.compute_drivers.ironic.catalogue import Catalogue
from kiln.exceptions import (
    AmphoraComputeError,
    BuildConflict,
    BuildOutcomeUnknown,
    DeleteFailed,
    InstanceNotFoundError,
    InvalidBuildRequest,
    Outcome,
    ResourceNotFoundError,
    ServiceUnavailable,
)
from kiln.models import BuildRequest, State

#: Seconds between two looks at a claim that Ironic has not decided.
_STEP_S = 0.1
#: Seconds for which a claimed node can stay locked before Ironic is asked nevertheless.
_HELD_S = 2.0
#: Attempts to claim where other claims have taken the nodes that Ironic had in mind.
_ATTEMPTS = 4
#: The form of Ironic's ids; any other text could name an allocation.
_ID = re.compile('[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}')
_RACED = re.compile('could not reserve any|filtered out during reservation')


class Claims:
    """Builds and deletes amphorae by their claims."""

    def __init__(
        self,
        conf: Any,
        ironic: Ironic,
        catalogue: Catalogue,
        nics: Nics,
        networks: Networks,
        clock: Clock,
    ) -> None:
        self._conf = conf
        self._ironic = ironic
        self._catalogue = catalogue
        self._nics = nics
        self._networks = networks
        self._clock = clock

    # ---- building ------------------------------------------------------------------

    def build(self, request: BuildRequest) -> str:
        """Return the id of the amphora of a build key, claimed now or found."""
        asked = Asked(
            verb='build', subject=request.name, build_key=request.build_key, looking=True
        )
        found = None if request.fresh else self.find(asked, request.owner, request.build_key)
        if found is not None and found.get('state') != 'error':
            return self._continued(asked, request, found)
        if found is not None:
            # No node was free at that time; nothing ever ran.
            with _still_held():
                self.withdraw(asked, found)
        wanted = choose(asked, request, self._conf)
        wanted = connected(asked, request, self._conf, self._networks, wanted)
        for attempt in range(1, _ATTEMPTS + 1):
            claim = self._claim(asked, request, wanted)
            with _still_held():
                claim = self._decided(asked, claim)
            if claim['state'] == 'active':
                return self._deploy(asked, request, wanted, claim)
            with _still_held():
                self.withdraw(asked, claim)
            if attempt == _ATTEMPTS or not _RACED.search(str(claim.get('last_error'))):
                break
        said = str(claim.get('last_error') or 'no reason given').rstrip('.')
        if not translate.no_node(claim):
            raise asked.error(ServiceUnavailable, f'Ironic failed to claim a node: {said}.')
        raise self._catalogue.lacking(asked, wanted.flavor, InvalidBuildRequest, f': {said}')

    def find(self, asked: Asked, owner: str, build_key: str) -> dict[str, Any] | None:
        """Return the allocation of a build; None only if it certainly does not exist."""
        try:
            found: dict[str, Any] = self._ironic.ask(
                asked, 'GET', f'/allocations/{name_of(owner, build_key)}'
            )
        except AmphoraComputeError as exc:
            if exc.http_status == 404 and exc.code != 'service_unavailable':
                return None
            raise
        return found if translate.is_of(found, owner, build_key) else None

    def _claim(self, asked: Asked, request: BuildRequest, wanted: Wanted) -> dict[str, Any]:
        """Return the allocation of a build, made now or by another request for it."""
        amphora_id = str(uuid.uuid4())
        facts = facts_of(asked, request, wanted)
        body: dict[str, Any] = {
            'uuid': amphora_id,
            'name': name_of(request.owner, request.build_key),
            'resource_class': wanted.flavor.resource_class,
            'extra': {translate.FACTS: facts},
        }
        if wanted.flavor.traits:
            body['traits'] = list(wanted.flavor.traits)
        if wanted.zone or wanted.connected:
            body['candidate_nodes'] = self._catalogue.free(
                asked, wanted.flavor, wanted.zone, InvalidBuildRequest, connected=wanted.connected
            )
        making = dataclasses.replace(asked, making=True, looking=False)
        ports: Sequence[Port] = ()
        try:
            self._nics.check_given(asked, wanted.port_ids)
            ports = self._nics.make(
                asked, amphora_id, wanted.networks, wanted.groups,
                owner=request.owner, name=request.name,
            )  # fmt: skip
            facts['nics'] = nics_of(wanted, ports)
            made: dict[str, Any] = self._ironic.ask(making, 'POST', '/allocations', body=body)
        except AmphoraComputeError as exc:
            if wanted.networks and exc.outcome is Outcome.NOT_APPLIED:
                # The answer that has the ports can be lost, too; what is refused makes none.
                if ports or exc.http_status is None or exc.http_status >= 500:
                    self._nics.drop(asked, amphora_id)
                self._networks.forget()
            if not isinstance(exc, BuildConflict):
                raise
            # Another request can have claimed a node for this build, and have its ports.
            found = self.find(asked, request.owner, request.build_key)
            if found is None:
                raise
            adopted(request, translate.as_built(found))
            return found
        return made

    def _decided(self, asked: Asked, claim: dict[str, Any]) -> dict[str, Any]:
        """Return a claim once Ironic has found a node for it, or none."""
        end = self._clock.monotonic() + self._conf.timeout
        while claim['state'] == 'allocating':
            deadline = current_deadline()
            late = deadline is not None and deadline.remaining_s() <= _STEP_S
            if late or self._clock.monotonic() >= end:
                raise asked.error(
                    BuildOutcomeUnknown, 'Ironic has not found a node for its claim in time.'
                )
            self._clock.sleep(_STEP_S)
            claim = self._read(asked, claim['uuid'])
        return claim

    def _read(self, asked: Asked, amphora_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self._ironic.ask(asked, 'GET', f'/allocations/{amphora_id}')
        return found

    def _continued(self, asked: Asked, request: BuildRequest, found: dict[str, Any]) -> str:
        """Return the id of an amphora that was claimed before, and deploy it if need be."""
        adopted(request, translate.as_built(found))
        with _still_held():
            found = self._decided(asked, found)
            if found['state'] != 'active' or translate.is_leaving(found):
                return str(found['uuid'])
            node = self._node(asked, found)
            if not _is_waiting(found, node):
                return str(found['uuid'])
            wanted = choose(asked, request, self._conf)
        return self._deploy(asked, request, wanted, found)

    # ---- deploying -----------------------------------------------------------------

    def _deploy(
        self, asked: Asked, request: BuildRequest, wanted: Wanted, claim: dict[str, Any]
    ) -> str:
        """Have the claimed node deployed; return the id of the amphora."""
        amphora_id = str(claim['uuid'])
        path = f'/nodes/{claim["node_uuid"]}'
        try:
            node = self._unlocked(asked, claim)
            if not _is_waiting(claim, node):
                # Another request for this build was faster.
                return amphora_id
            if translate.nics_of(claim):
                self._connect(asked, claim)
            # The answer shows that the node is still the claimed one.
            node = self._ironic.ask(
                asked, 'PATCH', path, body=instance_info(request, wanted, node, self._conf)
            )
            if not _is_waiting(claim, node):
                return amphora_id
            drive = config_drive(request, amphora_id, zone=wanted.zone)
            making = dataclasses.replace(asked, making=True, looking=False)
            self._ironic.ask(
                making, 'PUT', f'{path}/states/provision',
                body={'target': 'active', 'configdrive': drive},
            )  # fmt: skip
        except AmphoraComputeError as exc:
            if exc.outcome is not Outcome.NOT_APPLIED:
                raise
            return self._refused(asked, claim, exc)
        return amphora_id

    def _connect(self, asked: Asked, claim: Mapping[str, Any]) -> None:
        """Attach the ports of a build to its node, and write on the claim what they are."""
        nics = self._nics.attach_all(asked, claim)
        try:
            self._note(asked, claim, 'nics', nics)
        except AmphoraComputeError as exc:
            if exc.http_status == 404:
                # It was deleted meanwhile, and its node is free: no port may stay there.
                self._nics.take_back(asked, claim, nics)
            raise

    def _refused(self, asked: Asked, claim: dict[str, Any], exc: AmphoraComputeError) -> str:
        """Give a claim back whose deploy was refused, unless another request deploys it."""
        amphora_id = str(claim['uuid'])
        try:
            node = self._node(asked, claim)
            if translate.holds(claim, node):
                if not _is_waiting(claim, node):
                    return amphora_id
                self.withdraw(asked, claim)
        except AmphoraComputeError:
            # The claim is still there: a repeated build deploys it.
            exc.outcome = Outcome.UNKNOWN
        raise exc

    def _unlocked(self, asked: Asked, claim: Mapping[str, Any]) -> dict[str, Any]:
        """Return the claimed node, if possible after Ironic has unlocked it.

        The thread that claims a node holds it for some milliseconds more. A request for a
        node that is held takes a second or more, and a thread of Ironic.
        """
        end = self._clock.monotonic() + _HELD_S
        node = self._node(asked, claim)
        while node.get('reservation') and self._clock.monotonic() < end:
            self._clock.sleep(_STEP_S)
            node = self._node(asked, claim)
        return node

    def _node(self, asked: Asked, claim: Mapping[str, Any]) -> dict[str, Any]:
        query = {'fields': ','.join(translate.NODE_FIELDS)}
        found: dict[str, Any] = self._ironic.ask(
            asked, 'GET', f'/nodes/{claim["node_uuid"]}', query=query
        )
        return found

    def withdraw(self, asked: Asked, claim: Mapping[str, Any]) -> None:
        """End a claim that was never deployed; one that is gone is a success."""
        looking = dataclasses.replace(asked, looking=True)
        self._nics.give_back(looking, claim)
        try:
            self._ironic.ask(looking, 'DELETE', f'/allocations/{claim["uuid"]}')
        except AmphoraComputeError as exc:
            if exc.http_status != 404 or exc.code == 'service_unavailable':
                raise

    # ---- instances of nobody ---------------------------------------------------------

    def adopt(
        self, asked: Asked, claim: Mapping[str, Any], node: Mapping[str, Any], owner: str
    ) -> None:
        """Make an instance that others have deployed one of this site."""
        assert asked.build_key is not None
        name = name_of(owner, asked.build_key)
        facts = {
            **translate.facts_of(claim), 'owner': owner, 'build_key': asked.build_key,
            'nics': self._nics.found_on(asked, node),
        }  # fmt: skip
        extra = {**claim['extra'], translate.FACTS: facts}
        other = self.find(dataclasses.replace(asked, looking=True), owner, asked.build_key)
        if other is not None:
            raise key_in_use(asked, other['uuid'])
        try:
            if translate.is_allocated(claim):
                self._ironic.ask(
                    asked, 'PATCH', f'/allocations/{claim["uuid"]}',
                    body=[
                        {'op': 'add', 'path': '/name', 'value': name},
                        {'op': 'add', 'path': '/extra', 'value': extra},
                    ],
                )  # fmt: skip
            else:
                self._ironic.ask(
                    asked, 'POST', '/allocations',
                    body={
                        'uuid': claim['uuid'], 'name': name, 'node': claim['node_uuid'],
                        'resource_class': claim['resource_class'], 'extra': extra,
                    },
                )  # fmt: skip
        except AmphoraComputeError as exc:
            if exc.http_status is None:
                raise
            self._not_adopted(asked, claim, owner, exc)

    def _not_adopted(
        self, asked: Asked, claim: Mapping[str, Any], owner: str, exc: AmphoraComputeError
    ) -> None:
        """Return if the instance is adopted all the same, by a request whose answer was lost."""
        assert asked.build_key is not None
        found = self.find(dataclasses.replace(asked, looking=True), owner, asked.build_key)
        if found is None:
            raise exc
        if found['uuid'] != claim['uuid']:
            raise key_in_use(asked, found['uuid']) from exc
        if found['state'] != 'active':
            # Ironic keeps an allocation that got no node.
            self.withdraw(asked, found)
            raise exc

    # ---- deleting --------------------------------------------------------------------

    def delete(self, asked: Asked, claim: dict[str, Any]) -> None:
        """Give a claim back, and have its node undeployed; the cleaning is not waited for."""
        if claim['state'] != 'active' or claim.get('node_uuid') is None:
            self._end(asked, claim)
            return
        node = self._node(asked, claim)
        if not translate.holds(claim, node):
            return
        if node['provision_state'] == 'available':
            self._end(asked, claim)
        elif translate.state_of({**claim, 'extra': {}}, node) is not State.DELETING:
            self._undeploy(asked, claim, node)

    def _end(self, asked: Asked, claim: Mapping[str, Any]) -> None:
        self._nics.give_back(asked, claim)
        try:
            self._ironic.ask(asked, 'DELETE', f'/allocations/{claim["uuid"]}')
        except DeleteFailed:
            # A build has had it deployed meanwhile.
            self._mark(asked, claim)

    def _undeploy(self, asked: Asked, claim: Mapping[str, Any], node: Mapping[str, Any]) -> None:
        if node['provision_state'] == 'deploying':
            # A step that Ironic does not interrupt: the delete follows it.
            self._mark(asked, claim)
            return
        if node.get('protected'):
            raise asked.error(
                DeleteFailed, 'its node is protected. Unset that first.', retryable=False
            )
        # Ironic unbinds the ports of an active node; those of others when it undeploys them.
        first = node['provision_state'] == 'active' and bool(translate.nics_of(claim))
        if first and not translate.is_leaving(claim):
            self._mark(asked, claim)
        try:
            if first:
                self._nics.give_back(asked, claim)
            self._ironic.ask(
                asked, 'PUT', f'/nodes/{claim["node_uuid"]}/states/provision',
                body={'target': 'deleted'},
            )  # fmt: skip
        except DeleteFailed as exc:
            if exc.http_status not in (400, 409):
                raise
            # As above; or another request holds the node for long.
            self._mark(asked, claim)
            return
        if not first:
            self._nics.give_back(asked, claim, detached=True)

    def _mark(self, asked: Asked, claim: Mapping[str, Any]) -> None:
        with contextlib.suppress(InstanceNotFoundError, ResourceNotFoundError):
            self._note(asked, claim, 'deleting', True)

    def _note(self, asked: Asked, claim: Mapping[str, Any], name: str, value: Any) -> None:
        """Write a fact on a claim."""
        path = f'/extra/{translate.FACTS}/{name}'
        self._ironic.ask(
            asked, 'PATCH', f'/allocations/{claim["uuid"]}',
            body=[{'op': 'add', 'path': path, 'value': value}],
        )  # fmt: skip

    def resume_delete(self, claim: dict[str, Any], node: Mapping[str, Any] | None) -> None:
        """Go on with a delete that had to wait; whatever fails is done at the next look."""
        if node is not None and translate.state_of({**claim, 'extra': {}}, node) is State.DELETING:
            return
        asked = Asked.about('delete', claim['uuid'])
        try:
            self.delete(asked, claim)
        except AmphoraComputeError:
            return


@contextlib.contextmanager
def _still_held() -> Iterator[None]:
    """Let errors say that more than nothing can be left: a claim exists by now."""
    try:
        yield
    except AmphoraComputeError as exc:
        exc.outcome = Outcome.UNKNOWN
        raise


def name_of(owner: str, build_key: str) -> str:
    """Return the name of the allocation of a build; unique also where capitals do not count."""
    digest = hashlib.sha256(f'{owner}\0{build_key}'.encode()).hexdigest()
    return f'kiln-{digest[:40]}'


def _is_waiting(claim: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    """Return True if the deploy of a claimed node was never requested."""
    return translate.holds(claim, node) and node['provision_state'] == 'available'


def about(verb: str, amphora_id: str, resource_id: str | None = None) -> Asked:
    """Return the context of a request for an amphora, whose id has the form of Ironic's."""
    return known_form(Asked.about(verb, amphora_id, resource_id))


def known_form(asked: Asked) -> Asked:
    """Return the context of a request, if the id in it has the form of Ironic's."""
    if not _ID.fullmatch(str(asked.amphora_id)):
        raise asked.error(InstanceNotFoundError, 'Ironic has no ids of that form.')
    return asked
