"""Whether, and when, a call that failed is sent again; pure."""

from __future__ import annotations

import dataclasses
import math
import random
from typing import Any

from kiln.compute_drivers.calls import Call
from kiln.exceptions import Advice, AmphoraComputeError, CircuitOpenError, Outcome


@dataclasses.dataclass(frozen=True, slots=True)
class Done:
    """A step: the operation has its result."""

    value: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Failed:
    """A step: the operation has its error."""

    error: BaseException


@dataclasses.dataclass(frozen=True, slots=True)
class Again:
    """A step: something is to be sent, after a pause."""

    pause_s: float = 0.0
    why: str = ''


#: How an operation goes on after an answer.
Step = Done | Failed | Again


class Backoff:
    """How long to pause before the next attempt."""

    def __init__(self, *, first_s: float, max_s: float, rng: random.Random) -> None:
        self._first_s, self._max_s, self._rng = first_s, max_s, rng

    def pause_s(self, attempt: int, error: AmphoraComputeError | None = None) -> float:
        """Return the pause after an attempt, the first being 1: doubled, with full jitter.

        A pause the backend asked for is kept, and then some, lest all who
        were told the same moment come back at it together.
        """
        if error is not None and error.retry_after is not None:
            return error.retry_after + self._first_s * self._rng.random()
        if isinstance(error, CircuitOpenError):
            # Opened by hand, for nobody knows how long.
            return math.inf
        return backoff_s(attempt, first_s=self._first_s, max_s=self._max_s, rng=self._rng)


def backoff_s(attempt: int, *, first_s: float, max_s: float, rng: random.Random) -> float:
    """Return a pause that doubles with each attempt, with full jitter.

    Never less than a tenth, or chance would now and then make a tight loop.
    """
    ceiling: float = min(max_s, first_s * 2 ** min(attempt - 1, 30))
    return ceiling * rng.uniform(0.1, 1.0)


def may_repeat(call: Call, error: AmphoraComputeError) -> bool:
    """Whether sending a call again can do no harm and may do good.

    What never reached the backend may always be sent again. What may have
    taken effect is repeated only where doing it twice is doing it once.
    """
    # A build that is to be made anew is so by its caller, who may choose another place.
    if not error.retryable or error.advice is Advice.BUILD_ANEW:
        return False
    return error.outcome is Outcome.NOT_APPLIED or call.repeatable
