"""Behaviours of calls about clusters that are not complete, and of what they tell of nodes."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.monitor import Gauge, Reading
from kiln.cluster_drivers.values import Cap
from kiln.cluster_service.verbs import run_verb
from kiln.clusters.exceptions import ClusterDriverDefect
from kiln.clusters.models import Cluster, Node, NodeState
from kiln.exceptions import KilnError
from kiln.testing.clusters import samples
from kiln.testing.clusters.fixture import ClusterFixture
from kiln.testing.clusters.road.machines import REFUSING

#: Mistakes of an author, unlike the errors of a machine that cannot be asked.
_MISTAKES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    TypeError,
    ValueError,
)
#: What formatting makes of a value that does not exist.
_NOTHING = 'None'


class Incomplete(ClusterFixture):
    """Incomplete clusters."""

    def test_a_node_without_a_machine_is_no_mistake(self) -> None:
        for what, told in self._told(self._with_a_new_node):
            self.assertNotIn(_NOTHING, told, f'{what} shows the address of a node that has none.')

    def test_a_cluster_without_nodes_is_no_mistake(self) -> None:
        for _ in self._told(lambda cluster: ()):
            pass  # none of them ends with a mistake

    def test_a_monitor_that_asks_nobody_follows_the_nodes(self) -> None:
        opened = self.nodes_driver()
        if Cap.MONITOR not in opened.capabilities:
            self.not_for_this_driver('the driver has no monitor')
        of = self.of_whole(self.a_whole(opened))
        before, asked = self._readings(opened, of)
        if asked:
            return  # the machines of a bench show it
        unknown = {one.metric.name: one.reason for one in before if one.value is None}
        self.assertEqual({}, unknown, 'All nodes are ready, and a metric has no value.')
        *others, last = of['context'].nodes[:-1]
        ill = dataclasses.replace(last, state=NodeState.UNHEALTHY)
        of['context'] = dataclasses.replace(of['context'], nodes=(*others, ill))
        now, _ = self._readings(opened, of)
        self.assertNotEqual(
            [one.value for one in before], [one.value for one in now],
            'A node is gone and another one is ill, and every metric has the same value.',
        )  # fmt: skip

    def _readings(
        self, opened: NodeClusterDriver, of: dict[str, Any]
    ) -> tuple[Sequence[Reading], bool]:
        """Return what is measured, and whether a machine was asked."""
        with self.network.playing(REFUSING):
            monitor = opened.get_monitor(**of)
            assert monitor is not None
            return Gauge(monitor, timeout_s=self.look_s).read(), bool(self.network.asked)

    def test_what_is_told_of_nodes_is_what_its_author_expects(self) -> None:
        opened = self.nodes_driver()
        cluster, shown = self.a_whole(opened), False
        for nodes in (samples.nodes_of(cluster), self._with_a_new_node(cluster)):
            of = self.of_whole(cluster)
            of['context'] = dataclasses.replace(of['context'], nodes=nodes)
            readings, answers = self.expected_readings(nodes), self.expected_answers(nodes)
            outputs = self.expected_outputs(nodes)
            with self.network.playing(REFUSING):
                for name, arguments, expected in answers:
                    found = run_verb(opened, name, of['context'], cluster, arguments)
                    self.assertEqual(expected, found, f'verb {name} with {dict(arguments)}')
                if outputs is not None:
                    self.assertEqual(outputs, _outputs(opened, of), 'the outputs')
                if readings is not None:
                    self.assertEqual(readings, _pulled(opened, of), 'the monitor')
            shown = bool(answers) or outputs is not None or readings is not None
        if not shown:
            self.not_for_this_driver('its author expects no certain answers')

    # ---- calls ---------------------------------------------------------------------

    def _with_a_new_node(self, cluster: Cluster) -> Sequence[Node]:
        """Return the nodes of a cluster, of which the youngest has no machine so far."""
        *others, last = samples.nodes_of(cluster)
        changed: dict[str, Any] = {
            'state': NodeState.PLANNED, 'compute_id': None, 'address': None,
        }  # fmt: skip
        return (*others, dataclasses.replace(last, **changed))

    def _told(self, nodes_of: Callable[[Cluster], Sequence[Node]]) -> Iterator[tuple[str, str]]:
        """Yield what a driver says about a cluster with some nodes, as text."""
        opened = self.nodes_driver()
        cluster = self.a_whole(opened)
        of = self.of_whole(cluster)
        of['context'] = dataclasses.replace(of['context'], nodes=tuple(nodes_of(cluster)))
        for name, call in self._calls(opened, of):
            with self.network.playing(REFUSING):
                try:
                    told = call()
                except ClusterDriverDefect as exc:
                    self.fail(str(exc))
                except _MISTAKES as exc:
                    self.fail(f'{name}: {type(exc).__name__}: {exc}')
                except (KilnError, OSError):
                    continue  # it asks machines, and gets no answer
            yield name, json.dumps(told, default=str)

    def _calls(
        self, opened: NodeClusterDriver, of: dict[str, Any]
    ) -> Iterator[tuple[str, Callable[[], Any]]]:
        yield 'update_cluster_status', lambda: _outputs(opened, of)
        for name, verb in opened.verbs.items():
            if not any(one.required for one in verb.parameters):
                yield (
                    f'verb {name}',
                    functools.partial(run_verb, opened, name, of['context'], of['cluster'], {}),
                )
        if Cap.MONITOR in opened.capabilities:
            yield 'the monitor', lambda: _pulled(opened, of)


def _outputs(opened: NodeClusterDriver, of: dict[str, Any]) -> Any:
    report = opened.update_cluster_status(**of)
    # An output without a ready node is None, as a value.
    given = {} if report is None else dict(report.outputs or {})
    return {name: one for name, one in given.items() if one is not None}


def _pulled(opened: NodeClusterDriver, of: dict[str, Any]) -> Any:
    monitor = opened.get_monitor(**of)
    return {} if monitor is None else dict(monitor.pull())
