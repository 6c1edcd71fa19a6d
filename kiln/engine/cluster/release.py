"""The driver's consent to the removal of nodes, requested before the engine lets them go."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from kiln.clusters.models import NodeState
from kiln.engine.nodes.node_cluster_state import NodeClusterState
from kiln.engine.nodes.scale_choice import ScaleChoice, has_scale_manager
from kiln.engine.plan.changes import going
from kiln.engine.plan.choice import Choice, Question, all_held
from kiln.engine.plan.desired import shown
from kiln.engine.plan.lifecycle import poll_pause_s
from kiln.exceptions import KilnError


class Release:
    """Asks the driver's scale manager, and gives its answer to one plan.

    An answer is about the nodes as they were, so the next plan starts without it. If no
    answer suits, the question is repeated after a pause, up to the deadline of the operation.
    """

    def __init__(self, state: NodeClusterState) -> None:
        self._state = state
        self._tx, self._nodes = state.tx, state.nodes
        self._shown = shown(self._tx.under_way)
        self._asks = has_scale_manager(state.driver)
        self._answer: Choice | None = None
        self._error = ''
        self._not_before = 0.0
        self._since = self._tx.monotonic
        #: True while a question is under way.
        self.busy = False

    def take_answer(self) -> tuple[Choice, bool]:
        """Return the choice for a plan, and whether it is what the driver wants now."""
        answer, self._answer = self._answer, None
        if not self._asks:
            return Choice(shown=self._shown), True
        return answer or all_held(self._shown), answer is not None

    @property
    def holds(self) -> tuple[str, ...]:
        """Why the driver has not answered, for people."""
        return (self._error,) if self._error else ()

    def ask(self, questions: Sequence[Question]) -> None:
        """Ask, unless a question is under way or was answered just now."""
        if self.busy or not questions:
            return
        if self._tx.monotonic < self._not_before:
            self._nodes.wake_at(self._not_before)
            return
        self.busy = True
        asker = ScaleChoice(
            self._state.driver, self._state.context(), self._tx.cluster, self._state.parts.meter
        )
        call = functools.partial(asker.answer, tuple(questions), self._shown)
        take = functools.partial(self._take, self._working())
        self._tx.launches.append(lambda: self._state.call(call, take))

    def progressed(self) -> None:
        """Record that nodes went: the next question is asked soon."""
        self._since = self._tx.monotonic

    def _working(self) -> frozenset[str]:
        return frozenset(
            node.id
            for node in self._nodes.nodes()
            if node.state is NodeState.READY and not going(node)
        )

    def _take(
        self, working: frozenset[str], answer: Choice | None, error: BaseException | None
    ) -> None:
        self.busy = False
        self._nodes.replan = True
        waited_s = self._tx.monotonic - self._since
        self._not_before = self._tx.monotonic + poll_pause_s(waited_s, len(self._nodes))
        self._nodes.wake_at(self._not_before)
        self._error = ''
        if error is not None:
            text = str(error) if isinstance(error, KilnError) else repr(error)
            self._error = f'the nodes that go are not chosen: {text.rstrip(".")}'
        # With a node less at work, the driver could decide differently.
        elif working <= self._working():
            self._answer = answer
