"""Behaviours of repeated calls: a second call, also after a crash, has the effect of one."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kiln.cluster_drivers.base import ClusterDriver, NodeClusterDriver
from kiln.clusters.models import Node, Operation, OperationKind
from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.exceptions import KilnError
from kiln.testing.clusters import samples
from kiln.testing.clusters.fixture import ClusterFixture
from kiln.testing.clusters.road.machines import REFUSING
from kiln.testing.clusters.road.watching import HOOKS


class Repeats(ClusterFixture):
    """Repeats."""

    def test_a_hook_that_is_called_again_changes_nothing(self) -> None:
        for name in self._hooks():
            opened = self.nodes_driver()
            cluster = self.a_whole(opened)
            of = {**self.of_whole(cluster), 'operation': _operation(name, cluster.id)}
            first = self._error_of(opened, name, of)
            if first and self.network.asked:
                self._not_alone(f'{name} asks {self.network.asked[0]}: {first}')
                return
            self.assertEqual(first, self._error_of(opened, name, of), f'the second {name}')
            # After a crash another process calls.
            self.assertEqual(
                first, self._error_of(self.nodes_driver(), name, of), f'{name} after a crash'
            )

    def test_a_hook_needs_no_hook_before_it_in_the_same_process(self) -> None:
        for name in self._hooks():
            if name.startswith('post_'):
                self._succeeds_alone(name, samples.nodes_of)

    def test_what_is_gone_already_needs_no_deletion(self) -> None:
        for name in self._hooks():
            if name.endswith('_delete_cluster'):
                self._succeeds_alone(name, lambda cluster: ())

    def test_tending_a_cluster_again_reports_the_same(self) -> None:
        opened = self.nodes_driver()
        if not opened.tends:
            return
        of = self.of_whole(self.a_whole(opened))
        outcomes = [self._error_of(one, 'tend', of) for one in (opened, opened)]
        if outcomes[0] and self.network.asked:
            self._not_alone(f'tend asks {self.network.asked[0]}: {outcomes[0]}')
            return
        self.assertEqual(outcomes[0], outcomes[1])

    def test_the_choice_of_nodes_is_the_same_when_it_is_asked_for_again(self) -> None:
        opened = self.nodes_driver()
        cluster = self.a_whole(opened)
        of = self.of_whole(cluster)
        for group in cluster.spec.groups:
            members = [node for node in of['context'].nodes if node.group == group.name]
            orders = [self._order(one, of, group, members) for one in (opened, opened)]
            orders.append(self._order(self.nodes_driver(), of, group, members))
            self.assertEqual(orders[0], orders[1], group.name)
            self.assertEqual(orders[0], orders[2], group.name)

    # ---- calls ---------------------------------------------------------------------

    def _not_alone(self, why: str) -> None:
        """Not shown, unless a bench plays the machines: there each call is made twice."""
        if self.machine_bench_class() is None:
            raise CannotBeShown(why)

    def _hooks(self) -> Iterator[str]:
        self.nodes_driver()
        for name in HOOKS:
            if getattr(self.driver_class, name) is not getattr(ClusterDriver, name):
                yield name

    def _succeeds_alone(self, name: str, nodes_of: Any) -> None:
        opened = self.nodes_driver()
        cluster = self.a_whole(opened)
        context = samples.context(*nodes_of(cluster), console=self.network.console)
        operation = _operation(name, cluster.id)
        of = {'context': context, 'cluster': cluster, 'operation': operation}
        outcome = self._error_of(opened, name, of)
        if outcome and self.network.asked:
            self._not_alone(f'{name} asks {self.network.asked[0]}: {outcome}')
            return
        self.assertEqual('', outcome, name)

    def _error_of(self, opened: NodeClusterDriver, name: str, of: Mapping[str, Any]) -> str:
        """Return the error of a call; empty without one."""
        with self.network.playing(self.ready_machine or REFUSING):
            try:
                getattr(opened, name)(**of)
            except KilnError as exc:
                return str(exc)
        return ''

    def _order(
        self, opened: NodeClusterDriver, of: Mapping[str, Any], group: Any, nodes: Sequence[Node]
    ) -> list[str]:
        with self.network.playing(self.ready_machine or REFUSING):
            scale = opened.get_scale_manager(**of)
            return [node.name for node in scale.order(group, nodes)]


def _operation(hook: str, cluster_id: str) -> Operation:
    kind = OperationKind(hook.split('_')[1])
    return Operation(id=str(uuid.UUID(int=1)), cluster_id=cluster_id, kind=kind, deadline_at=600.0)
