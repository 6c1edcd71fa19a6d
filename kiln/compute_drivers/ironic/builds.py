"""Builds: a node is claimed by an allocation, told what it gets, and deployed."""

from __future__ import annotations

import contextlib
import dataclasses
import ipaddress
import logging
import os
from collections.abc import Callable, Iterator
from typing import Any

from kiln.clock import Clock, current_deadline
from kiln.compute_drivers.authoring.adoption import adopted
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.ironic import claims, states, wanted
from kiln.compute_drivers.ironic.api.client import Services
from kiln.compute_drivers.ironic.api.errors import is_locked
from kiln.compute_drivers.ironic.catalogue import Catalogue
from kiln.compute_drivers.ironic.claims import Claim
from kiln.compute_drivers.ironic.ports import Ports
from kiln.compute_drivers.ironic.reading import Node, Reader
from kiln.compute_drivers.ironic.releases import Releases
from kiln.compute_drivers.ironic.translate import as_built
from kiln.exceptions import (
    AmphoraComputeError,
    BuildConflict,
    BuildOutcomeUnknown,
    InvalidBuildRequest,
    Outcome,
    ServiceUnavailable,
)
from kiln.models import BuildRequest

LOG = logging.getLogger(__name__)

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0
#: Seconds in which a task that holds a claimed node should have ended.
_PATIENCE_S = 30.0


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """The parts of one build, checked and resolved."""

    flavor: wanted.Flavor
    image: wanted.Image
    image_name: str
    port_ids: tuple[str, ...]
    networks: tuple[str, ...]
    drive: Callable[[Claim], dict[str, Any]]


class Builds:
    """Builds amphorae by their build keys."""

    def __init__(
        self,
        conf: Any,
        services: Services,
        reader: Reader,
        catalogue: Catalogue,
        releases: Releases,
        ports: Ports,
        clock: Clock,
    ) -> None:
        self._conf = conf
        self._services = services
        self._reader = reader
        self._catalogue = catalogue
        self._releases = releases
        self._ports = ports
        self._clock = clock

    def build(self, request: BuildRequest) -> str:
        """Return the id of the amphora of a build key, built now or found.

        What a process left half made is continued.
        """
        asked = Asked(verb='build', subject=request.name, build_key=request.build_key)
        uuid = claims.uuid_of(request.owner, request.build_key)
        claim = None if request.fresh else self._reader.claim(asked, uuid)
        chosen: Chosen | None = None
        if claim is not None and claim.state == 'error' and not claim.deleting:
            # Ironic found no node for it, and does not look again.
            self._releases.abandon(asked, claim)
            claim = None
        if claim is None:
            chosen = self._choose(asked, request)
            claim = self._claimed(asked, request, chosen)
        if claim.deleting:
            raise asked.error(
                BuildConflict, 'the amphora of its key is still being deleted.', retryable=True
            )
        adopted(request, as_built(claim))
        claim = self._placed(asked, claim, chosen or self._choose_flavor(asked, request))
        node = self._node(asked, claim)
        if node.get('provision_state') == states.AVAILABLE:
            with self._nothing_left(asked, claim):
                chosen = chosen or self._choose(asked, request)
                self._deploy(asked, claim, node, chosen)
        return claim.id

    # ---- choosing ----------------------------------------------------------

    def _choose(self, asked: Asked, request: BuildRequest) -> Chosen:
        """Resolve all names of the request; raise an error before anything is claimed."""
        name = request.image_id or self._conf.image
        if name is None:
            raise asked.error(InvalidBuildRequest, 'it has no image, and the backend no default.')
        return Chosen(
            flavor=self._choose_flavor(asked, request),
            image=self._catalogue.image(asked, name),
            image_name=name,
            port_ids=request.port_ids,
            networks=request.network_ids,
            drive=lambda claim: wanted.config_drive(asked, request, claim),
        )

    def _choose_flavor(self, asked: Asked, request: BuildRequest) -> wanted.Flavor:
        name = request.flavor or self._conf.flavor
        if name is None:
            raise asked.error(InvalidBuildRequest, 'it has no flavor, and the backend no default.')
        return wanted.flavor_of(asked, name)

    # ---- claiming ----------------------------------------------------------

    def _claimed(self, asked: Asked, request: BuildRequest, chosen: Chosen) -> Claim:
        """Return the claim of a build, made now, or by another request at the same time."""
        uuid = claims.uuid_of(request.owner, request.build_key)
        draw = os.urandom(4).hex()
        body: dict[str, Any] = {
            'uuid': uuid,
            'resource_class': chosen.flavor.resource_class,
            'extra': {claims.RECORD: claims.record_of(request, draw)},
        }
        if chosen.flavor.traits:
            body['traits'] = list(chosen.flavor.traits)
        if zone := request.availability_zone:
            body['candidate_nodes'] = self._catalogue.candidates(asked, chosen.flavor, zone)
        making = dataclasses.replace(asked, making=True)
        try:
            made = self._services.ask(making, 'POST', '/allocations', body=body)
            claim = Claim.read(made)
        except BuildConflict:
            # The uuid is taken, by another request for this build.
            claim = self._reader.claim(asked, uuid)
        if claim is None:
            raise asked.error(
                BuildConflict, 'its allocation ended while it was made.', retryable=True
            )
        return claim

    def _placed(self, asked: Asked, claim: Claim, chosen: Chosen | wanted.Flavor) -> Claim:
        """Wait until Ironic has chosen a node, which takes it a moment.

        :raises InsufficientCapacity: it has none; the claim has ended.
        """
        flavor = chosen.flavor if isinstance(chosen, Chosen) else chosen
        for _ in self._pauses(self._conf.claim_timeout):
            if claim.state == 'allocating':
                found = self._reader.claim(asked, claim.uuid)
                if found is None:
                    raise asked.error(BuildConflict, 'its allocation was deleted.', retryable=True)
                claim = found
            if claim.state != 'allocating':
                break
        if claim.state == 'allocating':
            raise asked.error(
                BuildOutcomeUnknown,
                f'Ironic still looks for a node after {self._conf.claim_timeout:g} s; a '
                f'conductor might be down.',
            )
        if claim.state == 'error':
            self._releases.abandon(asked, claim)
            raise self._catalogue.no_node(asked, flavor, claim.text('zone'), claim.error)
        return claim

    def _node(self, asked: Asked, claim: Claim) -> Node:
        node = None if claim.node_uuid is None else self._reader.node(asked, claim.node_uuid)
        if node is None or node.get('instance_uuid') != claim.uuid:
            raise asked.error(
                ServiceUnavailable,
                f'node {claim.node_uuid}, which Ironic has allocated, cannot be seen.',
                outcome=Outcome.UNKNOWN,
            )
        return node

    # ---- deploying ---------------------------------------------------------

    def _deploy(self, asked: Asked, claim: Claim, node: Node, chosen: Chosen) -> None:
        path = f'/nodes/{node["uuid"]}'
        place = self._place(claim, node, chosen)
        place['addresses'] += self._ports.hang_all(
            asked, claim, node, chosen.port_ids, chosen.networks
        )
        drive = chosen.drive(claim)
        info = wanted.instance_info(claim, chosen.image, chosen.flavor, self._conf.root_gb)
        body = claims.patch(place=place)
        self._services.ask(asked, 'PATCH', f'/allocations/{claim.uuid}', body=body)
        locked: AmphoraComputeError | None = None
        for _ in self._pauses(_PATIENCE_S):
            try:
                self._services.ask(asked, 'PATCH', path, body=info)
                self._start(asked, claim, path, drive)
                return
            except AmphoraComputeError as exc:
                if self._has_begun(asked, claim, exc):
                    return
                if not is_locked(exc):
                    raise
                locked = exc
        assert locked is not None
        raise locked

    def _has_begun(self, asked: Asked, claim: Claim, error: AmphoraComputeError) -> bool:
        """Return True if the node is deployed nevertheless; raise the error if that is not known.

        The answer can be all that was lost, or another request for the same build was faster.
        """
        try:
            node = self._node(asked, claim)
        except AmphoraComputeError:
            raise error from None
        return bool(node.get('provision_state') != states.AVAILABLE)

    def _start(self, asked: Asked, claim: Claim, path: str, drive: dict[str, Any]) -> None:
        body = {'target': states.ACTIVE, 'configdrive': drive}
        making = dataclasses.replace(asked, making=True)
        self._services.ask(making, 'PUT', f'{path}/states/provision', body=body)

    def _place(self, claim: Claim, node: Node, chosen: Chosen) -> dict[str, Any]:
        """Return what the claim keeps of its place."""
        addresses = [] if self._ports.used else addresses_of(node)
        place: dict[str, Any] = {'addresses': addresses}
        if claim.text('image') is None:
            place['default_image'] = chosen.image_name
        if (zone := self._catalogue.zone_of(node)) is not None:
            place['node_zone'] = zone
        return place

    @contextlib.contextmanager
    def _nothing_left(self, asked: Asked, claim: Claim) -> Iterator[None]:
        """End a claim whose deployment has certainly not begun."""
        try:
            yield
        except AmphoraComputeError as exc:
            unknown = asked.error(
                BuildOutcomeUnknown, f'its node was claimed, and might be deployed. {exc}'
            )
            if isinstance(exc, BuildOutcomeUnknown):
                raise
            if exc.outcome is not Outcome.NOT_APPLIED:
                raise unknown from exc
            try:
                self._releases.abandon(asked, claim)
            except AmphoraComputeError as failure:
                LOG.warning('Cannot end what build %s left: %s', asked.build_key, failure)
                raise unknown from exc
            raise

    def _pauses(self, most_s: float) -> Iterator[None]:
        """Yield at once, and then after longer and longer pauses until the time is over."""
        deadline = current_deadline()
        left_s = most_s if deadline is None else min(most_s, deadline.remaining_s())
        give_up, pause_s = self._clock.monotonic() + left_s, _FIRST_PAUSE_S
        yield
        while self._clock.monotonic() + pause_s < give_up:
            self._clock.sleep(pause_s)
            yield
            pause_s = min(_LONGEST_PAUSE_S, 1.5 * pause_s)


def addresses_of(node: Node) -> list[dict[str, str]]:
    """Return the addresses that the operator wrote into the extra fields of a node."""
    extra = node.get('extra')
    given = extra.get('addresses') if isinstance(extra, dict) else None
    found = []
    for one in given if isinstance(given, list) else ():
        try:
            found.append({'address': str(ipaddress.ip_address(one))})
        except ValueError:
            LOG.warning('Node %s has no address %r: it is not one', node.get('uuid'), one)
    return found
