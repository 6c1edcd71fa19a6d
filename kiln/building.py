"""From a checked request to the operation that builds it, as far and where it may."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from kiln.clock import Deadline
from kiln.compute_drivers.calls import Call
from kiln.exceptions import InvalidRequest
from kiln.flows import BuildFlow, InFlight, OnStatus, Probe, Until
from kiln.models import BuildRequest, Placement
from kiln.placement import FullPlaces, PlacedBuild
from kiln.stack import Stack
from kiln.wrappers.operation import Operation, Priority


@dataclasses.dataclass(frozen=True, slots=True)
class Goal:
    """How far a build is to go, and who hears of its way."""

    until: Until
    probe: Probe | None = None
    on_status: OnStatus | None = None
    priority: Priority = Priority.NORMAL
    #: Whether what a build may have made in vain is removed.
    discards: bool = True


class Builder:
    """Starts the builds of one backend."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._full_places = FullPlaces(stack.clock)
        self.in_flight = InFlight(stack.name, stack.listener)

    def build(
        self,
        request: BuildRequest,
        goal: Goal,
        *,
        seconds: float | None,
        placements: Sequence[Placement],
    ) -> Operation[str]:
        """Return the operation of a build; ``placements`` are tried where there is no room."""
        if not placements:
            return self._build(request, goal, seconds)
        operation = self._operation(request, seconds or self._longest_s(goal))
        PlacedBuild(
            operation,
            request,
            placements,
            self._full_places,
            lambda placed, left_s: self._build(placed, goal, left_s),
        ).start()
        return operation

    def _build(self, request: BuildRequest, goal: Goal, seconds: float | None) -> Operation[str]:
        executor = self._stack.executor
        if goal.until is Until.ACCEPTED:
            return executor.submit(
                Call.BUILD, request, timeout_s=seconds, priority=goal.priority,
                discards=goal.discards,
            )  # fmt: skip
        seconds = seconds or self._longest_s(goal)
        moment = self._stack.watcher.moment()
        sent = executor.submit(Call.BUILD, request, timeout_s=seconds, priority=goal.priority)
        operation = self._operation(request, seconds)
        flow = BuildFlow(
            self._stack,
            self.in_flight,
            operation,
            until=goal.until,
            probe=goal.probe,
            on_status=goal.on_status,
            moment=moment,
            certain=request.fresh,
        )
        flow.start(sent)
        return operation

    def _longest_s(self, goal: Goal) -> float:
        settings = self._stack.settings
        accepted = goal.until is Until.ACCEPTED
        return settings.executor.timeout_s if accepted else settings.effect_timeout_s

    def _operation(self, request: BuildRequest, seconds: float) -> Operation[str]:
        clock = self._stack.clock
        return Operation(
            'build',
            backend=self._stack.name,
            subject=request.name,
            deadline=Deadline.after(seconds, clock),
            clock=clock,
            build_key=request.build_key,
        )


def checked_until(until: Until | str, probe: Probe | None) -> Until:
    """Return how far a build is to go, or say what is wrong with that.

    :raises InvalidRequest: there is no such goal, or it does not go with the probe.
    """
    try:
        goal = Until(until)
    except ValueError:
        allowed = ', '.join(goal.value for goal in Until)
        raise InvalidRequest(f'until must be one of {allowed}, not {until!r}.') from None
    if probe is not None and goal is not Until.READY:
        raise InvalidRequest('A probe is asked only with until=Until.READY.')
    if goal is Until.READY and probe is None:
        raise InvalidRequest('until=Until.READY needs a probe, such as TcpProbe(22).')
    return goal
