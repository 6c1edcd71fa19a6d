"""Multi-step operations: send, wait for the effect, clean up after a failure.

Nothing here blocks. Each step ends in a callback of the executor or of the watcher, which
starts the next step; the last step resolves the operation that the caller holds.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Collection
from typing import Any

from kiln.compute.effect_errors import as_kind, left_alone, told, with_what_is_left
from kiln.compute.goals import BuildGoal, OnStatus, Until
from kiln.compute.stack import Stack
from kiln.compute_drivers.calls import Call
from kiln.exceptions import (
    Advice,
    AmphoraComputeError,
    BuildFailed,
    BuildNotRunning,
    BuildTimeout,
    BuildVanished,
    ChangeFailed,
    DeleteTimeout,
    InstanceNotFoundError,
    OperationCancelled,
    OperationTimeout,
    Outcome,
)
from kiln.models import Amphora, ComputeStatus, State
from kiln.telemetry.events import Listener
from kiln.wrappers.operations.errand import Errand
from kiln.wrappers.operations.operation import Operation, OperationState
from kiln.wrappers.operations.scheduler import Appointment
from kiln.wrappers.watcher.cursors import BuildCursor
from kiln.wrappers.watcher.waiter import GoneWaiter, Waiter


class InFlight:
    """Builds in flight; reports their number to listeners."""

    def __init__(self, backend: str, listener: Listener) -> None:
        self._backend, self._listener = backend, listener
        self._flows: set[BuildFlow] = set()
        self._lock = threading.Lock()

    @property
    def count(self) -> int:
        """Number of builds that have not reached their goal."""
        return len(self._flows)

    def add(self, flow: BuildFlow) -> None:
        """Add a build."""
        with self._lock:
            self._flows.add(flow)
            count = len(self._flows)
        self._listener.builds_changed(self._backend, count)

    def drop(self, flow: BuildFlow) -> None:
        """Remove a build that has ended."""
        with self._lock:
            self._flows.discard(flow)
            count = len(self._flows)
        self._listener.builds_changed(self._backend, count)

    def close(self) -> None:
        """End the builds that wait only for their probe, because probes no longer run."""
        with self._lock:
            flows = list(self._flows)
        for flow in flows:
            flow.close()


class EffectFlow:
    """Waits until a change that the backend accepted has taken effect.

    Created before the change is sent.
    """

    def __init__(self, stack: Stack, operation: Errand[Any], goal: Collection[State]) -> None:
        self._stack = stack
        self._operation = operation
        self._goal = goal
        self._was_well = _is_well(stack.watcher.latest(operation.subject))
        self._waiting: Waiter[Any] | None = None
        self._leaving: GoneWaiter | None = None
        self._again: Appointment | None = None
        self._repeated = False

    def accepted(self, operation: Errand[Any], _: object = None) -> None:
        """Wait for one of the states of the goal."""
        operation.enter(OperationState.WAITING)
        operation.note('accepted')
        watcher, subject, deadline = self._stack.watcher, operation.subject, operation.deadline
        if State.DELETED in self._goal:
            self._leaving = watcher.watch_gone(subject, deadline=deadline, was_well=self._was_well)
            self._waiting = self._leaving
            self._repeat_later(self._stack.settings.delete_again_s)
        else:
            self._waiting = watcher.watch(subject, self._goal, deadline=deadline)
        self._waiting.then(self._seen)
        operation.then(self._stop)

    def _repeat_later(self, seconds: float) -> None:
        self._again = self._stack.scheduler.call_later(seconds, lambda: self._repeat(seconds))

    def _repeat(self, seconds: float) -> None:
        """Delete again, because a backend can accept a request and then lose it."""
        operation = self._operation
        if self._repeated and self._leaving is not None:
            # The request arrived twice, and the amphora is still in ERROR.
            self._leaving.give_up()
        if operation.done():
            return
        self._repeated = True
        operation.note('repeated')
        # Whatever the result, the watcher notices if the amphora disappears.
        with contextlib.suppress(AmphoraComputeError):
            self._stack.executor.submit(Call.DELETE, operation.subject)
        self._repeat_later(2 * seconds)

    def _seen(self, waiter: Waiter[Any]) -> None:
        error = waiter.exception()
        if self._again is not None:
            self._again.cancel()
        if error is None:
            self._operation.resolve(None)
        elif isinstance(error, OperationTimeout):
            if self._operation.kind == Call.DELETE.label:
                self._operation.fail(as_kind(DeleteTimeout, error))
            else:
                # The backend accepted it, so sending it again could have a second effect.
                self._operation.fail(as_kind(OperationTimeout, error, advice=Advice.LOOK))
        elif isinstance(error, BuildFailed):
            self._operation.fail(as_kind(ChangeFailed, left_alone(error), fault=error.fault))
        else:
            self._operation.fail(left_alone(error))

    def _stop(self, operation: Errand[Any]) -> None:
        if operation.cancelled() and self._waiting is not None:
            self._waiting.cancel()


_ACTIVE = frozenset({State.ACTIVE})


def _is_well(status: ComputeStatus | None) -> bool:
    if status is None or status.stale or status.task_state is not None:
        return False
    return status.state in (State.ACTIVE, State.SUSPENDED, State.STOPPED)


class BuildFlow:
    """Takes a build from its acceptance to its goal, or removes what it made."""

    def __init__(
        self,
        stack: Stack,
        in_flight: InFlight,
        operation: Errand[str],
        goal: BuildGoal,
        *,
        since: BuildCursor | None = None,
    ) -> None:
        assert operation.deadline is not None
        assert operation.key is not None
        self._stack = stack
        self._in_flight = in_flight
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
        self._in_flight.add(self)
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
            self._operation.fail(left_alone(error, key))
        elif error is not None:
            self._fail(self._build_error(error))
        elif self._goal.until is Until.ACTIVE:
            self._operation.resolve(self._operation.amphora_id or '')
        else:
            self._probing = True
            # A hanging probe must not delay the result.
            self._stack.scheduler.call_later(self._deadline.remaining_s(), self._look)
            self._look()

    def _look(self) -> None:
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
            self._look_later(str(exc))
            return
        read.then(self._ask)

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
            operation.fail(told(error, text, outcome=Outcome.APPLIED))

    def _ask(self, read: Errand[Amphora]) -> None:
        error = read.exception()
        if isinstance(error, InstanceNotFoundError):
            self._fail(self._build_error(error))
        elif error is not None:
            self._look_later(str(error))
        else:
            probes = self._stack.probes
            self._not_ready = f'it waited for one of {probes.size} threads that probes hold'
            probes.submit(functools.partial(self._ask_probe, read.result()))

    def _ask_probe(self, amphora: Amphora) -> None:
        """Run the probe on a thread for probes."""
        if self._operation.done():
            return
        self._not_ready = 'its last run did not return'
        probe = self._goal.probe
        try:
            agrees = probe is None or _verdict(probe(amphora))
        # A probe can report "not ready" by raising, and can raise anything.
        except BaseException as exc:
            self._look_later(str(exc) or type(exc).__name__)
            return
        if agrees:
            self._operation.note('ready')
            self._operation.resolve(self._operation.amphora_id or '')
        else:
            self._look_later('it returned False')

    def _look_later(self, why: str) -> None:
        self._not_ready = why
        if self._stack.executor.closed:
            self.close()
            return
        delay_s = min(self._stack.settings.probe_interval_s, self._deadline.remaining_s())
        self._stack.scheduler.call_later(delay_s, self._look)

    def _build_error(self, error: BaseException) -> BaseException:
        if isinstance(error, OperationTimeout):
            return as_kind(BuildTimeout, error, build_key=self._key.known)
        if isinstance(error, InstanceNotFoundError):
            return as_kind(BuildVanished, error, build_key=self._key.known)
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
                operation.fail(with_what_is_left(error, left, self._key.text))
            else:
                text = f'{error} What it built was removed.'
                operation.fail(told(error, text, outcome=Outcome.NOT_APPLIED))

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
        return told(error, text, outcome=Outcome.UNKNOWN)

    def _discard(self) -> Errand[Amphora | None]:
        return self._stack.executor.discard_build(self._key, self._operation.amphora_id)

    def _ended(self, operation: Errand[str]) -> None:
        self._in_flight.drop(self)
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


def look_up(
    stack: Stack, operation: Errand[Any], name: str | None, amphora_id: str | None
) -> Errand[Any]:
    """Find the one amphora with a name, an id, or both; return the operation."""
    call, subject = stack.driver.look_up(name, amphora_id)

    def found(operation: Errand[Any], answer: Any) -> None:
        try:
            operation.resolve(stack.driver.choose(answer, name))
        except AmphoraComputeError as exc:
            operation.fail(exc)

    return stack.executor.submit(call, subject, operation=operation, accepted=found)


def watched(
    stack: Stack, operation: Errand[Any], goal: Collection[State], on_status: OnStatus | None
) -> Errand[Any]:
    """End an operation once its amphora is in one of the states; return it."""
    waiter = stack.watcher.watch(
        operation.subject,
        goal,
        deadline=operation.deadline,
        on_status=on_status and functools.partial(operation.call_out, on_status),
    )
    operation.enter(OperationState.WAITING)

    def done(waiter: Waiter[Any]) -> None:
        if (error := waiter.exception()) is not None:
            operation.fail(left_alone(error))
        else:
            operation.resolve(waiter.result())

    operation.then(lambda done: waiter.cancel() if done.cancelled() else None)
    waiter.then(done)
    return operation
