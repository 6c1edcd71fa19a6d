"""Follower of operations, which polls the store until they have ended."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kiln.cli.output.operation_progress import Course, Goal, course, goal_of_view
from kiln.clock import Clock
from kiln.clusters.exceptions import ClusterNotFound
from kiln.clusters.models import Cluster, Event, Operation

if TYPE_CHECKING:
    from kiln.cluster_service.service import Clusters

#: Seconds between two polls of the nodes of a cluster.
LOOK_S = 0.5
#: Seconds between two polls of the state of an operation.
ASK_S = 0.1


#: Shows the progress of operations, and the events since the last call.
Show = Callable[[Sequence[Course], Sequence[Event]], None]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Entered:
    """A submitted operation to follow."""

    #: The cluster; while it is paused, the operation waits until it is resumed.
    cluster: Cluster
    operation: Operation
    goal: Goal | None = None
    #: The number of the last event before it.
    after: int = 0


class Follower:
    """Polls operations and shows their progress."""

    def __init__(self, clusters: Clusters, clock: Clock, show: Show) -> None:
        self._clusters = clusters
        self._clock = clock
        self._show = show
        self._goals: dict[str, Goal] = {}
        self._last: dict[str, Course] = {}

    def follow(
        self, entered: Sequence[Entered], *, check: Callable[[], None] = lambda: None
    ) -> list[Operation]:
        """Return the operations in the given order once all have ended.

        Only reads the store, so it can be interrupted and repeated at any time.

        :param check: raises an error if they will not go on.
        """
        seqs = {one.operation.id: one.after for one in entered}
        look_at = 0.0
        while True:
            check()
            due = self._clock.monotonic() >= look_at
            # Read events first: else an end could be shown before the events leading to it.
            news = self._news(entered, seqs) if due else []
            found = [self._clusters.operation(one.operation.id) for one in entered]
            over = all(one.state.ended for one in found)
            if over or due:
                look_at = self._clock.monotonic() + LOOK_S
                if over:
                    news += self._news(entered, seqs)
                courses = [self._course(*pair) for pair in zip(entered, found, strict=True)]
                self._show(courses, news)
            if over:
                return found
            self._clock.sleep(ASK_S)

    def _course(self, entered: Entered, operation: Operation) -> Course:
        try:
            view = self._clusters.show(operation.cluster_id)
        except ClusterNotFound:
            return self._buried(entered, operation)
        if operation.id not in self._goals:
            goal = goal_of_view(view) if entered.goal is None else entered.goal
            self._goals[operation.id] = goal
        goal = self._goals[operation.id]
        found = course(view, operation, goal, self._clock.time())
        self._last[operation.id] = found
        return found

    def _buried(self, entered: Entered, operation: Operation) -> Course:
        """Return the course of a deleted cluster, with everything done."""
        last = self._last.get(operation.id)
        groups = () if last is None else last.groups
        return Course(
            name=entered.cluster.name,
            operation=operation,
            state=operation.state.value,
            ready=0,
            wanted=0,
            groups=tuple(
                dataclasses.replace(group, done=group.total, counts={}, odd=()) for group in groups
            ),
            elapsed_s=(operation.ended_at or self._clock.time()) - operation.created_at,
        )

    def _news(self, entered: Sequence[Entered], seqs: dict[str, int]) -> list[Event]:
        news: list[Event] = []
        for one in entered:
            key = one.operation.id
            found = self._clusters.events(after=seqs[key], cluster_id=one.operation.cluster_id)
            for event in found:
                seqs[key] = event.seq
                # Skip late events of an earlier operation.
                if event.operation_id in (None, key):
                    news.append(event)
        return sorted(news, key=lambda event: event.seq)
