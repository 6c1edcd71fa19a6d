"""Ctrl-C and SIGTERM as KeyboardInterrupt, raised where it leaves no lock held.

Python runs the handler of a signal between any two instructions. An exception that is raised
after a lock was taken and before its ``with`` began leaves the lock held, and everybody who
waits for it hangs. So the handler raises where the main thread waits, and looks again soon
where it moves.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

LOOK_S = 0.005
# Harmless where nobody handles it.
LOOK = signal.SIGURG
# A main thread that never waits is interrupted after so many looks, half a second.
MOST_LOOKS = 100
# In these functions a lock can be held that no ``with`` gives back yet, or any more.
_TAKING = frozenset({'__enter__', '__exit__', 'acquire', 'release', '_acquire_restore'})


class Interrupt:
    """Decides at each look whether the main thread can be interrupted where it is."""

    def __init__(self) -> None:
        self.wanted = False
        self._seen: tuple[FrameType, int] | None = None
        self._looks = 0

    def look(self, frame: FrameType | None) -> None:
        """Raise KeyboardInterrupt if it is wanted, and safe in this frame."""
        if not self.wanted or frame is None:
            return
        place = (frame, frame.f_lasti)
        waits, self._seen = place == self._seen, place
        self._looks += 1
        taking = frame.f_code.co_name in _TAKING
        late = self._looks > MOST_LOOKS
        if (waits or not taking) if late else (waits and not taking):
            self.wanted, self._seen, self._looks = False, None, 0
            raise KeyboardInterrupt


def install(told: Callable[[int], None]) -> None:
    """Interrupt this thread, the main one, on Ctrl-C and SIGTERM; tell which one it was.

    Ctrl-C stays ignored where it is, as shells start background commands.
    """
    interrupt = Interrupt()

    def ask(number: int, frame: FrameType | None) -> None:
        told(number)
        interrupt.wanted = True
        interrupt.look(frame)
        with contextlib.suppress(BlockingIOError):
            os.write(waker, bytes([number]))

    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(LOOK, lambda _, frame: interrupt.look(frame))
    signal.signal(signal.SIGTERM, ask)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, ask)
    threading.Thread(
        target=_watch,
        args=(interrupt, woken, threading.get_ident()),
        name='kiln-interrupts',
        daemon=True,
    ).start()
    os.register_at_fork(after_in_child=_leave_to_system)


def _leave_to_system() -> None:
    # The thread that watches stays with the parent.
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _watch(interrupt: Interrupt, woken: int, main: int) -> None:
    # The kernel may hand a signal to any thread, or just before the main thread begins to
    # wait, and the handler would run when the wait ends. This wakes it; and again, until it
    # has raised.
    while number := os.read(woken, 1):
        if number[0] != LOOK or interrupt.wanted:
            time.sleep(LOOK_S)
            signal.pthread_kill(main, LOOK)
