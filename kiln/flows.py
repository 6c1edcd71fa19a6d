"""Operations of several steps: send, wait for the effect, clean up if it fails.

Nothing here blocks. Each step ends in a callback of the executor or of the
watcher, which takes the next one; the operation the caller holds is resolved
by the last.
"""

from __future__ import annotations

import contextlib
import enum
import threading
from collections.abc import Callable, Collection
from typing import Any

from kiln.compute_drivers.calls import Call
from kiln.exceptions import (
    AmphoraBuildError,
    AmphoraComputeError,
    BuildTimeout,
    DeleteTimeout,
    InstanceNotFoundError,
    OperationTimeout,
    Outcome,
)
from kiln.listeners import Listener
from kiln.models import Amphora, ComputeStatus, State
from kiln.stack import Stack
from kiln.wrappers.moments import Moment, Order
from kiln.wrappers.operation import Operation, OperationState
from kiln.wrappers.scheduler import Appointment
from kiln.wrappers.watch import Watch

Probe = Callable[[Amphora], bool]
OnStatus = Callable[[ComputeStatus], None]


class Until(enum.StrEnum):
    """How far a build goes before its operation is done."""

    #: The backend has agreed; the id is known.
    ACCEPTED = 'accepted'
    #: The backend says that it runs.
    ACTIVE = 'active'
    #: It runs, and the probe says that it serves.
    READY = 'ready'


class InFlight:
    """Counts the builds on their way, and tells listeners."""

    def __init__(self, backend: str, listener: Listener) -> None:
        self._backend, self._listener = backend, listener
        self._count = 0
        self._lock = threading.Lock()

    @property
    def count(self) -> int:
        """How many builds are not at their goal yet."""
        return self._count

    def add(self, step: int) -> None:
        """Count one more, or one less."""
        with self._lock:
            self._count += step
            count = self._count
        self._listener.builds_changed(self._backend, count)


class EffectFlow:
    """Waits until a change that the backend agreed to has really happened."""

    def __init__(self, stack: Stack, operation: Operation[Any]) -> None:
        self._stack = stack
        self._operation = operation
        self._waiting: Watch[Any] | None = None
        self._again: Appointment | None = None

    def start(self, sent: Operation[Any], goal: Collection[State] | None) -> None:
        """Wait for a goal, or for the amphora to be gone where there is none."""
        self._operation.add_done_callback(lambda _: self._stop(sent))

        def agreed(sent: Operation[Any]) -> None:
            if (error := sent.exception()) is not None:
                self._operation.fail(error)
                return
            self._operation.enter(OperationState.WAITING)
            self._operation.note('accepted')
            watcher, subject = self._stack.watcher, self._operation.subject
            deadline = self._operation.deadline
            self._waiting = (
                watcher.watch_gone(subject, deadline=deadline)
                if goal is None
                else watcher.watch(subject, goal, deadline=deadline)
            )
            if goal is None:
                self._repeat_later(self._stack.settings.delete_again_s)
            self._waiting.add_done_callback(self._seen)

        sent.add_done_callback(agreed)

    def _repeat_later(self, seconds: float) -> None:
        self._again = self._stack.scheduler.call_later(seconds, lambda: self._repeat(seconds))

    def _repeat(self, seconds: float) -> None:
        """Delete once more: a backend may agree, and lose the order on its way within."""
        operation = self._operation
        if operation.done():
            return
        operation.note('repeated')
        # Whatever this one is answered, the watcher sees whether the amphora goes.
        with contextlib.suppress(AmphoraComputeError):
            self._stack.executor.submit(Call.DELETE, operation.subject)
        self._repeat_later(2 * seconds)

    def _seen(self, watch: Watch[Any]) -> None:
        error = watch.exception()
        if self._again is not None:
            self._again.cancel()
        if error is None:
            self._operation.resolve(None)
        elif isinstance(error, OperationTimeout) and self._operation.kind == Call.DELETE.label:
            self._operation.fail(_as(DeleteTimeout, error))
        else:
            self._operation.fail(error)

    def _stop(self, sent: Operation[Any]) -> None:
        if self._operation.cancelled():
            sent.cancel()
            if self._waiting is not None:
                self._waiting.cancel()


_ACTIVE = frozenset({State.ACTIVE})


class BuildFlow:
    """Takes a build from its acceptance to its goal, or leaves nothing behind."""

    def __init__(
        self,
        stack: Stack,
        in_flight: InFlight,
        operation: Operation[str],
        *,
        until: Until,
        probe: Probe | None = None,
        on_status: OnStatus | None = None,
        moment: Moment | None = None,
        certain: bool = False,
    ) -> None:
        assert operation.deadline is not None
        assert operation.build_key is not None
        self._stack = stack
        self._in_flight = in_flight
        self._operation = operation
        self._deadline, self._build_key = operation.deadline, operation.build_key
        self._until = until
        self._probe = probe
        self._on_status = on_status
        self._moment, self._certain = moment, certain
        self._sent: Operation[str] | None = None
        self._waiting: Watch[ComputeStatus] | None = None
        self._not_ready = ''

    def start(self, sent: Operation[str]) -> None:
        """Go on as soon as the backend has agreed."""
        self._in_flight.add(1)
        self._sent = sent
        self._operation.add_done_callback(self._ended)
        sent.add_done_callback(self._agreed)

    def _agreed(self, sent: Operation[str]) -> None:
        if (error := sent.exception()) is not None:
            # Whatever the lost call may have made, the executor removes it.
            self._operation.fail(error)
            return
        amphora_id = sent.result()
        self._operation.amphora_id = amphora_id
        order = None
        if self._moment is not None:
            order = Order(self._moment, sent.began_at or self._moment.at, self._certain)
        # The longest part begins: what has done its work is let go, since ten
        # thousand builds may wait here.
        self._sent = None
        if self._operation.done():
            self._discard()
            return
        self._operation.enter(OperationState.WAITING)
        self._operation.note('accepted', amphora_id)
        self._waiting = self._stack.watcher.watch(
            amphora_id,
            _ACTIVE,
            deadline=self._deadline,
            on_status=self._status,
            soonest_s=self._stack.driver.soonest_build_s,
            order=order,
            # Each step on the way is of interest to nobody but who asked to hear of it.
            brief=self._on_status is None,
        )
        self._waiting.add_done_callback(self._active)

    def _status(self, status: ComputeStatus) -> None:
        self._operation.note(status.state.value, status.task_state or '')
        if self._on_status is not None:
            self._on_status(status)

    def _active(self, watch: Watch[ComputeStatus]) -> None:
        if self._operation.done():
            return
        error = watch.exception()
        if error is not None:
            self._fail(self._build_error(error))
        elif self._until is Until.ACTIVE:
            self._operation.resolve(self._operation.amphora_id or '')
        else:
            # A probe that hangs must not hold up the verdict.
            self._stack.scheduler.call_later(self._deadline.remaining_s(), self._look)
            self._look()

    def _look(self) -> None:
        """Ask the probe, on a thread of the pool, until it agrees."""
        operation = self._operation
        if operation.done():
            return
        if self._deadline.passed:
            self._fail(
                BuildTimeout(
                    f'Cannot wait longer for {operation.subject}: it is active, but its '
                    f'probe never agreed ({self._not_ready or "it was not asked yet"}).',
                    amphora_id=operation.amphora_id,
                    build_key=self._build_key,
                )
            )
            return
        try:
            asked = self._stack.executor.run(self._ask_probe)
        except AmphoraComputeError as exc:
            # A full queue is no verdict on the amphora: ask again later.
            self._not_ready = str(exc)
            self._look_later()
            return
        asked.add_done_callback(self._probed)

    def _ask_probe(self) -> bool:
        amphora: Amphora = self._stack.executor.inner.perform(Call.GET, self._operation.amphora_id)
        return self._probe is None or bool(self._probe(amphora))

    def _probed(self, asked: Operation[bool]) -> None:
        error = asked.exception()
        if isinstance(error, InstanceNotFoundError):
            self._fail(self._build_error(error))
        elif error is None and asked.result():
            self._operation.note('ready')
            self._operation.resolve(self._operation.amphora_id or '')
        else:
            self._not_ready = str(error) if error else 'it answered no'
            self._look_later()

    def _look_later(self) -> None:
        delay_s = min(self._stack.settings.probe_interval_s, self._deadline.remaining_s())
        self._stack.scheduler.call_later(delay_s, self._look)

    def _build_error(self, error: BaseException) -> BaseException:
        if isinstance(error, OperationTimeout):
            return _as(BuildTimeout, error, build_key=self._build_key)
        if isinstance(error, InstanceNotFoundError):
            return _as(
                AmphoraBuildError,
                error,
                outcome=Outcome.NOT_APPLIED,
                build_key=self._build_key,
            )
        return error

    def _fail(self, error: BaseException) -> None:
        """Remove what was built, then say why; but never later than the deadline."""
        operation = self._operation
        discarded = self._discard()
        if self._deadline.passed:
            operation.fail(error)
            return
        operation.note('removing', str(error))
        discarded.add_done_callback(lambda _: operation.fail(error))
        remaining_s = self._deadline.remaining_s()
        self._stack.scheduler.call_later(remaining_s, lambda: operation.fail(error))

    def _discard(self) -> Operation[Any]:
        return self._stack.executor.discard_build(self._build_key, self._operation.amphora_id)

    def _ended(self, operation: Operation[str]) -> None:
        self._in_flight.add(-1)
        if not operation.cancelled():
            return
        sent, waiting = self._sent, self._waiting
        if waiting is not None:
            waiting.cancel()
        # Where the call cannot be called back, its answer finds the operation
        # done, and discards; where it was answered, that is done here.
        if sent is None or (not sent.cancel() and sent.exception() is None):
            self._discard()


def _as(kind: type[AmphoraComputeError], error: BaseException, **facts: Any) -> BaseException:
    """Return an error of another class that says the same, caused by the first."""
    facts.setdefault('amphora_id', getattr(error, 'amphora_id', None))
    changed = kind(str(error), **facts)
    changed.__cause__ = error
    return changed


def derived(
    stack: Stack, kind: str, source: Operation[Any], convert: Callable[[Any], Any]
) -> Operation[Any]:
    """Return an operation that gives another's result in another form."""
    operation: Operation[Any] = Operation(
        kind,
        backend=stack.name,
        subject=source.subject,
        deadline=source.deadline,
        clock=stack.clock,
    )

    def done(source: Operation[Any]) -> None:
        if (error := source.exception()) is not None:
            operation.fail(error)
            return
        try:
            operation.resolve(convert(source.result()))
        except AmphoraComputeError as exc:
            operation.fail(exc)

    operation.add_done_callback(lambda done: source.cancel() if done.cancelled() else None)
    source.add_done_callback(done)
    return operation


def followed(watch: Watch[Any], operation: Operation[Any]) -> Operation[Any]:
    """Return an operation that ends as a watch does."""
    operation.enter(OperationState.WAITING)

    def done(watch: Watch[Any]) -> None:
        if (error := watch.exception()) is not None:
            operation.fail(error)
        else:
            operation.resolve(watch.result())

    operation.add_done_callback(lambda done: watch.cancel() if done.cancelled() else None)
    watch.add_done_callback(done)
    return operation
