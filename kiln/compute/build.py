"""Builder: operations for checked build requests, with placements tried in turn."""

from __future__ import annotations

from collections.abc import Sequence

from kiln.clock import Deadline
from kiln.compute.effect import BuildFlow, InFlight
from kiln.compute.goals import BuildGoal, Until
from kiln.compute.placement import FullPlaces, PlacedBuild
from kiln.compute.stack import Stack, beginning
from kiln.compute_drivers.calls import Call
from kiln.models import BuildRequest, Placement
from kiln.wrappers.operations.build_key import BuildKey
from kiln.wrappers.operations.errand import Errand


class Builder:
    """Starts and resumes the builds of one backend."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self._full_places = FullPlaces(stack.clock)
        self.in_flight = InFlight(stack.name, stack.listener)

    def build(
        self,
        request: BuildRequest,
        goal: BuildGoal,
        *,
        seconds: float | None,
        placements: Sequence[Placement],
    ) -> Errand[str]:
        """Return the operation of a build; try ``placements`` in turn if a place is full."""
        key = BuildKey(request.build_key, drawn=request.fresh)
        if not placements:
            return self._build(request, goal, seconds, key)
        deadline = self.stack.deadline(seconds or self.longest_s(goal))
        operation = self._operation(request.name, key, goal, deadline)
        placed = PlacedBuild(
            operation,
            request,
            placements,
            self._full_places,
            lambda placed, left_s: self._build(placed, goal, left_s, key),
            lambda amphora_id: self._discard(goal, key, amphora_id),
        )
        with beginning(operation):
            placed.start()
        return operation

    def _build(
        self, request: BuildRequest, goal: BuildGoal, seconds: float | None, key: BuildKey
    ) -> Errand[str]:
        executor = self.stack.executor
        if goal.until is Until.ACCEPTED:
            return executor.submit(
                Call.BUILD,
                request,
                timeout_s=seconds,
                priority=goal.priority,
                discards=goal.discards,
                build_key=key,
            )
        deadline = executor.deadline(seconds or self.longest_s(goal))
        operation = self._operation(request.name, key, goal, deadline)
        since = self.stack.watcher.before_build(fresh=request.fresh)
        flow = BuildFlow(self.stack, self.in_flight, operation, goal, since=since)
        with beginning(operation):
            executor.submit(Call.BUILD, request, operation=operation, accepted=flow.accepted)
        flow.start()
        return operation

    def _discard(self, goal: BuildGoal, key: BuildKey, amphora_id: str) -> None:
        if goal.discards:
            self.stack.executor.discard_build(key, amphora_id)

    def take_up(self, operation: Errand[str], goal: BuildGoal) -> None:
        """Resume a build of an earlier process: look it up by its key, never send it again."""
        executor = self.stack.executor
        if goal.until is Until.ACCEPTED:
            executor.take_up(operation)
            return
        flow = BuildFlow(self.stack, self.in_flight, operation, goal)
        executor.take_up(operation, flow.accepted)
        flow.start()

    def longest_s(self, goal: BuildGoal) -> float:
        """Return the default time limit of a build in seconds."""
        settings = self.stack.settings
        accepted = goal.until is Until.ACCEPTED
        return settings.executor.timeout_s if accepted else settings.effect_timeout_s

    def _operation(
        self, name: str, key: BuildKey, goal: BuildGoal, deadline: Deadline
    ) -> Errand[str]:
        return self.stack.operation(
            Call.BUILD.label, name, deadline, build_key=key, goal=goal, priority=goal.priority
        )
