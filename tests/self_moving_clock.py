"""A virtual clock that moves by itself, at the moment at which every thread waits."""

import contextlib
import functools
import queue
import threading
import time

from kiln.testing.clock import VirtualClock

#: Real seconds between two looks at the threads: short while they change, then longer.
_FIRST_LOOK_S, _LAST_LOOK_S = 0.0001, 0.002
#: Less would be lost when it is added to a time.
_LEAST_STEP_S = 1e-6
#: Virtual seconds after which what a test waits for will never be.
_LONGEST_S = 24 * 3600.0
#: Real seconds without a step while some thread runs: it hangs outside of the clock.
_HUNG_S = 60.0


class _Waits:
    """What the threads of this process wait for, noted where all waiting ends up.

    The frames of threads would show as much, but a reference to them keeps their locals
    alive: a cursor of SQLite that lives longer keeps its transaction.
    """

    def __init__(self) -> None:
        self._users = 0
        self._kept = threading.Condition.wait, threading.Thread.join, queue.SimpleQueue
        #: By thread, of each wait something of its own, and for whom or what it is.
        self._now = {}

    def install(self) -> None:
        """Note from now on what is waited for."""
        self._users += 1
        threading.Condition.wait = self._noting(self._kept[0])
        threading.Thread.join = self._noting(self._kept[1])
        # The threads of a pool wait for work in C, where nobody sees it.
        queue.SimpleQueue = queue._PySimpleQueue

    def remove(self) -> None:
        """Note it no more, once nobody needs it."""
        self._users -= 1
        if not self._users:
            threading.Condition.wait, threading.Thread.join, queue.SimpleQueue = self._kept

    def of(self, threads):
        """Return what each of some threads waits for, or None if one of them does not."""
        found = {}
        for thread in threads:
            now = self._now.get(thread.ident)
            if now is None or not self._lasts(now[1]):
                return None
            found[thread] = now[0]
        return found

    def _lasts(self, what) -> bool:
        if isinstance(what, threading.Thread):
            # On its way out it is alive for a moment in which nobody sees it among the others.
            return threading._active.get(what.ident) is what
        # A notified thread has left the waiters, even before it wakes.
        noted = sum(one is what for _, one in list(self._now.values()))
        return len(what._waiters) == noted

    def _noting(self, wait):
        now = self._now

        @functools.wraps(wait)
        def noted(what, timeout=None):
            me = threading.get_ident()
            outer = now.get(me)
            now[me] = object(), what
            try:
                return wait(what, timeout)
            finally:
                if outer is None:
                    del now[me]
                else:
                    now[me] = outer

        return noted


_WAITS = _Waits()


class SelfMovingClock(VirtualClock):
    """Moves to the next alarm as soon as no thread could do anything before it.

    While one thread computes, reads a file or waits for a process, time stands still,
    however long that takes; so nothing is ever late because the machine is busy, and
    no time is spent waiting. A thread of the test counts like any other.

    Threads that were there before the clock are not looked at, but for the one that
    made it. To be closed at the end of the test.
    """

    def __init__(self, epoch: float = 1_700_000_000.0) -> None:
        super().__init__(epoch)
        self._ignored = set(threading.enumerate()) - {threading.current_thread()}
        self._over = threading.Event()
        self._looked = threading.Condition()
        #: Threads that are to look before time moves on.
        self._looking = 0
        #: Whether one of them has just begun, and not looked at a time that stands.
        self._begun = False
        self._stands = 0
        #: Called by the clock's own thread whenever all threads wait.
        self._lookers: list = []
        self._mover = threading.Thread(target=self._move, name='clock', daemon=True)
        self._ignored.add(self._mover)
        _WAITS.install()
        self._mover.start()

    def close(self) -> None:
        """Move no more."""
        self._over.set()
        self._mover.join()
        _WAITS.remove()

    def until(self, so) -> None:
        """Return as soon as something is so; it is asked whenever all threads wait."""
        moved = self.monotonic()
        give_up, hung = moved + _LONGEST_S, time.monotonic() + _HUNG_S
        self._begun = True
        while not so():
            if self.monotonic() > give_up:
                raise AssertionError(f'not so after {_LONGEST_S:.0f} virtual seconds')
            with self._looked:
                stands, self._looking = self._stands, self._looking + 1
                try:
                    while self._stands == stands:
                        if not self._looked.wait(_HUNG_S) and time.monotonic() > hung:
                            raise AssertionError(f'these do not wait: {self._told()}')
                finally:
                    self._looking -= 1
            if self.monotonic() > moved:
                moved, hung = self.monotonic(), time.monotonic() + _HUNG_S
            elif time.monotonic() > hung:
                raise AssertionError('all wait, and nothing is due')

    @contextlib.contextmanager
    def seen(self, look):
        """Yield a list of what a function returns whenever all threads wait.

        Whatever lasts for any time is in it.
        """
        seen = []

        def note() -> None:
            seen.append(look())

        self._lookers.append(note)
        try:
            yield seen
        finally:
            self._lookers.remove(note)

    def _move(self) -> None:
        pause_s, asked = _FIRST_LOOK_S, False
        while not self._over.wait(pause_s):
            if not self._all_wait():
                pause_s = min(max(pause_s * 1.5, _FIRST_LOOK_S), _LAST_LOOK_S)
                continue
            pause_s = 0.0
            for look in list(self._lookers):
                look()
            # First the threads that read the outcome of the last step, then the next step.
            asked = (self._begun or not asked) and self._ask()
            if not asked:
                step_s = self.next_alarm_s()
                if step_s is None:
                    pause_s = _LAST_LOOK_S
                else:
                    self.advance(max(step_s, _LEAST_STEP_S))

    def _ask(self) -> bool:
        with self._looked:
            self._begun = False
            self._stands += 1
            self._looked.notify_all()
            return self._looking > 0

    # ---- who waits -----------------------------------------------------------------

    def _all_wait(self) -> bool:
        # Two equal looks: a thread that waits in the same place at both has waited all the
        # time between their ends, so for a moment all have waited at once.
        first = self._look()
        return first is not None and first == self._look()

    def _look(self):
        """Return what each thread waits for, or None if one of them does not wait."""
        if threading._limbo:
            return None
        return _WAITS.of(self._threads())

    def _threads(self):
        return [thread for thread in threading.enumerate() if thread not in self._ignored]

    def _told(self) -> str:
        return ', '.join(one.name for one in self._threads() if _WAITS.of([one]) is None)


class MovingTime:
    """Before a test: its clock moves by itself; ``RealTime`` of the functional tests is the other.

    The case makes its clock by ``open_clock()`` and closes it at the end.
    """

    def open_clock(self):
        clock = SelfMovingClock()
        self.addCleanup(clock.close)
        return clock

    def until(self, so):
        self.clock.until(so)
