"""Time of the processor in turns of a plain loop, so that slow machines have the same limits."""

import time

TURN = 100_000


def turns(work):
    """Return how many turns of the loop a piece of work takes as long as, in this thread alone."""
    before_s = _turn_s()
    began = time.thread_time()
    work()
    took_s = time.thread_time() - began
    # The machine can have become slower or faster meanwhile.
    return took_s / max(before_s, _turn_s())


def _turn_s():
    took = []
    for _ in range(3):
        began, total = time.thread_time(), 0
        for number in range(TURN):
            total += number
        took.append(time.thread_time() - began)
    return min(took)
