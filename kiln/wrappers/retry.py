"""Whether, and when, a call that failed is sent again; pure."""

from __future__ import annotations

import random

from kiln.compute_drivers.calls import Call
from kiln.exceptions import AmphoraComputeError, Outcome


def backoff_s(attempt: int, *, first_s: float, max_s: float, rng: random.Random) -> float:
    """Return the pause after an attempt, the first being 1: doubled, with full jitter.

    Never less than a tenth, or chance would now and then make a tight loop.
    """
    ceiling: float = min(max_s, first_s * 2 ** min(attempt - 1, 30))
    return ceiling * rng.uniform(0.1, 1.0)


def may_repeat(call: Call, error: AmphoraComputeError) -> bool:
    """Whether sending a call again can do no harm and may do good.

    What never reached the backend may always be sent again. What may have
    taken effect is repeated only where doing it twice is doing it once.
    """
    if not error.retryable:
        return False
    return error.outcome is Outcome.NOT_APPLIED or call.repeatable


def must_look_first(call: Call, error: AmphoraComputeError) -> bool:
    """Whether a build may exist, so that it must be looked for before all else."""
    return call is Call.BUILD and error.outcome is Outcome.UNKNOWN
