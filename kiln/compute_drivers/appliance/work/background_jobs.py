"""Background jobs on machines: commands and probes, one at a time per machine.

A crew starts with the first call and ends with ``close``. Several processes can each
have one for the same pool: due work is in the store, and the process that locks the
machine does it. Work that a dead process had begun stays due, and another begins it again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import logging
import threading
from collections.abc import Callable
from pathlib import Path

from kiln.clock import Clock, Deadline
from kiln.compute_drivers.appliance.claims import state_machine
from kiln.compute_drivers.appliance.claims.matching import in_maintenance, machine_for
from kiln.compute_drivers.appliance.claims.records import Claims, Due
from kiln.compute_drivers.appliance.claims.state_machine import COMMANDS, Claim, Phase, Rules
from kiln.compute_drivers.appliance.inventory.file import InventoryFile
from kiln.compute_drivers.appliance.inventory.machines import Inventory, Machine
from kiln.compute_drivers.appliance.work.locks import take_lock
from kiln.compute_drivers.appliance.work.tasks import Task, Tasks, Timeouts
from kiln.exceptions import InstanceNotFoundError, KilnError

LOG = logging.getLogger(__name__)

#: Seconds between two polls for work left or requested by other processes.
_LOOK_S = 1.0
#: Seconds beyond the time-out after which a machine locked elsewhere is logged.
_PATIENCE_S = 60.0
#: Seconds that close() waits for probes, which cannot be interrupted.
_LEAVE_S = 2.0


@dataclasses.dataclass(slots=True)
class _Wait:
    """Since when a machine is locked elsewhere, and if that was logged."""

    due: Due
    since: float
    told: bool = False


class Crew:
    """The thread that polls for due work, and a bounded number of worker threads."""

    def __init__(
        self,
        claims: Claims,
        locks: Path,
        tasks: Tasks,
        inventory: InventoryFile,
        *,
        rules: Rules,
        timeouts: Timeouts,
        commands: int,
        probes: int,
        clock: Clock,
    ) -> None:
        """Prepare the crew; nothing runs before :meth:`start`."""
        self._claims = claims
        self._locks = locks
        self._tasks = tasks
        self._inventory = inventory
        self._rules = rules
        self._timeouts = timeouts
        self._most = {True: commands, False: probes}
        self._clock = clock
        self._ready = threading.Condition()
        self._woken = False
        self._closed = False
        self._looker: threading.Thread | None = None
        # By machine: the running task, and the claim as it was when the task began.
        self._running: dict[str, tuple[Claim, Task, threading.Thread]] = {}
        self._waits: dict[str, _Wait] = {}
        self._followed: Inventory | None = None
        self._hurries: list[Callable[[], None]] = []

    # ---- called by the driver ------------------------------------------------------

    def start(self) -> None:
        """Start to poll for due work, unless started already."""
        if self._looker is not None:
            return
        with self._ready:
            if self._looker is None and not self._closed:
                self._looker = threading.Thread(
                    target=self._work, name='kiln-appliance', daemon=True
                )
                self._looker.start()

    def wake(self) -> None:
        """Make the polling thread look for due work now."""
        with self._ready:
            self._woken = True
            self._ready.notify_all()

    def on_news(self, hurry: Callable[[], None]) -> None:
        """Register ``hurry``, which is called when a claim has changed in this process."""
        self._hurries.append(hurry)

    def close(self) -> None:
        """End all running tasks; unfinished work stays due. Safe to repeat."""
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

    # ---- polling -----------------------------------------------------------------------

    def _work(self) -> None:
        # A process that reads once and exits must not begin the work it finds.
        self._pause(_LOOK_S)
        while not self._closed:
            try:
                pause_s = self._until_due_s(self.look())
            # No caller sees an error of this thread, and without it no work would be done.
            except Exception as exc:
                self._complain('read the due work of the machines', exc)
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
        """Begin due work that can begin, end outdated work; return the time of the poll."""
        self._end_the_unwanted()
        self._follow_the_inventory()
        now = self._clock.time()
        self._claims.follow_clock(now)
        due = [one for one in self._claims.due(now) if one.machine not in self._running]
        idle = in_maintenance(self._inventory.current, self._claims.records(), now) if due else ()
        for one in due:
            if one.machine not in idle and self._has_room(one.phase):
                try:
                    self._begin(one)
                # A failure on one machine must not keep the others waiting.
                except Exception as exc:
                    self._complain(f'begin due work on machine {one.machine}', exc)
        return now

    def _follow_the_inventory(self) -> None:
        inventory = self._inventory.current
        if inventory is self._followed:
            return
        now = self._clock.time()
        for claim in self._claims.resting():
            machine = machine_for(inventory, claim)
            if state_machine.watched(claim, machine, now) != claim:
                watched = functools.partial(state_machine.watched, machine=machine, now=now)
                self._claims.change(claim.id, watched, now)
        self._followed = inventory

    def _has_room(self, phase: Phase) -> bool:
        kind = phase in COMMANDS
        with self._ready:
            busy = sum((one.phase in COMMANDS) is kind for one, _, _ in self._running.values())
        return busy < self._most[kind]

    def _begin(self, due: Due) -> None:
        lock = take_lock(self._locks, due.machine)
        if lock is None:
            self._wait_for(due)
            return
        self._waits.pop(due.machine, None)
        with contextlib.ExitStack() as stack:
            stack.callback(lock.close)
            try:
                # Only under the lock is the due work safe from other processes.
                claim, brought = self._claims.with_payload(due.id)
            except InstanceNotFoundError:
                return
            if claim.due is None or claim.due > self._clock.time():
                return
            machine = machine_for(self._inventory.current, claim)
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
        """Wait for a machine that another process, or a leftover of one, has locked."""
        now = self._clock.monotonic()
        wait = self._waits.get(due.machine)
        if wait is None or wait.due != due:
            wait = self._waits[due.machine] = _Wait(due, now)
        limit_s = self._timeouts.of(COMMANDS.get(due.phase)) + _PATIENCE_S
        if now - wait.since >= limit_s and not wait.told:
            wait.told = True
            LOG.warning(
                'Machine %s has been locked for %d s, and its due work waits (%s): a command '
                'left a process running', due.machine, now - wait.since, due.phase.value,
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

    # ---- running tasks -------------------------------------------------------------------

    def _do(self, claim: Claim, machine: Machine, task: Task, lock: io.FileIO) -> None:
        failed = False
        try:
            ended = task.run()
            if not self._closed:
                self._learn(claim, machine, ended)
        # The work stays due. Without the log entry nobody would learn of the error.
        except Exception as exc:
            failed = True
            self._complain(f'finish due work on machine {claim.machine}', exc)
        finally:
            lock.close()
            with self._ready:
                del self._running[claim.machine]
        if not failed:
            # After a failure this would retry at once, again and again.
            self.wake()

    def _complain(self, what: str, exc: Exception) -> None:
        # An error from a store that was closed under a running thread is harmless.
        if not self._closed:
            is_defect = not isinstance(exc, KilnError | OSError)
            LOG.error('Cannot %s now; trying again: %s', what, exc, exc_info=is_defect)

    def _learn(self, begun: Claim, machine: Machine, ended: state_machine.Ended) -> None:
        now = self._clock.time()

        def change(claim: Claim) -> Claim | None:
            if claim.epoch != begun.epoch or claim.phase is not begun.phase:
                # Another request was made meanwhile.
                return claim
            if claim.phase in COMMANDS:
                return state_machine.command_ended(claim, machine, ended, now, self._rules)
            return state_machine.probed(claim, ended, now, self._rules)

        durable = begun.phase in COMMANDS
        try:
            old, new = self._claims.change(begun.id, change, now, durable=durable)
        except InstanceNotFoundError:
            return
        if new is None or new.phase is not old.phase:
            self._tell(old, new)

    def _tell(self, old: Claim, new: Claim | None) -> None:
        level = logging.INFO
        change = f'{old.phase.value} to {"free" if new is None else new.phase.value}'
        if new is not None and new.fault:
            level, change = logging.WARNING, f'{change}: {new.fault}'
        LOG.log(level, 'Machine %s of amphora %s changed from %s', old.machine, old.id, change)
        for hurry in self._hurries:
            hurry()
