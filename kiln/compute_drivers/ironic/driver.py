"""The Ironic driver: the hooks of the contract as requests to one Ironic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from kiln.clock import SYSTEM_CLOCK, Clock
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.authoring.lazy_options import lazy_options
from kiln.compute_drivers.authoring.machine_pool import EnrolledMachine, MachinePool
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.ironic import claims, states
from kiln.compute_drivers.ironic.actions import Actions
from kiln.compute_drivers.ironic.api.client import Services
from kiln.compute_drivers.ironic.builds import Builds
from kiln.compute_drivers.ironic.catalogue import Catalogue
from kiln.compute_drivers.ironic.pool import Pool
from kiln.compute_drivers.ironic.ports import PORT, Ports
from kiln.compute_drivers.ironic.reading import Reader, Seen
from kiln.compute_drivers.ironic.releases import Releases
from kiln.exceptions import InstanceStateConflict, InvalidRequest, ResourceNotFoundError
from kiln.models import (
    Ability,
    Amphora,
    AmphoraType,
    Attachment,
    BuildRequest,
    ComputeStatus,
    DriverHealth,
    ImageFacts,
    Limits,
    Resource,
)
from kiln.openstack.session import open_session

#: Build options that bare metal does not have, and those that need Neutron.
_REFUSED = frozenset({'sec_groups', 'server_group_id'})
_CABLED = frozenset({'network_ids', 'port_ids'})
_BY_NEUTRON = frozenset(
    {
        Ability.ATTACH_PORT,
        Ability.DETACH_PORT,
        Ability.ATTACH_NETWORK,
        Ability.DETACH_NETWORK,
        Ability.LIST_RESOURCES,
        Ability.DELETE_RESOURCE,
    }
)


class IronicDriver(AmphoraComputeDriver, MachinePool):
    """Deploys amphorae on bare-metal nodes of one Ironic.

    It needs API version 1.58 or newer. A node is claimed by an allocation, whose uuid follows
    from the build key. Suspending an amphora powers its node off. Security groups, server
    groups and console logs do not exist. A deleted amphora is gone as soon as its node is
    given back; the cleaning that follows concerns the operator of the nodes alone.
    """

    options = lazy_options('kiln.compute_drivers.ironic.conf')
    #: The bench of the conformance kit; only the kit imports it.
    bench = 'kiln.compute_drivers.ironic.bench:IronicBench'
    name = 'ironic'
    # One amphora is two requests, and all of them are two lists.
    most_read_by_id = 1

    def __init__(self, conf: Any, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.clock = clock
        session, region = open_session(conf)
        self._services = Services(conf, session, region=region, clock=clock)
        self._ports = Ports(self._services, used=conf.use_neutron, networks=conf.networks)
        self._releases = Releases(self._services, self._ports, clock)
        self._reader = Reader(
            self._services, clock, claim_s=conf.claim_timeout, unfinished=self._releases.add
        )
        self._releases.reader = self._reader
        self._catalogue = Catalogue(self._services, zone_property=conf.zone_property)
        self._builds = Builds(
            conf,
            self._services,
            self._reader,
            self._catalogue,
            self._releases,
            self._ports,
            clock,
        )
        self._actions = Actions(self._services, self._reader, self._catalogue, self._ports)
        self._pool = Pool(self._services, self._catalogue)

    @classmethod
    def open(cls, conf: Any, *, name: str, owner: str, clock: Clock = SYSTEM_CLOCK) -> Self:
        driver = cls(conf, clock=clock)
        driver.name, driver.owner = name, owner
        return driver

    def close(self) -> None:
        """Stop deleting; deletes that wait are finished by the next process."""
        self._releases.close()
        self._services.close()

    # ---- limits and abilities, with Neutron or without -------------------------

    @property
    def limits(self) -> Limits:
        refused = _REFUSED | (frozenset() if self._ports.used else _CABLED)
        return Limits(amphora_types=frozenset({AmphoraType.BARE_METAL}), refused_options=refused)

    @property
    def abilities(self) -> frozenset[Ability]:
        return super().abilities - (frozenset() if self._ports.used else _BY_NEUTRON)

    # ---- build, delete, find -------------------------------------------------

    def _build(self, request: BuildRequest) -> str:
        return self._builds.build(request)

    def _delete(self, amphora_id: str) -> None:
        asked = Asked.about('delete', amphora_id)
        self._releases.delete(asked, self._reader.one(asked).claim)

    def _get(self, amphora_id: str) -> Amphora:
        return self._reader.one(Asked.about('get', amphora_id)).amphora

    def _list(self, owner: str) -> Iterable[Amphora]:
        asked = Asked(verb='list', subject=f'the amphorae of {owner}')
        return [seen.amphora for seen in self._reader.of_owner(asked, owner)]

    def _find_build(self, build_key: str) -> Amphora | None:
        asked = Asked(verb='look for build', subject=build_key, build_key=build_key)
        claim = self._reader.claim(asked, claims.uuid_of(self.owner, build_key))
        seen = None if claim is None else self._reader.seen(asked, claim)
        # Only a build with the same key can deploy what was merely claimed.
        return None if seen is None or _is_mere_claim(seen) else seen.amphora

    def _status(self, amphora_id: str) -> ComputeStatus:
        asked = Asked.about('read the status of', amphora_id)
        return self._reader.one(asked).amphora.status(self.clock.time())

    def _check(self) -> DriverHealth:
        asked = Asked(verb='check', subject='the backend')
        started = self.clock.monotonic()
        self._services.ask(asked, 'GET', '/allocations', query={'limit': 1})
        return DriverHealth(
            healthy=True,
            detail=f'API version 1.{self._services.minor(asked)}',
            latency_s=self.clock.monotonic() - started,
        )

    # ---- execution state -------------------------------------------------------

    def _suspend(self, amphora_id: str) -> None:
        self._actions.suspend(Asked.about('suspend', amphora_id))

    def _resume(self, amphora_id: str) -> None:
        self._actions.resume(Asked.about('resume', amphora_id))

    def _reboot(self, amphora_id: str, hard: bool) -> None:
        self._actions.reboot(Asked.about('reboot', amphora_id), hard=hard)

    def _rebuild(self, amphora_id: str, image_id: str | None) -> None:
        self._actions.rebuild(Asked.about('rebuild', amphora_id), image_id)

    # ---- ports and networks ------------------------------------------------------

    def _attach_port(self, amphora_id: str, port_id: str) -> Attachment:
        asked = Asked.about(f'attach port {port_id} to', amphora_id, port_id)
        return self._actions.attach_port(asked, port_id)

    def _detach_port(self, amphora_id: str, port_id: str) -> None:
        asked = Asked.about(f'detach port {port_id} from', amphora_id, port_id)
        self._actions.detach_port(asked, port_id)

    def _attach_network(self, amphora_id: str, network_id: str, address: str | None) -> Attachment:
        asked = Asked.about(f'attach network {network_id} to', amphora_id, network_id)
        return self._actions.attach_network(asked, network_id, address)

    def _detach_network(self, amphora_id: str, network_id: str) -> None:
        asked = Asked.about(f'detach network {network_id} from', amphora_id, network_id)
        self._actions.detach_network(asked, network_id)

    def _list_resources(self, owner: str) -> Iterable[Resource]:
        return self._ports.resources(Asked(verb='list', subject=f'the ports of {owner}'), owner)

    def _delete_resource(self, resource: Resource) -> None:
        asked = Asked.of(f'delete {resource.kind}', resource.id)
        if resource.kind != PORT:
            raise asked.error(InvalidRequest, 'only ports are resources of this backend.')
        try:
            holder = self._ports.holder(asked, resource.id)
        except ResourceNotFoundError:
            return
        # A port can keep the id of an amphora that is gone.
        if holder and self._statuses((holder,)):
            raise asked.error(InstanceStateConflict, f'amphora {holder} uses it.')
        self._ports.delete(asked, resource.id)

    # ---- validation --------------------------------------------------------------

    def _validate_flavor(self, flavor: str) -> None:
        self._catalogue.check_flavor(Asked.of('use flavor', flavor), flavor)

    def _validate_image(self, image_id: str) -> None:
        self._catalogue.image(Asked.of('use image', image_id), image_id)

    def _validate_zone(self, availability_zone: str) -> None:
        asked = Asked.of('use zone', availability_zone)
        self._catalogue.check_zone(asked, availability_zone)

    def _describe_image(self, image_id: str) -> ImageFacts:
        return self._catalogue.image_facts(Asked.of('use image', image_id), image_id)

    def _list_zones(self) -> Sequence[str]:
        return self._catalogue.zones(Asked(verb='list', subject='zones'))

    # ---- machine pool, for its operator ----------------------------------------

    def machines(self) -> Sequence[EnrolledMachine]:
        return self._pool.machines(Asked(verb='list', subject='the nodes'))

    def maintain(self, name: str, reason: str | None) -> None:
        self._pool.maintain(Asked.of('maintain node', name), name, reason)

    def release(self, name: str) -> None:
        self._pool.release(Asked.of('release node', name), name)


def _is_mere_claim(seen: Seen) -> bool:
    """Return True if a claim has no node that is deployed."""
    if seen.claim.deleting:
        return False
    at: Mapping[str, Any] = seen.node or {}
    return seen.claim.node_uuid is None or at.get('provision_state') == states.AVAILABLE
