"""Simulated cloud in memory or in a file: machines, ports, groups and faults."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kiln.clock import SYSTEM_CLOCK, Clock
from kiln.compute_drivers.authoring.adoption import adopted
from kiln.compute_drivers.noop.faults import Action, Fault, FaultScript
from kiln.compute_drivers.noop.simulation import state_machine
from kiln.compute_drivers.noop.simulation.api_gate import Gate, Latencies
from kiln.compute_drivers.noop.simulation.catalogue import Catalogue
from kiln.compute_drivers.noop.simulation.groups import Groups
from kiln.compute_drivers.noop.simulation.machines import STATUS, Machines
from kiln.compute_drivers.noop.simulation.ports import Ports
from kiln.compute_drivers.noop.simulation.store import Store
from kiln.models import Amphora, BuildRequest, State


class NoopCloud:
    """A cloud in memory, or in the file ``path``; thread-safe.

    ``accept_s`` is how long each call takes; the other latencies are the time
    from then to the effect; ``jitter``, 0 to 1, is the part by which they vary.
    ``None`` for zones, flavors, images, networks, ports, keypairs or sec_groups
    accepts any. ``group_ports`` has the ports that a security group opens to its
    members, such as ``22/tcp 7946/udp``; any other group opens all. A shared file
    holds machines, ports and groups; the offer, the latencies and the faults
    belong to each process. Open the file again after a
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
        group_ports: Mapping[str, str] | None = None,
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
            group_ports={name: text.split() for name, text in (group_ports or {}).items()},
            quota=quota,
            capacity=capacity or {},
            hosts_per_zone=hosts_per_zone,
        )
        dice = random.Random(seed)  # noqa: S311  # chances of a simulation
        #: The scripted faults: ``cloud.faults.add(Fault(...))``, ``.clear()``.
        self.faults: FaultScript = FaultScript(faults, dice=dice)
        self.store = Store(path, None if seed is None else dice, time=clock.time)
        self.ports = Ports(self.store, self.catalogue)
        self.groups = Groups(self.store)
        self.machines = Machines(self.store, self.catalogue, self.groups, clock)
        # Processes share only the wall clock; within one, time must not step.
        now = clock.time if self.store.shared else clock.monotonic
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
        self.gate = Gate(clock, now, latencies, self.faults, dice)

    def close(self) -> None:
        """Close the file; safe to repeat. A cloud in memory stays."""
        if self.store.shared:
            self.store.close()

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

    def make_unowned(self, name: str, **facts: Any) -> str:
        """Make a machine by hand, which runs and belongs to nobody; return its id.

        :param facts: further facts of a :class:`~kiln.models.BuildRequest`.
        """
        request = BuildRequest(build_key='', name=name, owner='', **facts)
        course = state_machine.Course(State.ACTIVE, None, None, None, None, None)
        with self.store.write(self.gate.catch_up()) as db:
            self.catalogue.check_request(request)
            number = self.machines.insert(db, request, None, course, self.clock.time())
            self.ports.hang_all(db, number, request, self.clock.time())
        return self.store.id_of(number)

    def outage(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which no call of this process is answered, or takes effect."""
        return self.gate.outage()

    def name_image(self, name: str, image_id: str | None) -> None:
        """Let a name stand for an image from now on, or for none."""
        if image_id is None:
            self.catalogue.image_names.pop(name, None)
        else:
            self.catalogue.image_names[name] = image_id

    def count(self) -> int:
        """Return the number of machines of all owners."""
        return self.machines.count(self.gate.catch_up())

    def instances(self) -> tuple[Amphora, ...]:
        """Return the machines of all owners, oldest first."""
        return tuple(self.machines.select(self.gate.catch_up(), 'ORDER BY number'))

    # ---- one machine ----------------------------------------------------

    def accept(self, request: BuildRequest, now: float, fault: Fault | None) -> str:
        """Place the machine of a build; return its id, or the id of the one with its key."""
        action = fault.action if fault else None
        seconds = self.gate.vary(self.gate.latencies.build_s)
        course = state_machine.set_out(state_machine.BUILD, None, now, seconds, fault)
        created_at = self.clock.time()
        with self.store.write(now) as db:
            known = self.machines.with_key(db, request.owner, request.build_key)
            if known:
                return adopted(request, known)
            # Not before: what the first request named can be gone by now.
            self.catalogue.check_request(request)
            number = self.machines.insert(db, request, request.build_key, course, created_at)
            self.ports.hang_all(db, number, request, created_at, leak=action is Action.LEAK)
            if action is Action.DUPLICATE_NAME:
                # A twin that kiln did not build: it has the name, but neither key nor ports.
                self.machines.insert(db, request, None, course, created_at)
        amphora_id = self.store.id_of(number)
        if fault and action is Action.VANISH:
            self.gate.later(fault.seconds, lambda at: self._set(amphora_id, State.DELETED, at))
        return amphora_id

    def _force(self, amphora_id: str, state: State, fault: str | None = None) -> None:
        self._set(amphora_id, state, self.gate.catch_up(), fault)

    def _set(self, amphora_id: str, state: State, now: float, fault: str | None = None) -> None:
        with self.store.write(now) as db:
            row = self.machines.row(db, 'find', STATUS, amphora_id)
            course = state_machine.Course(state, None, fault, None, None, None)
            self.machines.write(db, row['number'], course)
