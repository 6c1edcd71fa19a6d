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
import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kiln.clock import Clock, current_deadline
from kiln.compute_drivers.authoring.adoption import adopted
from kiln.compute_drivers.authoring.claiming import key_in_use
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.ironic import translate
from kiln.compute_drivers.ironic.api.client import Ironic
from kiln.compute_drivers.ironic.building.config_drive import config_drive
from kiln.compute_drivers.ironic.building.flavors import Flavor, image_info
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
_RACED = re.compile('could not reserve any|filtered out during reservation')
#: The most characters of ``extra`` that a database of Ironic is sure to hold.
_MOST_FACTS = 60_000


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """The resolved parts of one build."""

    flavor: Flavor
    source: str | None
    image: Mapping[str, str]
    zone: str | None


class Claims:
    """Builds and deletes amphorae by their claims."""

    def __init__(self, conf: Any, ironic: Ironic, catalogue: Catalogue, clock: Clock) -> None:
        self._conf = conf
        self._ironic = ironic
        self._catalogue = catalogue
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
                self.withdraw(asked, found['uuid'])
        wanted = self._choose(asked, request)
        for attempt in range(1, _ATTEMPTS + 1):
            claim = self._claim(asked, request, wanted)
            with _still_held():
                claim = self._decided(asked, claim)
            if claim['state'] == 'active':
                return self._deploy(asked, request, wanted, claim)
            with _still_held():
                self.withdraw(asked, claim['uuid'])
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

    def _choose(self, asked: Asked, request: BuildRequest) -> Wanted:
        conf = self._conf
        text, image = request.flavor or conf.flavor, request.image_id or conf.image
        if text is None:
            raise asked.error(InvalidBuildRequest, 'it has no flavor, and the backend no default.')
        if image is None:
            raise asked.error(InvalidBuildRequest, 'it has no image, and the backend no default.')
        for key in request.keys:
            if ' ' not in key:
                raise asked.error(
                    InvalidBuildRequest, 'Ironic keeps no key pairs: give whole public keys.'
                )
        return Wanted(
            flavor=Flavor.read(asked, text, InvalidBuildRequest),
            source=image,
            image=image_info(asked, image, InvalidBuildRequest),
            zone=request.availability_zone or conf.availability_zone,
        )

    def _claim(self, asked: Asked, request: BuildRequest, wanted: Wanted) -> dict[str, Any]:
        """Return the allocation of a build, made now or by another request for it."""
        facts = _facts(asked, request, wanted)
        body: dict[str, Any] = {
            'uuid': str(uuid.uuid4()),
            'name': name_of(request.owner, request.build_key),
            'resource_class': wanted.flavor.resource_class,
            'extra': {translate.FACTS: facts},
        }
        if wanted.flavor.traits:
            body['traits'] = list(wanted.flavor.traits)
        if wanted.zone:
            body['candidate_nodes'] = list(
                self._catalogue.free(asked, wanted.flavor, wanted.zone, InvalidBuildRequest)
            )
        making = dataclasses.replace(asked, making=True, looking=False)
        try:
            made: dict[str, Any] = self._ironic.ask(making, 'POST', '/allocations', body=body)
        except BuildConflict:
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
        return self._deploy(asked, request, self._choose(asked, request), found)

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
            # The answer shows that the node is still the claimed one.
            node = self._ironic.ask(
                asked, 'PATCH', path, body=_instance_info(request, wanted, node, self._conf)
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

    def _refused(self, asked: Asked, claim: dict[str, Any], exc: AmphoraComputeError) -> str:
        """Give a claim back whose deploy was refused, unless another request deploys it."""
        amphora_id = str(claim['uuid'])
        try:
            if not _is_waiting(claim, self._node(asked, claim)):
                return amphora_id
            self.withdraw(asked, amphora_id)
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

    def withdraw(self, asked: Asked, amphora_id: str) -> None:
        """End a claim that was never deployed; one that is gone is a success."""
        try:
            self._ironic.ask(
                dataclasses.replace(asked, looking=True), 'DELETE', f'/allocations/{amphora_id}'
            )
        except AmphoraComputeError as exc:
            if exc.http_status != 404 or exc.code == 'service_unavailable':
                raise

    # ---- instances of nobody ---------------------------------------------------------

    def adopt(self, asked: Asked, claim: Mapping[str, Any], owner: str) -> None:
        """Make an instance that others have deployed one of this site."""
        assert asked.build_key is not None
        name = name_of(owner, asked.build_key)
        facts = {
            **translate.facts_of(claim), 'owner': owner, 'build_key': asked.build_key,
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
            self.withdraw(asked, found['uuid'])
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
            self._undeploy(asked, claim)

    def _end(self, asked: Asked, claim: Mapping[str, Any]) -> None:
        try:
            self._ironic.ask(asked, 'DELETE', f'/allocations/{claim["uuid"]}')
        except DeleteFailed:
            # A build has had it deployed meanwhile.
            self._mark(asked, claim)

    def _undeploy(self, asked: Asked, claim: Mapping[str, Any]) -> None:
        try:
            self._ironic.ask(
                asked, 'PUT', f'/nodes/{claim["node_uuid"]}/states/provision',
                body={'target': 'deleted'},
            )  # fmt: skip
        except DeleteFailed as exc:
            if exc.http_status not in (400, 409):
                raise
            # A step that Ironic does not interrupt: the delete follows it.
            self._mark(asked, claim)

    def _mark(self, asked: Asked, claim: Mapping[str, Any]) -> None:
        path = f'/extra/{translate.FACTS}/deleting'
        try:
            self._ironic.ask(
                asked, 'PATCH', f'/allocations/{claim["uuid"]}',
                body=[{'op': 'add', 'path': path, 'value': True}],
            )  # fmt: skip
        except (InstanceNotFoundError, ResourceNotFoundError):
            return

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


def _facts(asked: Asked, request: BuildRequest, wanted: Wanted) -> dict[str, Any]:
    facts = {
        'owner': request.owner,
        'build_key': request.build_key,
        'name': request.name,
        'flavor': request.flavor,
        'image': request.image_id,
        'source': wanted.source,
        'zone': wanted.zone,
        'metadata': dict(request.metadata),
    }
    if (size := len(json.dumps(facts))) > _MOST_FACTS:
        raise asked.error(
            InvalidBuildRequest,
            f'its metadata has {size} characters as JSON, and Ironic keeps {_MOST_FACTS}.',
        )
    return facts


def _instance_info(
    request: BuildRequest, wanted: Wanted, node: Mapping[str, Any], conf: Any
) -> Sequence[Mapping[str, Any]]:
    """Return the patch with the image and the name of an instance."""
    info: dict[str, Any] = {**wanted.image, 'display_name': request.name}
    if size := conf.root_size or _disk_of(node):
        info['root_gb'] = size
    # Each by itself: an allocation has put its traits there.
    return [
        {'op': 'add', 'path': f'/instance_info/{name}', 'value': value}
        for name, value in info.items()
    ]


def _disk_of(node: Mapping[str, Any]) -> int | None:
    try:
        size = int((node.get('properties') or {}).get('local_gb') or 0)
    except (TypeError, ValueError):
        return None
    return size - 1 if size > 1 else None
