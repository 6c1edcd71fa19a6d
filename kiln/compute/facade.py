"""Compute: the facade for controllers; every call returns an Operation at once."""

from __future__ import annotations

import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Self

from kiln.compute.build import Builder
from kiln.compute.effect import look_up, watched
from kiln.compute.goals import BuildGoal, OnStatus, Until
from kiln.compute.optional_calls import OptionalCalls, name_errors
from kiln.compute.recovery import WATCH, recover
from kiln.compute.stack import (
    Stack,
    StackSettings,
    assemble,
    beginning,
    check_listeners,
    check_parts,
)
from kiln.compute_drivers import validation
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.calls import Call
from kiln.exceptions import ForkedError, InvalidRequest, Outcome
from kiln.models import (
    Amphora,
    AmphoraType,
    Capabilities,
    Changes,
    ComputeStatus,
    DriverHealth,
    Placement,
    State,
)
from kiln.telemetry.events import Listener
from kiln.wrappers.circuit.settings import CircuitSnapshot
from kiln.wrappers.executor.workers import IMPORTING
from kiln.wrappers.operations.operation import Operation, Priority
from kiln.wrappers.watcher.probe import Probe

#: All facades of this process, for the child of a fork.
_COMPUTES: weakref.WeakSet[Compute] = weakref.WeakSet()
#: Builders that the parent processes had opened when they forked.
_OF_PARENTS: list[Builder] = []


class Compute(OptionalCalls):
    """One backend behind all its guards.

    Arguments are checked on the caller's thread and a wrong one raises at once, and so do
    a full queue and an open circuit. Everything else happens on kiln's threads and ends
    in the :class:`Operation` that each method returns.

    As a context manager, ``with`` or ``async with``, a facade is closed at the end of the
    block with the defaults of :meth:`close`: **builds that are still in flight are
    removed**, whether the block ends normally or by an exception, KeyboardInterrupt and
    SystemExit included. To keep these builds, call ``close(keep_builds=True)`` within the
    block; the end of the block then has no effect.

    A facade that is collected without being closed emits a ResourceWarning, and its
    threads end as soon as its last operation is done. Nothing is removed or cancelled, and
    the driver is not closed, because a caller can hold it from :attr:`driver`. The exit of
    the interpreter does not wait for kiln's threads, removes nothing, and leaves builds in
    flight in the backend.

    In the child of ``os.fork()`` the operations of the parent end at once with
    ForkedError, without their callbacks, and the child never removes or cancels anything
    of the parent. A facade from ``open_compute`` opens its driver again when the child
    first uses it. A facade around a driver that was passed in cannot do so, and each of
    its calls raises ForkedError.
    """

    def __init__(
        self,
        driver: AmphoraComputeDriver,
        *,
        settings: StackSettings | None = None,
        listeners: Iterable[Listener] = (),
        reopen: Callable[[], AmphoraComputeDriver] | None = None,
    ) -> None:
        check_parts(driver, settings, reopen)
        self._name = driver.name
        self._settings, self._listeners = settings or StackSettings(), check_listeners(listeners)
        # Opens a driver for the child of a fork.
        self._reopen = reopen
        self._opening = threading.Lock()
        self._is_closed = False
        # None in the child of a fork until the child uses it.
        self._opened: Builder | None = None
        self._opened = Builder(assemble(driver, self._settings, self._listeners))
        _COMPUTES.add(self)

    # ---- what it is ------------------------------------------------------

    @property
    def name(self) -> str:
        """The name of the backend."""
        return self._name

    def __repr__(self) -> str:
        return f'<Compute {self._name}>'

    @property
    def driver(self) -> AmphoraComputeDriver:
        """The vendor's driver without any guard, for tests and repairs."""
        return self._stack.driver

    @property
    def guarded(self) -> AmphoraComputeDriver:
        """The whole stack as a plain driver; its calls block until they are done."""
        return self._stack.executor

    def capabilities(self) -> Capabilities:
        """Return the driver's capabilities, without a request to the backend."""
        return self._stack.driver.capabilities()

    @name_errors
    def check(self, *, timeout: float | None = None) -> Operation[DriverHealth]:
        """Check the health of the backend, once, without changing anything."""
        return self._submit(Call.CHECK, timeout=timeout)

    # ---- build, delete, find ---------------------------------------------

    @name_errors
    def build(
        self,
        amphora_type: AmphoraType | str = AmphoraType.VM,
        amphora_flavor: str | None = None,
        image_id: str | None = None,
        keys: Iterable[str] | None = None,
        sec_groups: Iterable[str] | None = None,
        network_ids: Iterable[str] | None = None,
        config_drive_files: Mapping[str, Any] | None = None,
        user_data: Any = None,
        *,
        name: str | None = None,
        build_key: str | None = None,
        port_ids: Iterable[str] | None = None,
        availability_zone: str | None = None,
        server_group_id: str | None = None,
        metadata: Mapping[str, str] | None = None,
        timeout: float | None = None,
        until: Until | str = Until.ACCEPTED,
        probe: Probe | None = None,
        on_status: OnStatus | None = None,
        priority: Priority = Priority.NORMAL,
        placements: Iterable[Placement] = (),
        discard: bool = True,
    ) -> Operation[str]:
        """Build an amphora; the result is its id, once the build is as far as ``until``.

        A build that fails, is cancelled or misses its deadline removes what it made.
        Repeating a build with the same ``build_key`` adopts what exists; if the existing
        amphora has another type, flavor, image or name, the operation ends with
        BuildDiffers, and nothing was done. Under a key that was passed in, or was read
        from the operation, a machine that has run is never removed: the error names it.
        If a place has no room, ``placements`` are tried in turn, recently full places last.

        With ``discard=False`` and ``until='accepted'``, an amphora that the backend might
        have accepted is left in place if its acceptance is uncertain: for a caller that
        looks up its key later, or a successor that might already have adopted it.

        :raises InvalidBuildRequest: wrong arguments.
        :raises OperationRejected: the queue is full.
        :raises CircuitOpenError: the circuit of the backend is open.
        """
        # Passed on by name: the request checks the type of each argument.
        given, driver = locals(), self._stack.driver
        request = validation.build_request(driver.limits, given, owner=driver.owner)
        goal = BuildGoal.checked(until, probe, on_status, priority=priority, discards=discard)
        others = validation.check_placements(placements, driver.limits)
        seconds = validation.check_timeout(timeout)
        return self._builder.build(request, goal, seconds=seconds, placements=others)

    @name_errors
    def delete(
        self,
        amphora_id: str,
        *,
        timeout: float | None = None,
        wait: bool = False,
        priority: Priority = Priority.NORMAL,
    ) -> Operation[None]:
        """Delete an amphora; safe to repeat. With ``wait`` it ends when the amphora is gone."""
        validation.check_member('priority', priority, Priority)
        return self._effect(
            Call.DELETE,
            amphora_id,
            goal={State.DELETED},
            wait=wait,
            timeout=timeout,
            priority=priority,
        )

    @name_errors
    def status(self, amphora_id: str, *, timeout: float | None = None) -> Operation[ComputeStatus]:
        """Return the status of an amphora."""
        return self._submit(Call.STATUS, amphora_id, timeout=timeout)

    @name_errors
    def latest(self, amphora_id: str) -> ComputeStatus | None:
        """Return the status that the watcher polled last, marked stale if it is outdated.

        None for an amphora that the watcher has not polled, such as a build in flight; to
        follow a build, pass ``on_status`` to it. Makes no request to the backend.
        """
        return self._stack.watcher.latest(validation.check_text('amphora_id', amphora_id))

    @name_errors
    def get_amphora(
        self,
        amphora_name: str | None = None,
        amphora_id: str | None = None,
        *,
        timeout: float | None = None,
    ) -> Operation[Amphora]:
        """Find an amphora by name or by id; if both are given, both must match."""
        stack = self._stack
        call, subject = stack.driver.look_up(amphora_name, amphora_id)
        deadline = stack.executor.deadline(validation.check_timeout(timeout))
        operation = stack.operation(call.label, subject, deadline)
        operation.arguments = (amphora_name, amphora_id)
        with beginning(operation):
            return look_up(stack, operation, amphora_name, amphora_id)

    @name_errors
    def find_build(
        self, build_key: str, *, timeout: float | None = None
    ) -> Operation[Amphora | None]:
        """Return the amphora built with a key; None only if it certainly does not exist."""
        return self._submit(Call.FIND_BUILD, build_key, timeout=timeout)

    # ---- many at once ----------------------------------------------------

    @name_errors
    def list_amphorae(
        self, *, owner: str | None = None, timeout: float | None = None
    ) -> Operation[Sequence[Amphora]]:
        """Return every amphora of an owner, by default of this site."""
        owner = self._stack.driver.owner if owner is None else owner
        return self._submit(Call.LIST, owner, timeout=timeout)

    @name_errors
    def statuses(
        self, amphora_ids: Iterable[str], *, timeout: float | None = None
    ) -> Operation[Mapping[str, ComputeStatus]]:
        """Return the status of many amphorae; an id missing from the result does not exist."""
        return self._submit(Call.STATUSES, amphora_ids, timeout=timeout)

    @name_errors
    def changes(self, since: str = '', *, timeout: float | None = None) -> Operation[Changes]:
        """Return changes since an earlier cursor; without a cursor, everything."""
        return self._submit(Call.CHANGES, since, timeout=timeout)

    @name_errors
    def watch(
        self,
        amphora_id: str,
        goal: Collection[State] = frozenset({State.ACTIVE}),
        *,
        timeout: float | None = None,
        on_status: OnStatus | None = None,
    ) -> Operation[ComputeStatus]:
        """Wait for one of the states; any other final state, gone or ERROR, is an error."""
        amphora_id = validation.check_text('amphora_id', amphora_id)
        goals = validation.check_states(goal)
        if on_status is not None:
            validation.check_callable('on_status', on_status)
        operation = self._waiting(WATCH, amphora_id, goals, timeout)
        return watched(self._stack, operation, goals, on_status)

    # ---- after a restart -------------------------------------------------

    @name_errors
    def recover(
        self,
        saved: Mapping[str, Any],
        *,
        probe: Probe | None = None,
        on_status: OnStatus | None = None,
    ) -> Operation[Any]:
        """Resume an operation that another process saved with ``to_dict()``.

        It continues to the same goal: a build until it is as far as its ``until``, a wait
        until the effect shows. A build is looked up by its key and never sent again.
        Other operations are repeated if that is safe; otherwise, if their acceptance was
        never observed, they report an unknown outcome. What was done stays done. A
        deadline that has passed is renewed.

        ``probe`` replaces the saved probe. It is required if the saved probe was a
        function of the caller, which a record cannot hold.

        :raises InvalidRequest: not a record of an operation of this backend.
        :raises OperationRejected: the queue is full.
        """
        return recover(self._builder, saved, probe=probe, on_status=on_status)

    # ---- circuits --------------------------------------------------------

    def circuits(self) -> list[CircuitSnapshot]:
        """Return the state of each circuit of this backend."""
        return [circuit.snapshot() for circuit in self._stack.breaker.circuits.values()]

    @name_errors
    def open_circuit(self, name: str) -> None:
        """Open a circuit by hand, until it is closed by hand, or for a day if it is shared."""
        self._circuit(name).isolate()

    @name_errors
    def close_circuit(self, name: str) -> None:
        """Close a circuit by hand and forget the failures that opened it."""
        self._circuit(name).close()

    # ---- the end ---------------------------------------------------------

    @property
    def builds_in_flight(self) -> int:
        """Number of builds that have not reached their goal."""
        return self._builder.in_flight

    @name_errors
    def close(self, wait_s: float = 10.0, *, keep_builds: bool = False) -> None:
        """Stop; every operation that is not done ends with OperationCancelled.

        Calls in progress at the backend can end within ``wait_s``; callbacks have the same
        time, and at least a second. Builds in flight are removed as far as ``wait_s``
        allows, but a machine that has run is never removed under a key that the caller
        gave or has read. With ``keep_builds`` builds in flight are left in the backend, for
        a later build with the same key to adopt: the error of each names the key, and its
        outcome states whether the build was never sent, might have been sent, or exists.

        Safe to repeat, from a callback and from several threads at once. Once a caller has
        passed ``keep_builds``, the builds whose removal has not started are kept. A signal
        handler should rather raise SystemExit, or wake another thread, because it might
        have interrupted kiln itself.
        """
        wait_s = validation.check_wait('wait_s', wait_s)
        validation.check_flag('keep_builds', keep_builds)
        self._is_closed = True
        opened = self._opened
        # The child of a fork that never used the facade has nothing to close.
        if opened is None:
            return
        stack = opened.stack
        if keep_builds:
            stack.executor.keeps_builds = True
        stack.watcher.close()
        opened.close()
        stack.close(wait_s)

    async def aclose(self, wait_s: float = 10.0, *, keep_builds: bool = False) -> None:
        """Call :meth:`close` on another thread, without blocking the event loop."""
        # A caller that awaits has already imported asyncio; other callers do not need it.
        import asyncio

        await asyncio.to_thread(self.close, wait_s, keep_builds=keep_builds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        opened = getattr(self, '_opened', None)
        if opened is None or self._is_closed:
            return
        warnings.warn(f'unclosed Compute of backend {self._name!r}', ResourceWarning,
                      stacklevel=2, source=self)  # fmt: skip
        # On a thread that holds no lock, since this thread might. At exit no thread can start.
        scheduler = opened.stack.scheduler
        if scheduler.started and not sys.is_finalizing():
            scheduler.call_later(0.0, opened.stack.retire)

    # ---- within ----------------------------------------------------------

    @property
    def _builder(self) -> Builder:
        return self._opened or self._open_again()

    @property
    def _stack(self) -> Stack:
        return (self._opened or self._open_again()).stack

    def _open_again(self) -> Builder:
        with self._opening:
            if self._opened is None:
                if self._reopen is None:
                    raise ForkedError(
                        f'Cannot use this Compute of {self._name!r}: it was made before a fork, '
                        f'around a driver that only the parent process has. Open a backend in '
                        f'this process.',
                        outcome=Outcome.NOT_APPLIED,
                        backend=self._name,
                    )
                opened = Builder(assemble(self._reopen(), self._settings, self._listeners))
                if self._is_closed:
                    opened.stack.close(0.0)
                self._opened = opened
            return self._opened

    def _disown(self) -> None:
        """Forget all operations in progress, in the child of a fork."""
        self._opening = threading.Lock()
        opened, self._opened = self._opened, None
        if opened is not None:
            # The driver can have threads and connections of the parent, so it is
            # neither closed nor collected.
            _OF_PARENTS.append(opened)
            opened.stack.disown()

    def _circuit(self, name: str) -> Any:
        name = validation.check_text('name', name)
        circuits = {circuit.name: circuit for circuit in self._stack.breaker.circuits.values()}
        # 'build' is accepted for 'east/build', because the backend is already known.
        circuit = circuits.get(name) or circuits.get(f'{self.name}/{name}')
        if circuit is None:
            raise InvalidRequest(
                f'Backend {self.name!r} has no circuit {name!r}; '
                f'it has {", ".join(map(str, circuits))}.'
            )
        return circuit


def _disown_all() -> None:
    IMPORTING.release()
    for compute in list(_COMPUTES):
        compute._disown()


os.register_at_fork(
    before=IMPORTING.acquire,
    after_in_parent=IMPORTING.release,
    after_in_child=_disown_all,
)
