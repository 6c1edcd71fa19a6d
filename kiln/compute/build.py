"""Builds: sent, tried in one place after another, awaited, removed after a failure.

Nothing here blocks, see :mod:`kiln.compute.effect`.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Sequence

from kiln.clock import Deadline
from kiln.compute.effect import converted, reworded, wait_error
from kiln.compute.goals import BuildGoal, Until
from kiln.compute.placement import FullPlaces, PlacedBuild
from kiln.compute.stack import Stack, beginning
from kiln.compute_drivers.calls import Call
from kiln.exceptions import (
    Advice,
    AmphoraComputeError,
    BuildNotRunning,
    BuildTimeout,
    BuildVanished,
    InstanceNotFoundError,
    OperationCancelled,
    OperationTimeout,
    Outcome,
)
from kiln.models import Amphora, BuildRequest, ComputeStatus, Placement, State
from kiln.wrappers.operations.build_key import BuildKey
from kiln.wrappers.operations.errand import Errand
from kiln.wrappers.operations.operation import Operation, OperationState
from kiln.wrappers.watcher.cursors import BuildCursor
from kiln.wrappers.watcher.waiter import Waiter

_ACTIVE = frozenset({State.ACTIVE})


class Builder:
    """Starts and resumes the builds of one backend."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self._full_places = FullPlaces(stack.clock)
        # Builds that have not reached their goal.
        self._flows: set[BuildFlow] = set()
        self._lock = threading.Lock()

    @property
    def in_flight(self) -> int:
        """Number of builds that have not reached their goal."""
        return len(self._flows)

    def close(self) -> None:
        """End the builds that wait only for their probe, because probes no longer run."""
        with self._lock:
            flows = list(self._flows)
        for flow in flows:
            flow.close()

    def count(self, flow: BuildFlow, *, ended: bool) -> None:
        """Count a build until it has ended, and report the number to listeners."""
        with self._lock:
            if ended:
                self._flows.discard(flow)
            else:
                self._flows.add(flow)
            count = len(self._flows)
        self.stack.listener.builds_changed(self.stack.name, count)

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
        deadline = self.stack.executor.deadline(seconds or self.longest_s(goal))
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
        flow = BuildFlow(self, operation, goal, since=since)
        with beginning(operation):
            executor.submit(Call.BUILD, request, operation=operation, accepted=flow.accepted)
        flow.start()
        return operation

    def _discard(self, goal: BuildGoal, key: BuildKey, amphora_id: str) -> None:
        if goal.discards:
            self.stack.executor.discard_build(key, amphora_id)

    def recover(self, operation: Errand[str], goal: BuildGoal) -> None:
        """Resume a build of an earlier process: look it up by its key, never send it again."""
        executor = self.stack.executor
        if goal.until is Until.ACCEPTED:
            executor.recover(operation)
            return
        flow = BuildFlow(self, operation, goal)
        executor.recover(operation, flow.accepted)
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


class BuildFlow:
    """Takes a build from its acceptance to its goal, or removes what it made."""

    def __init__(
        self,
        builder: Builder,
        operation: Errand[str],
        goal: BuildGoal,
        *,
        since: BuildCursor | None = None,
    ) -> None:
        assert operation.deadline is not None
        assert operation.key is not None
        self._builder = builder
        self._stack = builder.stack
        self._operation = operation
        self._deadline, self._key = operation.deadline, operation.key
        self._goal = goal
        self._since = since
        self._accepted = False
        self._waiting: Waiter[ComputeStatus] | None = None
        # Set when the amphora is active and only its probe is missing.
        self._probing = False
        # Set when the amphora is left in place, or its removal begins.
        self._concluded = False
        self._not_ready = ''

    def start(self) -> None:
        """Count the build, which was sent, until it has ended."""
        self._builder.count(self, ended=False)
        self._operation.then(self._ended)

    def accepted(self, operation: Errand[str], amphora_id: str) -> None:
        """Continue to the goal. Until now the executor removes what a failed call made."""
        operation.amphora_id = amphora_id
        self._accepted = True
        if not operation.enter(OperationState.WAITING):
            self._discard()
            return
        operation.note('accepted', amphora_id)
        self._waiting = self._stack.watcher.watch(
            amphora_id,
            _ACTIVE,
            deadline=self._deadline,
            on_status=self._status,
            on_outage=self._operation.hinder,
            soonest_s=self._stack.driver.soonest_build_s,
            since=None if self._since is None else self._since.sent(operation.began_at),
            # Only a caller that passed on_status needs each step.
            brief=self._goal.on_status is None,
            fails_at_rest=True,
        )
        self._waiting.then(self._active)

    def _status(self, status: ComputeStatus) -> None:
        self._operation.note(status.state.value, status.task_state or '')
        if self._goal.on_status is not None:
            self._operation.call_out(self._goal.on_status, status)

    def close(self) -> None:
        """End because kiln closes, if only the probe is missing."""
        if self._probing:
            operation = self._operation
            self._closed(
                OperationCancelled(
                    f'Cannot wait longer for {operation.subject} to be ready: kiln was closed.',
                    backend=operation.backend,
                    operation=operation.kind,
                    amphora_id=operation.amphora_id,
                    build_key=self._key.known,
                )
            )

    def _closed(self, error: OperationCancelled) -> None:
        """Leave or remove what was built, as the caller of close() requested."""
        if not self._stack.executor.keeps_builds:
            self._fail(error)
        elif not self._concluded:
            self._concluded = True
            self._operation.leave('kiln was closed')

    def _active(self, waiter: Waiter[ComputeStatus]) -> None:
        if self._operation.done():
            return
        error = waiter.exception()
        if isinstance(error, OperationCancelled):
            # Only this flow and the closing watcher hold the waiter.
            self._closed(error)
        elif isinstance(error, BuildNotRunning) and (key := self._key.known) is not None:
            # The amphora has run, so nothing has to be looked up or removed.
            self._concluded = True
            self._operation.fail(wait_error(error, key))
        elif error is not None:
            self._fail(self._build_error(error))
        elif self._goal.until is Until.ACTIVE:
            self._operation.resolve(self._operation.amphora_id or '')
        else:
            self._probing = True
            # A hanging probe must not delay the result.
            self._stack.scheduler.call_later(self._deadline.remaining_s(), self._poll)
            self._poll()

    def _poll(self) -> None:
        """Read the amphora and run the probe, until the probe succeeds."""
        operation = self._operation
        if operation.done():
            return
        if self._deadline.passed:
            self._never_ready()
            return
        try:
            read = self._stack.executor.submit(Call.GET, operation.amphora_id, once=True)
        except AmphoraComputeError as exc:
            # A full queue proves nothing about the amphora: repeat later.
            self._poll_later(str(exc))
            return
        read.then(self._after_poll)

    def _never_ready(self) -> None:
        operation, key = self._operation, self._key.known
        error = BuildTimeout(
            f'Cannot wait longer for {operation.subject}: it is active, but its '
            f'probe never succeeded ({self._not_ready or "it was not run"}).',
            outcome=Outcome.UNKNOWN,
            amphora_id=operation.amphora_id,
            build_key=key,
        )
        if key is None:
            self._fail(error)
        elif not self._concluded:
            # The amphora was observed as active and stays so in the error.
            self._concluded = True
            text = (
                f'{error} Amphora {operation.amphora_id} has run, so it is left under build '
                f'key {key!r}. Build again with that key to adopt it, or delete it.'
            )
            operation.fail(reworded(error, text, outcome=Outcome.APPLIED))

    def _after_poll(self, read: Errand[Amphora]) -> None:
        error = read.exception()
        if isinstance(error, InstanceNotFoundError):
            self._fail(self._build_error(error))
        elif error is not None:
            self._poll_later(str(error))
        else:
            probes = self._stack.probes
            self._not_ready = f'it waited for one of {probes.size} threads that probes hold'
            probes.submit(functools.partial(self._run_probe, read.result()))

    def _run_probe(self, amphora: Amphora) -> None:
        """Run the probe on a thread for probes."""
        if self._operation.done():
            return
        self._not_ready = 'its last run did not return'
        probe = self._goal.probe
        try:
            agrees = probe is None or _verdict(probe(amphora))
        # A probe can report "not ready" by raising, and can raise anything.
        except BaseException as exc:
            self._poll_later(str(exc) or type(exc).__name__)
            return
        if agrees:
            self._operation.note('ready')
            self._operation.resolve(self._operation.amphora_id or '')
        else:
            self._poll_later('it returned False')

    def _poll_later(self, why: str) -> None:
        self._not_ready = why
        if self._stack.executor.closed:
            self.close()
            return
        delay_s = min(self._stack.settings.probe_interval_s, self._deadline.remaining_s())
        self._stack.scheduler.call_later(delay_s, self._poll)

    def _build_error(self, error: BaseException) -> BaseException:
        if isinstance(error, OperationTimeout):
            return converted(BuildTimeout, error, build_key=self._key.known)
        if isinstance(error, InstanceNotFoundError):
            return converted(BuildVanished, error, build_key=self._key.known)
        return error

    def _fail(self, error: BaseException) -> None:
        """Remove what was built, then report why and what is left, before the deadline."""
        operation = self._operation
        if self._concluded:
            return
        self._concluded = True
        discarded = self._discard()
        if self._deadline.passed:
            operation.fail(self._unsure(error))
            return
        operation.note('removing', str(error))

        def removed(discarded: Errand[Amphora | None]) -> None:
            if discarded.exception() is not None:
                operation.fail(self._unsure(error))
            elif (left := discarded.result()) is not None:
                operation.fail(_with_what_is_left(error, left, self._key.text))
            else:
                text = f'{error} What it built was removed.'
                operation.fail(reworded(error, text, outcome=Outcome.NOT_APPLIED))

        discarded.then(removed)
        remaining_s = self._deadline.remaining_s()
        self._stack.scheduler.call_later(remaining_s, lambda: operation.fail(self._unsure(error)))

    def _unsure(self, error: BaseException) -> BaseException:
        # Under a key that others can know, a machine that has run is never removed.
        if (key := self._key.known) is None:
            text = (
                f'{error} What it built is being removed, unless it has run and its '
                f'build_key is read first; the removal is not confirmed.'
            )
        else:
            text = (
                f'{error} What it built is being removed, unless it has run; the removal is '
                f'not confirmed. Look for its key, {key!r}.'
            )
        return reworded(error, text, outcome=Outcome.UNKNOWN)

    def _discard(self) -> Errand[Amphora | None]:
        return self._stack.executor.discard_build(self._key, self._operation.amphora_id)

    def _ended(self, operation: Errand[str]) -> None:
        self._builder.count(self, ended=True)
        if not operation.cancelled() or self._concluded:
            return
        if self._waiting is not None:
            self._waiting.cancel()
        if self._accepted:
            self._discard()


def _verdict(answer: object) -> bool:
    """Return the result of a probe as a bool; raise if it is not valid."""
    if answer is None or isinstance(answer, bool):
        return bool(answer)
    if inspect.iscoroutine(answer):
        # Otherwise Python would warn that the coroutine was never awaited.
        answer.close()
    # Nearly every object is true, also operations and generators, regardless of their result.
    name = 'Operation' if isinstance(answer, Operation) else type(answer).__name__
    raise TypeError(
        f'it returned an object of type {name}, which is not an answer: it must return True or '
        f'False'
    )


def _with_what_is_left(error: BaseException, left: Amphora, build_key: str) -> BaseException:
    """Return the error of a build that found, or left, a machine that has run."""
    if left.state is State.ACTIVE:
        advice, to_do = Advice.REPEAT, 'Build again with its key to adopt it, or delete it'
    else:
        # Another build would wait for the same machine, without success.
        advice, to_do = Advice.REPAIR, 'Repair it, or delete it'
    return reworded(
        error,
        f'{error} Amphora {left.id}, under build key {build_key!r}, is {left.state.value} '
        f'and has run before, so it was left as it is. {to_do}.',
        outcome=Outcome.APPLIED,
        advice=advice,
        amphora_id=left.id,
        build_key=build_key,
    )
