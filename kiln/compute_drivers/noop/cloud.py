"""Simulated cloud in memory or in a file: machines, ports, groups and faults."""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from kiln.clock import SYSTEM_CLOCK, Clock
from kiln.compute_drivers.authoring.adoption import adopted
from kiln.compute_drivers.calls import Call
from kiln.compute_drivers.noop import view
from kiln.compute_drivers.noop.faults import Action, Fault, FaultScript
from kiln.compute_drivers.noop.simulation import state_machine
from kiln.compute_drivers.noop.simulation.api_gate import Act, Gate, Latencies, no_metadata
from kiln.compute_drivers.noop.simulation.catalogue import Catalogue
from kiln.compute_drivers.noop.simulation.groups import Groups
from kiln.compute_drivers.noop.simulation.machines import STATUS, WHOLE, Machines
from kiln.compute_drivers.noop.simulation.ports import Ports
from kiln.compute_drivers.noop.simulation.store import Store
from kiln.exceptions import InstanceNotFoundError, InvalidRequest
from kiln.models import (
    Amphora,
    Attachment,
    BuildRequest,
    Changes,
    ComputeStatus,
    DriverHealth,
    ImageFacts,
    Resource,
    ServerGroup,
    State,
)

T = TypeVar('T')


class NoopCloud:
    """A cloud in memory, or in the file ``path``; thread-safe.

    ``accept_s`` is how long each call takes; the other latencies are the time
    from then to the effect; ``jitter``, 0 to 1, is the part by which they vary.
    ``None`` for zones, flavors, images, networks, ports, keypairs or sec_groups
    accepts any. A shared file holds machines, ports and groups; the offer, the
    latencies and the faults belong to each process. Open the file again after a
    fork.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        clock: Clock = SYSTEM_CLOCK,
        seed: int | None = None,
        accept_s: float = 0.0,
        build_s: float = 0.0,
        delete_s: float = 0.0,
        suspend_s: float = 0.0,
        resume_s: float = 0.0,
        reboot_s: float = 0.0,
        rebuild_s: float = 0.0,
        jitter: float = 0.0,
        faults: Iterable[Fault] = (),
        zones: Sequence[str] | None = Catalogue.zones,
        flavors: Sequence[str] | None = Catalogue.flavors,
        images: Sequence[str] | None = None,
        image_properties: Mapping[str, Mapping[str, str]] | None = None,
        networks: Sequence[str] | None = None,
        ports: Mapping[str, str] | None = None,
        keypairs: Sequence[str] | None = None,
        sec_groups: Sequence[str] | None = None,
        quota: int | None = None,
        capacity: Mapping[str, int] | None = None,
        hosts_per_zone: int = Catalogue.hosts_per_zone,
    ) -> None:
        self.clock = clock
        self.catalogue: Catalogue = Catalogue(
            zones=zones,
            flavors=flavors,
            images=images,
            image_properties=image_properties or {},
            networks=networks,
            ports=ports,
            keypairs=keypairs,
            sec_groups=sec_groups,
            quota=quota,
            capacity=capacity or {},
            hosts_per_zone=hosts_per_zone,
        )
        dice = random.Random(seed)  # noqa: S311  # chances of a simulation
        #: The scripted faults: ``cloud.faults.add(Fault(...))``, ``.clear()``.
        self.faults: FaultScript = FaultScript(faults, dice=dice)
        self._store = Store(path, None if seed is None else dice)
        self._ports = Ports(self._store, self.catalogue)
        self._groups = Groups(self._store)
        self._machines = Machines(self._store, self.catalogue, self._groups, clock)
        # Processes share only the wall clock; within one, time must not step.
        now = clock.time if self._store.shared else clock.monotonic
        latencies = Latencies(
            accept_s=accept_s,
            build_s=build_s,
            delete_s=delete_s,
            suspend_s=suspend_s,
            resume_s=resume_s,
            reboot_s=reboot_s,
            rebuild_s=rebuild_s,
            jitter=jitter,
        )
        self._gate = Gate(clock, now, latencies, self.faults, dice)

    def close(self) -> None:
        """Close the file; safe to repeat. A cloud in memory stays."""
        if self._store.shared:
            self._store.close()

    # ---- build, delete, read --------------------------------------------

    def build(self, request: BuildRequest) -> str:
        """Accept a build; return the id of the new machine, or of the one with this key."""
        return self._gate.build(request, lambda now, fault: self._build(request, now, fault))

    def delete(self, amphora_id: str) -> None:
        """Start to remove a machine; it exists until that has finished."""
        self._do(Call.DELETE, state_machine.DELETE, amphora_id)

    def get(self, amphora_id: str) -> Amphora:
        return view.amphora(self._ask(Call.GET, WHOLE, amphora_id), amphora_id)

    def status(self, amphora_id: str) -> ComputeStatus:
        row = self._ask(Call.STATUS, STATUS, amphora_id)
        return view.status(row, amphora_id, self.clock.time())

    def find(self, name: str, owner: str) -> list[Amphora]:
        """Return the machines with that name."""
        where = 'WHERE owner = ? AND name = ? ORDER BY number'
        return self._gate.serve(
            Call.FIND, lambda now, _: self._machines.select(now, where, owner, name)
        )

    def find_build(self, build_key: str, owner: str) -> Amphora | None:
        """Return the machine that was built with that key, or None."""
        where = 'WHERE owner = ? AND build_key = ?'
        found = self._gate.serve(
            Call.FIND_BUILD, lambda now, _: self._machines.select(now, where, owner, build_key)
        )
        return found[0] if found else None

    def list_machines(self, owner: str) -> Iterator[Amphora]:
        """Return all machines of an owner, read page by page."""
        return self._gate.serve(
            Call.LIST, lambda now, fault: self._machines.pages(now, owner, _lag_s(fault))
        )

    def statuses(self, amphora_ids: Sequence[str]) -> dict[str, ComputeStatus]:
        """Return the states of the machines that exist."""
        return self._gate.serve(
            Call.STATUSES, lambda now, _: self._machines.statuses(now, amphora_ids)
        )

    def changes(self, owner: str, since: str) -> Changes:
        """Return what changed since a cursor."""
        return self._gate.serve(
            Call.CHANGES,
            lambda now, fault: self._machines.changes(now, owner, since, _lag_s(fault)),
        )

    def check(self) -> DriverHealth:
        """Return that the cloud is healthy, with the number of machines."""
        started = self.clock.monotonic()
        count = self._gate.serve(Call.CHECK, lambda now, _: self._machines.count(now))
        latency_s = self.clock.monotonic() - started
        return DriverHealth(healthy=True, detail=f'{count} instances', latency_s=latency_s)

    # ---- execution state ------------------------------------------------

    def suspend(self, amphora_id: str) -> None:
        """Start to suspend a machine."""
        self._do(Call.SUSPEND, state_machine.SUSPEND, amphora_id)

    def resume(self, amphora_id: str) -> None:
        """Start to resume a machine."""
        self._do(Call.RESUME, state_machine.RESUME, amphora_id)

    def reboot(self, amphora_id: str, *, hard: bool) -> None:
        """Start to reboot a machine."""
        verb = state_machine.HARD_REBOOT if hard else state_machine.REBOOT
        self._do(Call.REBOOT, verb, amphora_id, ', boots = boots + 1')

    def rebuild(self, amphora_id: str, image_id: str | None) -> None:
        """Start to rebuild a machine from its image or another."""
        if image_id is not None:
            self.catalogue.check_offered('image', image_id, self.catalogue.images)
        also = ', boots = 1, image_id = coalesce(?, image_id)'
        self._do(Call.REBUILD, state_machine.REBUILD, amphora_id, also, image_id)

    def console_log(self, amphora_id: str, lines: int | None) -> str:
        """Return the console output of a machine."""
        return view.console(self._ask(Call.CONSOLE_LOG, WHOLE, amphora_id), lines)

    # ---- ports, networks, groups ----------------------------------------

    def attach_port(self, amphora_id: str, port_id: str) -> Attachment:
        """Attach a port to a machine, unless it is attached already."""

        def act(now: float, _: Fault | None) -> Attachment:
            with self._store.write(now) as db:
                row = self._machines.row(db, 'attach a port to', STATUS, amphora_id)
                if not self._ports.hangs(db, row['number'], 'id', port_id):
                    state_machine.check_pluggable('attach a port to', row, amphora_id)
                return self._ports.attach(db, row['number'], port_id, self.clock.time())

        return self._serve(Call.ATTACH_PORT, act, amphora_id)

    def attach_network(
        self, amphora_id: str, network_id: str, address: str | None, owner: str
    ) -> Attachment:
        """Attach a new port of a network to a machine."""

        def act(now: float, _: Fault | None) -> Attachment:
            with self._store.write(now) as db:
                row = self._machines.row(db, 'attach a network to', STATUS, amphora_id)
                state_machine.check_pluggable('attach a network to', row, amphora_id)
                return self._ports.attach_network(
                    db, row['number'], network_id, address, owner, self.clock.time()
                )

        return self._serve(Call.ATTACH_NETWORK, act, amphora_id)

    def detach_port(self, amphora_id: str, port_id: str) -> None:
        """Detach a port from a machine."""
        self._detach(Call.DETACH_PORT, amphora_id, 'id', port_id)

    def detach_network(self, amphora_id: str, network_id: str) -> None:
        """Detach all ports of a network from a machine."""
        self._detach(Call.DETACH_NETWORK, amphora_id, 'network_id', network_id)

    def create_server_group(self, name: str, policy: str, owner: str) -> ServerGroup:
        """Create a server group."""

        def act(now: float, _: Fault | None) -> ServerGroup:
            with self._store.write(now) as db:
                return self._groups.create(db, name, policy, owner, self.clock.time())

        return self._gate.serve(Call.CREATE_SERVER_GROUP, act)

    def delete_server_group(self, group_id: str) -> None:
        """Remove a server group; its members stay."""

        def act(now: float, _: Fault | None) -> None:
            with self._store.write(now) as db:
                self._groups.delete(db, group_id)

        self._gate.serve(Call.DELETE_SERVER_GROUP, act)

    # ---- validation and resources ---------------------------------------

    def validate_flavor(self, flavor: str) -> None:
        """Raise if a flavor is not offered."""
        self._validate(Call.VALIDATE_FLAVOR, 'flavor', flavor, self.catalogue.flavors)

    def validate_image(self, image_id: str) -> None:
        """Raise if an image is not offered."""
        self._validate(Call.VALIDATE_IMAGE, 'image', image_id, self.catalogue.images)

    def describe_image(self, image_id: str) -> ImageFacts:
        """Return the properties of an image; raise if it is not offered."""
        self._validate(Call.DESCRIBE_IMAGE, 'image', image_id, self.catalogue.images)
        said = self.catalogue.image_properties.get(image_id, {})
        return ImageFacts(id=image_id, name=image_id, properties=said)

    def validate_zone(self, zone: str) -> None:
        """Raise if a zone is not offered."""
        self._validate(Call.VALIDATE_ZONE, 'zone', zone, self.catalogue.zones)

    def list_zones(self) -> list[str]:
        """Return the offered zones; empty if any name is accepted as a zone."""
        return self._gate.serve(Call.LIST_ZONES, lambda *_: list(self.catalogue.zones or ()))

    def list_resources(self, owner: str) -> list[Resource]:
        """Return the ports and server groups of an owner."""

        def act(now: float, _: Fault | None) -> list[Resource]:
            with self._store.read(now) as db:
                return [*self._ports.resources(db, owner), *self._groups.resources(db, owner)]

        return self._gate.serve(Call.LIST_RESOURCES, act)

    def delete_resource(self, resource: Resource) -> None:
        """Remove a port or a server group of an owner."""

        def act(now: float, _: Fault | None) -> None:
            with self._store.write(now) as db:
                if resource.kind == Groups.KIND:
                    self._groups.delete(db, resource.id)
                elif resource.kind == Ports.KIND:
                    self._ports.delete(db, resource.id)
                else:
                    raise InvalidRequest(
                        f'Cannot delete {resource.kind} {resource.id}: the cloud has only '
                        f'resources of kind {Ports.KIND} and {Groups.KIND}.',
                        resource_id=resource.id,
                    )

        self._gate.serve(Call.DELETE_RESOURCE, act)

    # ---- the operator's side, without faults and latencies ---------------

    def stop(self, amphora_id: str) -> None:
        """Let a machine shut itself down."""
        self._force(amphora_id, State.STOPPED)

    def start(self, amphora_id: str) -> None:
        """Let a machine run again."""
        self._force(amphora_id, State.ACTIVE)

    def crash(self, amphora_id: str, fault: str = 'The host of the machine died.') -> None:
        """Let a machine end in ERROR."""
        self._force(amphora_id, State.ERROR, fault)

    def vanish(self, amphora_id: str) -> None:
        """Remove a machine without a request of its owner."""
        self._force(amphora_id, State.DELETED)

    def count(self) -> int:
        """Return the number of machines of all owners."""
        self._gate.catch_up()
        return self._machines.count(self._gate.now())

    def instances(self) -> tuple[Amphora, ...]:
        """Return the machines of all owners, oldest first."""
        self._gate.catch_up()
        return tuple(self._machines.select(self._gate.now(), 'ORDER BY number'))

    # ---- one machine ----------------------------------------------------

    def _build(self, request: BuildRequest, now: float, fault: Fault | None) -> str:
        self.catalogue.check_request(request)
        action = fault.action if fault else None
        seconds = self._gate.vary(self._gate.latencies.build_s)
        course = state_machine.set_out(state_machine.BUILD, None, now, seconds, fault)
        created_at = self.clock.time()
        with self._store.write(now) as db:
            known = self._machines.with_key(db, request.owner, request.build_key)
            if known:
                return adopted(request, known)
            number = self._machines.insert(db, request, request.build_key, course, created_at)
            self._ports.hang_all(db, number, request, created_at, leak=action is Action.LEAK)
            if action is Action.DUPLICATE_NAME:
                # A twin that kiln did not build: it has the name, but neither key nor ports.
                self._machines.insert(db, request, None, course, created_at)
        amphora_id = self._store.id_of(number)
        if fault and action is Action.VANISH:
            self._gate.later(fault.seconds, lambda at: self._set(amphora_id, State.DELETED, at))
        return amphora_id

    def _do(
        self,
        call: Call,
        verb: state_machine.Verb,
        amphora_id: str,
        also: str = '',
        *values: object,
    ) -> None:
        def act(now: float, fault: Fault | None) -> None:
            seconds = self._gate.vary(getattr(self._gate.latencies, verb.latency))
            with self._store.write(now) as db:
                row = self._machines.row(db, call.label, STATUS, amphora_id)
                if state_machine.under_way(verb, row):
                    return
                state_machine.check(verb, row, amphora_id)
                course = state_machine.set_out(verb, row, now, seconds, fault)
                self._machines.write(db, row['number'], course, also, *values)

        self._serve(call, act, amphora_id)

    def _force(self, amphora_id: str, state: State, fault: str | None = None) -> None:
        self._gate.catch_up()
        self._set(amphora_id, state, self._gate.now(), fault)

    def _set(self, amphora_id: str, state: State, now: float, fault: str | None = None) -> None:
        with self._store.write(now) as db:
            row = self._machines.row(db, 'find', STATUS, amphora_id)
            course = state_machine.Course(state, None, fault, None, None, None)
            self._machines.write(db, row['number'], course)

    def _detach(self, call: Call, amphora_id: str, column: str, value: str) -> None:
        def act(now: float, _: Fault | None) -> None:
            with self._store.write(now) as db:
                row = self._machines.row(db, call.label, STATUS, amphora_id)
                if self._ports.hangs(db, row['number'], column, value):
                    state_machine.check_pluggable('detach a port from', row, amphora_id)
                    self._ports.detach(db, row['number'], column, value)

        self._serve(call, act, amphora_id)

    # ---- reading --------------------------------------------------------

    def _serve(self, call: Call, act: Act[T], amphora_id: str) -> T:
        return self._gate.serve(call, act, amphora_id, lambda: self._metadata(amphora_id))

    def _ask(self, call: Call, columns: str, amphora_id: str) -> sqlite3.Row:
        def act(now: float, _: Fault | None) -> sqlite3.Row:
            with self._store.read(now) as db:
                return self._machines.row(db, call.label, columns, amphora_id)

        return self._serve(call, act, amphora_id)

    def _metadata(self, amphora_id: str) -> Mapping[str, str]:
        with self._store.read(self._gate.now()) as db:
            try:
                row = self._machines.row(db, 'find', STATUS, amphora_id)
            except InstanceNotFoundError:
                return no_metadata()
            return view.metadata(row['metadata'])

    def _validate(self, call: Call, kind: str, name: str, offered: Sequence[str] | None) -> None:
        self._gate.serve(call, lambda *_: self.catalogue.check_offered(kind, name, offered))


def _lag_s(fault: Fault | None) -> float | None:
    return fault.seconds if fault and fault.action is Action.STALE_LIST else None
