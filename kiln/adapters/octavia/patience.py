"""Outages lived through by calls that Octavia makes once, and once only.

A task of Octavia's that fails takes its flow with it, and few are repeated. What
kiln has taken on it repeats until its time is over; but an open circuit refuses
to take on anything at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kiln.clock import SYSTEM_CLOCK, Clock, Deadline
from kiln.exceptions import CircuitOpenError
from kiln.wrappers.operation import Operation

T = TypeVar('T')

#: The least pause between two refusals.
PAUSE_S = 0.1


def patiently(
    ask: Callable[[float], Operation[T]], within_s: float, *, clock: Clock = SYSTEM_CLOCK
) -> T:
    """Return what a call comes to, asking again for as long as it is refused.

    ``ask`` is handed the seconds that are left. The thread is the caller's: it
    is held for ``within_s`` at most.
    """
    deadline = Deadline.after(within_s, clock)
    while True:
        try:
            return ask(max(PAUSE_S, deadline.remaining_s())).result()
        except CircuitOpenError as exc:
            # One that was opened by hand says not for how long.
            if exc.retry_after is None:
                raise
            pause_s = max(PAUSE_S, exc.retry_after)
            if pause_s >= deadline.remaining_s():
                raise
        clock.sleep(pause_s)
