"""Noop compute driver: a simulated cloud behind the compute contract."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self, TypeVar

from kiln.clock import SYSTEM_CLOCK, Clock
from kiln.compute_drivers.authoring.claiming import about_claim
from kiln.compute_drivers.authoring.error_context import naming
from kiln.compute_drivers.authoring.lazy_options import lazy_options
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.calls import Call
from kiln.compute_drivers.noop import view
from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.faults import Action, Fault
from kiln.compute_drivers.noop.simulation import state_machine
from kiln.compute_drivers.noop.simulation.api_gate import Act, no_metadata
from kiln.compute_drivers.noop.simulation.groups import Groups
from kiln.compute_drivers.noop.simulation.machines import STATUS, WHOLE
from kiln.compute_drivers.noop.simulation.ports import Ports
from kiln.exceptions import ConfigurationError, InstanceNotFoundError, InvalidRequest
from kiln.models import (
    Ability,
    Amphora,
    AmphoraType,
    Attachment,
    BuildRequest,
    Changes,
    ComputeStatus,
    DriverHealth,
    ImageFacts,
    Limits,
    Resource,
    ServerGroup,
)

T = TypeVar('T')

# All other options are passed to the cloud unchanged, under the same names.
_OWN_OPTIONS = ('faults', 'missing_abilities')


class NoopDriver(AmphoraComputeDriver):
    """Builds nothing real, and fulfils the whole contract.

    No machine runs: files, keys and user data are checked and then only counted or hashed,
    and no address can be reached. A cloud in memory ends with its process; one in a file is
    shared, but its latencies, faults and what it offers belong to each process.

    Each driver has its own cloud unless it is given one; two drivers with
    different owners can share a cloud.
    """

    options = lazy_options('kiln.compute_drivers.noop.conf')
    limits = Limits(amphora_types=frozenset(AmphoraType))
    name = 'noop'
    #: The bench of the conformance kit; only the kit imports it.
    bench = 'kiln.compute_drivers.noop.bench:NoopBench'

    def __init__(self, conf: Any = None, *, cloud: NoopCloud | None = None) -> None:
        self.cloud: NoopCloud = cloud or cloud_of(conf, SYSTEM_CLOCK)
        self.clock = self.cloud.clock
        if conf is not None:
            self.missing_abilities = _abilities(conf.missing_abilities)

    @classmethod
    def open(cls, conf: Any, *, name: str, owner: str, clock: Clock = SYSTEM_CLOCK) -> Self:
        driver = cls(conf, cloud=cloud_of(conf, clock))
        driver.name, driver.owner, driver.clock = name, owner, clock
        return driver

    def close(self) -> None:
        """Close the cloud's file; a cloud in memory exists as long as it is referenced."""
        self.cloud.close()

    # ---- build, delete, read --------------------------------------------

    def _build(self, request: BuildRequest) -> str:
        accept = self.cloud.accept
        with naming(build_key=request.build_key):
            return self.cloud.gate.build(request, lambda now, fault: accept(request, now, fault))

    def _delete(self, amphora_id: str) -> None:
        self._begin(Call.DELETE, state_machine.DELETE, amphora_id)

    def _get(self, amphora_id: str) -> Amphora:
        return view.amphora(self._row(Call.GET, WHOLE, amphora_id), amphora_id)

    def _list(self, owner: str) -> Iterable[Amphora]:
        pages = self.cloud.machines.pages
        return self.cloud.gate.serve(
            Call.LIST, lambda now, fault: pages(now, owner, _lag_s(fault))
        )

    def _find(self, name: str) -> Sequence[Amphora]:
        return self._select(Call.FIND, 'name = ? ORDER BY number', name)

    def _find_build(self, build_key: str) -> Amphora | None:
        found = self._select(Call.FIND_BUILD, 'build_key = ?', build_key)
        return found[0] if found else None

    def _status(self, amphora_id: str) -> ComputeStatus:
        row = self._row(Call.STATUS, STATUS, amphora_id)
        return view.status(row, amphora_id, self.cloud.clock.time())

    def _statuses(self, amphora_ids: tuple[str, ...]) -> Mapping[str, ComputeStatus]:
        statuses = self.cloud.machines.statuses
        return self.cloud.gate.serve(Call.STATUSES, lambda now, _: statuses(now, amphora_ids))

    def _changes(self, since: str) -> Changes:
        changes = self.cloud.machines.changes
        return self.cloud.gate.serve(
            Call.CHANGES, lambda now, fault: changes(now, self.owner, since, _lag_s(fault))
        )

    def _check(self) -> DriverHealth:
        clock = self.cloud.clock
        started = clock.monotonic()
        count = self.cloud.gate.serve(Call.CHECK, lambda now, _: self.cloud.machines.count(now))
        latency_s = clock.monotonic() - started
        return DriverHealth(healthy=True, detail=f'{count} instances', latency_s=latency_s)

    # ---- execution state ------------------------------------------------

    def _suspend(self, amphora_id: str) -> None:
        self._begin(Call.SUSPEND, state_machine.SUSPEND, amphora_id)

    def _resume(self, amphora_id: str) -> None:
        self._begin(Call.RESUME, state_machine.RESUME, amphora_id)

    def _reboot(self, amphora_id: str, hard: bool) -> None:
        verb = state_machine.HARD_REBOOT if hard else state_machine.REBOOT
        self._begin(Call.REBOOT, verb, amphora_id, ', boots = boots + 1')

    def _rebuild(self, amphora_id: str, image_id: str | None) -> None:
        if image_id is not None:
            self.cloud.catalogue.check_offered('image', image_id)
        also = ', boots = 1, image_id = coalesce(?, image_id)'
        self._begin(Call.REBUILD, state_machine.REBUILD, amphora_id, also, image_id)

    def _console_log(self, amphora_id: str, lines: int | None) -> str:
        return view.console(self._row(Call.CONSOLE_LOG, WHOLE, amphora_id), lines)

    # ---- ports, networks, groups ----------------------------------------

    def _attach_port(self, amphora_id: str, port_id: str) -> Attachment:
        cloud, what = self.cloud, 'attach a port to'

        def act(now: float, _: Fault | None) -> Attachment:
            with cloud.store.write(now) as db:
                row = cloud.machines.row(db, what, STATUS, amphora_id)
                if not cloud.ports.hangs(db, row['number'], 'id', port_id):
                    state_machine.check_pluggable(what, row, amphora_id)
                return cloud.ports.attach(db, row['number'], port_id, cloud.clock.time())

        return self._serve(Call.ATTACH_PORT, act, amphora_id)

    def _attach_network(self, amphora_id: str, network_id: str, address: str | None) -> Attachment:
        cloud, what = self.cloud, 'attach a network to'

        def act(now: float, _: Fault | None) -> Attachment:
            with cloud.store.write(now) as db:
                row = cloud.machines.row(db, what, STATUS, amphora_id)
                state_machine.check_pluggable(what, row, amphora_id)
                return cloud.ports.attach_network(
                    db, row['number'], network_id, address, self.owner, cloud.clock.time()
                )

        return self._serve(Call.ATTACH_NETWORK, act, amphora_id)

    def _detach_port(self, amphora_id: str, port_id: str) -> None:
        self._detach(Call.DETACH_PORT, amphora_id, 'id', port_id)

    def _detach_network(self, amphora_id: str, network_id: str) -> None:
        self._detach(Call.DETACH_NETWORK, amphora_id, 'network_id', network_id)

    def _create_server_group(self, name: str, policy: str) -> ServerGroup:
        create, now = self.cloud.groups.create, self.cloud.clock.time
        return self._write(
            Call.CREATE_SERVER_GROUP, lambda db: create(db, name, policy, self.owner, now())
        )

    def _delete_server_group(self, server_group_id: str) -> None:
        delete = self.cloud.groups.delete
        self._write(Call.DELETE_SERVER_GROUP, lambda db: delete(db, server_group_id))

    # ---- validation and resources ---------------------------------------

    def _validate_flavor(self, flavor: str) -> None:
        self._check_offered(Call.VALIDATE_FLAVOR, 'flavor', flavor)

    def _validate_image(self, image_id: str) -> None:
        self._check_offered(Call.VALIDATE_IMAGE, 'image', image_id)

    def _validate_zone(self, availability_zone: str) -> None:
        self._check_offered(Call.VALIDATE_ZONE, 'zone', availability_zone)

    def _validate_network(self, network_id: str) -> None:
        self._check_offered(Call.VALIDATE_NETWORK, 'network', network_id)

    def _validate_security_group(self, security_group: str) -> None:
        self._check_offered(Call.VALIDATE_SECURITY_GROUP, 'security group', security_group)

    def _check_ports(
        self,
        sec_groups: tuple[str, ...],
        ports: tuple[str, ...],
        peers: tuple[str, ...] | None,
    ) -> None:
        check = self.cloud.catalogue.check_ports
        self.cloud.gate.serve(Call.CHECK_PORTS, lambda *_: check(sec_groups, ports, peers))

    def _describe_image(self, image_id: str) -> ImageFacts:
        self._check_offered(Call.DESCRIBE_IMAGE, 'image', image_id)
        found = self.cloud.catalogue.image(image_id)
        said = self.cloud.catalogue.image_properties.get(found, {})
        return ImageFacts(id=found, name=image_id, properties=said)

    def _list_zones(self) -> Sequence[str]:
        zones = self.cloud.catalogue.zones
        return self.cloud.gate.serve(Call.LIST_ZONES, lambda *_: list(zones or ()))

    def _list_resources(self, owner: str) -> Iterable[Resource]:
        cloud = self.cloud

        def act(now: float, _: Fault | None) -> list[Resource]:
            with cloud.store.read(now) as db:
                return [*cloud.ports.resources(db, owner), *cloud.groups.resources(db, owner)]

        return cloud.gate.serve(Call.LIST_RESOURCES, act)

    def _delete_resource(self, resource: Resource) -> None:
        cloud = self.cloud
        ways = {Ports.KIND: cloud.ports.delete, Groups.KIND: cloud.groups.delete}

        def delete(db: sqlite3.Connection) -> None:
            if resource.kind not in ways:
                raise InvalidRequest(
                    f'Cannot delete {resource.kind} {resource.id}: the cloud has only '
                    f'resources of kind {Ports.KIND} and {Groups.KIND}.',
                    resource_id=resource.id,
                )
            ways[resource.kind](db, resource.id)

        self._write(Call.DELETE_RESOURCE, delete)

    def _claim(self, amphora_id: str, build_key: str) -> None:
        cloud, asked = self.cloud, about_claim(amphora_id, build_key)

        def act(now: float, _: Fault | None) -> None:
            with cloud.store.write(now) as db:
                cloud.machines.claim(db, asked, self.owner)

        self._serve(Call.CLAIM, act, amphora_id)

    # ---- requests to the cloud ------------------------------------------

    def _begin(
        self,
        call: Call,
        verb: state_machine.Verb,
        amphora_id: str,
        also: str = '',
        *values: object,
    ) -> None:
        """Start an action on a machine; ``also`` sets further columns of its row."""
        cloud = self.cloud

        def act(now: float, fault: Fault | None) -> None:
            seconds = cloud.gate.vary(getattr(cloud.gate.latencies, f'{verb.name}_s'))
            with cloud.store.write(now) as db:
                row = cloud.machines.row(db, call.label, STATUS, amphora_id)
                if state_machine.under_way(verb, row):
                    return
                state_machine.check(verb, row, amphora_id)
                course = state_machine.set_out(verb, row, now, seconds, fault)
                cloud.machines.write(db, row['number'], course, also, *values)

        self._serve(call, act, amphora_id)

    def _detach(self, call: Call, amphora_id: str, column: str, value: str) -> None:
        cloud = self.cloud

        def act(now: float, _: Fault | None) -> None:
            with cloud.store.write(now) as db:
                row = cloud.machines.row(db, call.label, STATUS, amphora_id)
                if cloud.ports.hangs(db, row['number'], column, value):
                    state_machine.check_pluggable('detach a port from', row, amphora_id)
                    cloud.ports.detach(db, row['number'], column, value)

        self._serve(call, act, amphora_id)

    def _row(self, call: Call, columns: str, amphora_id: str) -> sqlite3.Row:
        cloud = self.cloud

        def act(now: float, _: Fault | None) -> sqlite3.Row:
            with cloud.store.read(now) as db:
                return cloud.machines.row(db, call.label, columns, amphora_id)

        return self._serve(call, act, amphora_id)

    def _write(self, call: Call, change: Callable[[sqlite3.Connection], T]) -> T:
        def act(now: float, _: Fault | None) -> T:
            with self.cloud.store.write(now) as db:
                return change(db)

        return self.cloud.gate.serve(call, act)

    def _select(self, call: Call, where: str, value: str) -> list[Amphora]:
        select = self.cloud.machines.select
        return self.cloud.gate.serve(
            call, lambda now, _: select(now, f'WHERE owner = ? AND {where}', self.owner, value)
        )

    def _check_offered(self, call: Call, kind: str, name: str) -> None:
        check = self.cloud.catalogue.check_offered
        self.cloud.gate.serve(call, lambda *_: check(kind, name))

    def _serve(self, call: Call, act: Act[T], amphora_id: str) -> T:
        with naming(amphora_id=amphora_id):
            return self.cloud.gate.serve(call, act, amphora_id, lambda: self._metadata(amphora_id))

    def _metadata(self, amphora_id: str) -> Mapping[str, str]:
        cloud = self.cloud
        with cloud.store.read(cloud.gate.now()) as db:
            try:
                row = cloud.machines.row(db, 'find', STATUS, amphora_id)
            except InstanceNotFoundError:
                return no_metadata()
            return view.metadata(row['metadata'])


def _lag_s(fault: Fault | None) -> float | None:
    return fault.seconds if fault and fault.action is Action.STALE_LIST else None


def cloud_of(conf: Any, clock: Clock) -> NoopCloud:
    """Return the cloud that a backend's options describe."""
    if conf is None:
        return NoopCloud(clock=clock)
    names = {option.dest for option in NoopDriver.options}.difference(_OWN_OPTIONS)
    given = {name: getattr(conf, name) for name in names}
    faults = [Fault.parse(text) for text in conf.faults.split(';') if text.strip()]
    return NoopCloud(clock=clock, faults=faults, **given)


def _abilities(names: Sequence[str]) -> frozenset[Ability]:
    try:
        return frozenset(map(Ability, names))
    except ValueError as exc:
        raise ConfigurationError(
            f'Cannot use missing_abilities: {exc}. Choose from {", ".join(Ability)}.'
        ) from exc
