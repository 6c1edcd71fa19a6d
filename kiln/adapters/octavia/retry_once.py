"""Retries for calls that an open circuit refuses, which Octavia makes only once.

A failed Octavia task makes its flow fail, and few tasks are retried. kiln retries
an accepted call until its timeout; but an open circuit accepts no calls, so this
module repeats them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kiln.clock import SYSTEM_CLOCK, Clock, Deadline
from kiln.exceptions import CircuitOpenError
from kiln.wrappers.operations.operation import Operation

T = TypeVar('T')

#: The shortest pause between two attempts.
PAUSE_S = 0.1


def patiently(
    ask: Callable[[float], Operation[T]], within_s: float, *, clock: Clock = SYSTEM_CLOCK
) -> T:
    """Return the result of a call, repeating the call while the circuit refuses it.

    ``ask`` gets the seconds that are left. The caller's thread is blocked for
    ``within_s`` at most.

    :raises CircuitOpenError: the circuit stays open too long, or was opened by hand.
    """
    deadline = Deadline.after(within_s, clock)
    while True:
        try:
            return ask(max(PAUSE_S, deadline.remaining_s())).result()
        except CircuitOpenError as exc:
            # A circuit that was opened by hand has no time at which it closes.
            if exc.retry_after is None:
                raise
            pause_s = max(PAUSE_S, exc.retry_after)
            if pause_s >= deadline.remaining_s():
                raise
        clock.sleep(pause_s)
