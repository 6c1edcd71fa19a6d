"""Machines of one cluster as the bench of a driver plays them: they boot, die and lose answers."""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Collection
from typing import TypeVar

from kiln.cluster_drivers.values import Bootstrap
from kiln.clusters.models import Node
from kiln.testing.clusters.machine_bench import Booted, MachineBench, Request, Response
from kiln.testing.clusters.road.machines import SILENT, Half, Machine

#: Virtual seconds after which a node without work should be gone.
_LATE_S = 15.0
R = TypeVar('R')


class PlayedMachines:
    """What runs in the machines of a cloud, once their nodes were given something."""

    def __init__(self, bench: MachineBench, *, troubled: bool = False) -> None:
        """Take the bench.

        :param troubled: Each machine refuses the first request of each kind, and carries the
            second out, but its answer is lost. The youngest of the first machines is dead.
        """
        self.bench = bench
        self._troubled = troubled
        self._given: dict[tuple[str, int], Bootstrap] = {}
        #: By the id of the machine.
        self._booted: dict[str, Booted] = {}
        #: Machines whose disk was emptied since they booted.
        self._emptied: set[str] = set()
        #: Machines that have died, by their ids.
        self._dead: set[str] = set()
        #: True while no machine answers.
        self.all_away = False
        self._asked: collections.Counter[tuple[str, str, str]] = collections.Counter()
        #: By the name of a node: the time until which it has work.
        self._serves_until: dict[str, float] = {}
        #: Nodes that went while they had work, or long after it was done.
        self.untimely: list[str] = []
        #: Mistakes in the bench itself.
        self.errors: list[Exception] = []

    # ---- what happens to machines --------------------------------------------------

    def give(self, node: Node, given: Bootstrap) -> None:
        """Take what the machine of a node boots with."""
        self._given[node.id, node.attempt] = given

    def empty(self, machine_id: str) -> None:
        """Empty the disk of a machine, which then boots as the first time."""
        self._emptied.add(machine_id)

    def kill(self, name: str) -> None:
        """Let the machine of a node die."""
        self._die(*(one for one, booted in self._booted.items() if booted.node.name == name))

    def kill_all(self) -> None:
        """Let all machines die that run now."""
        self._die(*self._booted)

    def _die(self, *machine_ids: str) -> None:
        for one in machine_ids:
            if one not in self._dead:
                self._dead.add(one)
                self._called(self.bench.die, self._booted[one])

    def boot_again(self, name: str) -> None:
        """Let the machine of a node boot with an empty disk, also a dead one."""
        for machine_id, booted in list(self._booted.items()):
            if booted.node.name == name:
                self._called(self.bench.stop, booted)
                self._dead.discard(machine_id)
                again = dataclasses.replace(booted)
                self._booted[machine_id] = again
                self._called(self.bench.boot, again)

    def serve(self, name: str, seconds: float) -> None:
        """Let a node have work for some seconds from now."""
        self.bench.serve(name, seconds)
        self._serves_until[name] = self.bench.clock.monotonic() + seconds

    def serve_to_the_end(self, seconds: float) -> None:
        """Let all nodes have work that has nowhere to go."""
        for booted in self._booted.values():
            self.bench.serve(booted.node.name, seconds)

    def look(self, nodes: Collection[Node], there: Collection[str]) -> None:
        """Boot and stop machines: ``there`` has the ids of those that the cloud has now."""
        gone = (self._booted.keys() - there) | (self._booted.keys() & self._emptied)
        for one in gone:
            self._stop(one, self._booted[one])
        self._emptied.clear()
        for node in nodes:
            given, machine_id = self._given.get((node.id, node.attempt)), node.compute_id
            new = machine_id in there and machine_id not in self._booted
            if machine_id is not None and new and node.address and given is not None:
                self._booted[machine_id] = booted = Booted(node=node, given=given)
                self._called(self.bench.boot, booted)
                if (
                    self._troubled
                    and not self._dead
                    and node == max(nodes, key=lambda one: one.created_at)
                ):
                    self._dead.add(machine_id)

    def _stop(self, machine_id: str, booted: Booted) -> None:
        del self._booted[machine_id]
        name, now = booted.node.name, self.bench.clock.monotonic()
        early_s = self._serves_until.pop(name, now) - now
        if early_s > 0:
            self.untimely.append(f'{name} went {early_s:.0f} s before its work was done')
        if early_s < -_LATE_S:
            self.untimely.append(f'{name} went {-early_s:.0f} s after its work was done')
        self._called(self.bench.stop, booted)

    # ---- what machines answer --------------------------------------------------------

    def at(self, host: str) -> Machine:
        """Return the machine at an address."""
        for machine_id, booted in self._booted.items():
            away = self.all_away or machine_id in self._dead
            if booted.node.address == host and not away:
                return Machine(
                    ports=self.bench.ports,
                    answer=functools.partial(self._answer, booted),
                    tls=functools.partial(self.bench.tls, booted),
                )
        return SILENT

    def _answer(self, booted: Booted, request: Request) -> Response | Half | None:
        # Without the query, which can have the version of what is changed.
        kind = (booted.node.id, request.method, request.path.partition('?')[0])
        times = self._asked[kind]
        self._asked[kind] += 1
        if self._troubled and times == 0:
            return Response(status=503, body='{}')
        response = self._called(self.bench.answer, booted, request)
        if response is None:
            return Response(status=500)
        if self._troubled and times == 1:
            return Half(response) if request.method == 'GET' else None
        return response

    def _called(self, call: Callable[..., R], *arguments: object) -> R | None:
        try:
            return call(*arguments)
        # The code of an author can raise anything; the driver is not to blame for it.
        except Exception as exc:
            self.errors.append(exc)
            return None
