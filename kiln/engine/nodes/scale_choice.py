"""The questions to a driver's scale manager: which nodes go, and which can go now."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterable, Iterator, Sequence

from kiln.clock import deadline_scope
from kiln.cluster_drivers.base import ClusterDriver
from kiln.cluster_drivers.calls import call_driver, driver_errors
from kiln.cluster_drivers.scale import ScaleManager, checked_order
from kiln.cluster_drivers.values import Context
from kiln.clusters.models import Cluster, Node
from kiln.clusters.spec import NodeGroupSpec
from kiln.engine.measuring import Meter
from kiln.engine.plan.choice import Choice, Question

#: Why a node goes that was chosen just now, in the context of the next question.
_CHOSEN = 'chosen to go'


def has_scale_manager(driver: ClusterDriver) -> bool:
    """Return whether a driver has a scale manager; otherwise the group's rules choose alone."""
    return type(driver).get_scale_manager is not ClusterDriver.get_scale_manager


class ScaleChoice:
    """Asks the scale manager of a cluster, and remembers what it has chosen. Can block."""

    def __init__(
        self, driver: ClusterDriver, context: Context, cluster: Cluster, meter: Meter
    ) -> None:
        self._driver = driver
        self._meter = meter
        self._context = meter.with_readings(driver, context, cluster)
        self._cluster = cluster

    def victims(
        self, group: NodeGroupSpec, nodes: Sequence[Node], number: int
    ) -> tuple[Node, ...]:
        """Return the nodes to remove.

        :raises RemovalRefused: the driver lets too few of them go.
        """
        with self._asking('order') as manager:
            return self._taken(manager.victims(group, nodes, number))

    def answer(self, questions: Iterable[Question], shown: Sequence[str] = ()) -> Choice:
        """Return which nodes can go now; a node that is not named has to wait.

        :raises ClusterDriverError: the driver fails, or names other nodes.
        """
        removed: list[Node] = []
        replaced: list[Node] = []
        for question in questions:
            group = self._context.group(self._cluster, question.group)
            method = 'replacement_order' if question.replaced else 'order'
            with self._asking(method) as manager:
                order = checked_order(getattr(manager, method), group, question.nodes)
            if question.replaced:
                replaced += order
            else:
                removed += self._taken(order[: question.number])
        return Choice(shown=tuple(shown), removed=_ids(removed), replaced=_ids(replaced))

    @contextlib.contextmanager
    def _asking(self, method: str) -> Iterator[ScaleManager]:
        """Pass on the scale manager; a mistake in its method is a mistake of the driver."""
        get_manager = functools.partial(
            self._driver.get_scale_manager, context=self._context, cluster=self._cluster
        )
        with deadline_scope(self._meter.deadline()):
            manager = call_driver(self._driver.name, 'get_scale_manager', get_manager)
            with driver_errors(self._driver.name, f'{type(manager).__name__}.{method}'):
                yield manager

    def _taken(self, chosen: tuple[Node, ...]) -> tuple[Node, ...]:
        """Let the next question count with the nodes that go already."""
        ids = {node.id for node in chosen}
        nodes = tuple(
            dataclasses.replace(node, doomed=node.doomed or _CHOSEN) if node.id in ids else node
            for node in self._context.nodes
        )
        self._context = dataclasses.replace(self._context, nodes=nodes)
        return chosen


def _ids(nodes: Iterable[Node]) -> tuple[str, ...]:
    return tuple(node.id for node in nodes)
