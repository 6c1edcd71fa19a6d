"""Behaviours of waiting: no call waits longer than kiln lets it; in virtual time."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

from kiln.clock import Deadline, deadline_scope
from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.values import Drained
from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.exceptions import KilnError
from kiln.testing.clusters.fixture import ClusterFixture
from kiln.testing.clusters.road.machines import AWAY, REFUSING, SILENT
from kiln.testing.clusters.road.network import WaitsForever

#: Virtual seconds that bootstrap can wait: it computes what a node is given.
_BOOTSTRAP_S = 1.0
#: A poll that keeps its deadline can be a little late.
_LATE_S = 1.0
_POLLS = 30


class Waiting(ClusterFixture):
    """Time."""

    def test_bootstrap_does_not_wait(self) -> None:
        opened = self.nodes_driver()
        of = self.of_whole(self.a_whole(opened))
        node = of['context'].nodes[-1]
        with self.network.playing(SILENT):
            self._waits(_BOOTSTRAP_S, 'bootstrap', lambda: opened.bootstrap(**of, node=node))

    def test_a_poll_of_a_machine_that_is_away_ends_by_its_deadline(self) -> None:
        opened = self.nodes_driver()
        of = self.of_whole(self.a_whole(opened))
        node = of['context'].nodes[-1]
        for words, machine in AWAY.items():
            for name in ('is_ready', 'drain'):
                poll = functools.partial(getattr(opened, name), **of, node=node)
                with self.network.playing(machine):
                    deadline = Deadline.after(self.look_s, self.network.clock)
                    with deadline_scope(deadline):
                        self._waits(
                            self.look_s + _LATE_S, f'{name} of a machine that {words}', poll
                        )  # fmt: skip

    def test_a_drain_ends_if_nothing_can_change_it(self) -> None:
        opened = self.nodes_driver()
        if type(opened).drain is NodeClusterDriver.drain:
            return
        of = self.of_whole(self.a_whole(opened))
        last = of['context'].nodes[-1]
        gone = dataclasses.replace(last, compute_id=None, address=None)
        for node in (last, gone):
            with self.network.playing(self.drained_machine or REFUSING):
                done = self._polled(functools.partial(opened.drain, **of, node=node))
                asked = self.network.asked
            if not done and asked and self.machine_bench_class() is not None:
                return  # a node of its cluster goes once its work is done
            if not done and asked and self.drained_machine is None:
                raise CannotBeShown(
                    f'the driver asks {asked[0]}; set drained_machine to what it answers'
                )
            self.assertTrue(done, f'{node.name} is not drained after {_POLLS} polls.')

    def _polled(self, poll: Callable[[], Drained]) -> bool:
        for _ in range(_POLLS):
            try:
                if poll().done:
                    return True
            except KilnError:
                pass  # counts as not done
            self.network.clock.advance(1.0)
        return False

    def _waits(self, at_most_s: float, what: str, call: Callable[[], object]) -> None:
        started = self.network.clock.monotonic()
        try:
            call()
        except KilnError:
            pass  # an error of the contract is an answer, too
        except WaitsForever as exc:
            self.fail(f'{what} does not end: {exc}')
        took_s = self.network.clock.monotonic() - started
        if took_s > at_most_s:
            self.broken(f'{what} ends within {at_most_s:g} s', f'it waits for {took_s:.1f} s')
