"""What works on machines in the background: commands and probes, each once at a time.

A crew begins with the first call and ends with ``close``. Several processes may have
one each for one pool: what is due is in the store, and who has locked the machine
does it. What a dead process had begun is due still, and begun again by another.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import threading
from collections.abc import Callable

from kiln.clock import Clock, Deadline
from kiln.compute_drivers.appliance import life
from kiln.compute_drivers.appliance.claims import Claims, Due
from kiln.compute_drivers.appliance.life import COMMANDS, Claim, Phase, Rules
from kiln.compute_drivers.appliance.locks import MachineLock, MachineLocks
from kiln.compute_drivers.appliance.machines import Inventory, Machine
from kiln.compute_drivers.appliance.tasks import Task, Tasks, Timeouts
from kiln.exceptions import InstanceNotFoundError, KilnError

LOG = logging.getLogger(__name__)

#: Seconds between two looks at what other processes have left or asked for.
_LOOK_S = 1.0
#: Seconds beyond the timeout after which it is told that somebody else holds a machine.
_PATIENCE_S = 60.0
#: Seconds for which close() waits for probes, which cannot be ended.
_LEAVE_S = 2.0


@dataclasses.dataclass(slots=True)
class _Wait:
    """Since when a machine is locked by somebody else, and whether that was told."""

    due: Due
    since: float
    told: bool = False


class Crew:
    """The thread that looks for what is due, and a bounded number that do it."""

    def __init__(
        self,
        claims: Claims,
        locks: MachineLocks,
        tasks: Tasks,
        machine_of: Callable[[Claim], Machine],
        is_idle: Callable[[], frozenset[str]],
        inventory: Callable[[], Inventory],
        *,
        rules: Rules,
        timeouts: Timeouts,
        commands: int,
        probes: int,
        clock: Clock,
    ) -> None:
        """Have everything at hand; nothing runs before :meth:`start`.

        ``machine_of`` tells what a claim's machine is like now, ``is_idle`` which machines
        nothing may be run on, and ``inventory`` what is enrolled.
        """
        self._claims = claims
        self._locks = locks
        self._tasks = tasks
        self._machine_of = machine_of
        self._is_idle = is_idle
        self._inventory = inventory
        self._rules = rules
        self._timeouts = timeouts
        self._most = {True: commands, False: probes}
        self._clock = clock
        self._ready = threading.Condition()
        self._woken = False
        self._closed = False
        self._looker: threading.Thread | None = None
        # By machine: what runs there, and the claim as it was when that began.
        self._running: dict[str, tuple[Claim, Task, threading.Thread]] = {}
        self._waits: dict[str, _Wait] = {}
        self._followed: Inventory | None = None
        self._hurries: list[Callable[[], None]] = []

    # ---- for the driver -----------------------------------------------------------

    def start(self) -> None:
        """Begin to look for work, if that has not begun; what is due is done soon."""
        if self._looker is not None:
            return
        with self._ready:
            if self._looker is None and not self._closed:
                self._looker = threading.Thread(
                    target=self._work, name='kiln-appliance', daemon=True
                )
                self._looker.start()

    def wake(self) -> None:
        """Have it look now."""
        with self._ready:
            self._woken = True
            self._ready.notify_all()

    def on_news(self, hurry: Callable[[], None]) -> None:
        """Have ``hurry`` called when a claim has changed here."""
        self._hurries.append(hurry)

    def close(self) -> None:
        """End all that runs; what is not done stays due. Safe to repeat."""
        with self._ready:
            self._closed = True
            self._ready.notify_all()
            running = list(self._running.values())
        for _, task, _ in running:
            task.cancel()
        leave = Deadline.after(_LEAVE_S)
        for thread in (self._looker, *(thread for _, _, thread in running)):
            if thread is not None and thread is not threading.current_thread():
                thread.join(max(0.0, leave.remaining_s()))

    # ---- looking for work ------------------------------------------------------------

    def _work(self) -> None:
        # Who only has a look is gone before this; what he found is not for him to do.
        self._pause(_LOOK_S)
        while not self._closed:
            try:
                pause_s = self._until_due_s(self.look())
            # Nobody waits for this thread, and without it nothing would ever be done.
            except Exception as exc:
                self._complain('look for what is due on the machines', exc)
                pause_s = _LOOK_S
            self._pause(pause_s)

    def _pause(self, seconds: float) -> None:
        with self._ready:
            if not self._woken and not self._closed:
                self._clock.wait(self._ready, seconds)
            self._woken = False

    def _until_due_s(self, looked_at: float) -> float:
        due = self._claims.next_due(looked_at)
        left_s = _LOOK_S if due is None else due - self._clock.time()
        return max(0.0, min(_LOOK_S, left_s))

    def look(self) -> float:
        """Begin what is due and may begin, end what nobody wants; return the moment."""
        self._end_the_unwanted()
        self._follow_the_inventory()
        now = self._clock.time()
        due = [one for one in self._claims.due(now) if one.machine not in self._running]
        idle = self._is_idle() if due else frozenset()
        for one in due:
            if one.machine not in idle and self._has_room(one.phase):
                try:
                    self._begin(one)
                # What is wrong with one machine must not keep the others waiting.
                except Exception as exc:
                    self._complain(f'begin what is due on machine {one.machine}', exc)
        return now

    def _follow_the_inventory(self) -> None:
        inventory = self._inventory()
        if inventory is self._followed:
            return
        now = self._clock.time()
        for claim in self._claims.resting():
            machine = self._machine_of(claim)
            if life.watched(claim, machine, now) != claim:
                self._claims.change(claim.id, lambda one: life.watched(one, machine, now), now)  # noqa: B023  # called at once
        self._followed = inventory

    def _has_room(self, phase: Phase) -> bool:
        kind = phase in COMMANDS
        with self._ready:
            busy = sum((one.phase in COMMANDS) is kind for one, _, _ in self._running.values())
        return busy < self._most[kind]

    def _begin(self, due: Due) -> None:
        lock = self._locks.take(due.machine)
        if lock is None:
            self._wait_for(due)
            return
        self._waits.pop(due.machine, None)
        with contextlib.ExitStack() as stack:
            stack.callback(lock.release)
            try:
                # Only now does nobody else change what is due there.
                claim, brought = self._claims.with_payload(due.id)
            except InstanceNotFoundError:
                return
            if claim.due is None or claim.due > self._clock.time():
                return
            machine = self._machine_of(claim)
            task = self._tasks.task(claim, machine, lock, brought)
            thread = threading.Thread(
                target=self._do,
                args=(claim, machine, task, lock),
                name=f'kiln-appliance-{claim.machine}',
                daemon=True,
            )
            with self._ready:
                if self._closed:
                    return
                thread.start()
                self._running[claim.machine] = (claim, task, thread)
            stack.pop_all()

    def _wait_for(self, due: Due) -> None:
        """Bear with another process that works there, or with what one has left behind."""
        now = self._clock.monotonic()
        wait = self._waits.get(due.machine)
        if wait is None or wait.due != due:
            wait = self._waits[due.machine] = _Wait(due, now)
        limit_s = self._timeouts.of(COMMANDS.get(due.phase)) + _PATIENCE_S
        if now - wait.since >= limit_s and not wait.told:
            wait.told = True
            LOG.warning(
                'Machine %s has been locked for %d s, and what is due there waits (%s): a command '
                'has left a process that goes on', due.machine, now - wait.since, due.phase.value,
            )  # fmt: skip

    def _end_the_unwanted(self) -> None:
        with self._ready:
            running = {claim.id: (claim, task) for claim, task, _ in self._running.values()}
        if not running:
            return
        epochs = {claim.id: claim.epoch for claim in self._claims.with_ids(running)}
        for claim, task in running.values():
            if epochs.get(claim.id) != claim.epoch:
                task.cancel()

    # ---- doing it ------------------------------------------------------------------------

    def _do(self, claim: Claim, machine: Machine, task: Task, lock: MachineLock) -> None:
        failed = False
        try:
            ended = task.run()
            if not self._closed:
                self._learn(claim, machine, ended)
        # It stays due. On a thread of its own nobody else would ever hear of it.
        except Exception as exc:
            failed = True
            self._complain(f'do what is due on machine {claim.machine}', exc)
        finally:
            lock.release()
            with self._ready:
                del self._running[claim.machine]
        if not failed:
            # Else it would be tried again at once, and again.
            self.wake()

    def _complain(self, what: str, exc: Exception) -> None:
        # A store that is closed under a thread is no trouble.
        if not self._closed:
            is_defect = not isinstance(exc, KilnError | OSError)
            LOG.error('Cannot %s now; trying again: %s', what, exc, exc_info=is_defect)

    def _learn(self, begun: Claim, machine: Machine, ended: life.Ended) -> None:
        now = self._clock.time()

        def change(claim: Claim) -> Claim | None:
            if claim.epoch != begun.epoch or claim.phase is not begun.phase:
                # Something else was asked for meanwhile.
                return claim
            if claim.phase in COMMANDS:
                return life.command_ended(claim, machine, ended, now, self._rules)
            return life.probed(claim, ended, now, self._rules)

        durable = begun.phase in COMMANDS
        try:
            old, new = self._claims.change(begun.id, change, now, durable=durable)
        except InstanceNotFoundError:
            return
        if new is None or new.phase is not old.phase:
            self._tell(old, new)

    def _tell(self, old: Claim, new: Claim | None) -> None:
        at = 'free again' if new is None else new.phase.value
        level = logging.WARNING if new is not None and new.fault else logging.INFO
        LOG.log(
            level, 'Machine %s of amphora %s was %s, and is %s%s', old.machine, old.id,
            old.phase.value, at, f': {new.fault}' if new is not None and new.fault else '',
        )  # fmt: skip
        for hurry in self._hurries:
            hurry()
