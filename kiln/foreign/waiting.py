"""What the call of a thread waits for, so that a silence names the part that is silent."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator

#: Seconds without an answer after which a call looks why; a silence is told after 3 s.
LOOK_AFTER_S = 0.9


class Wait:
    """What is waited for now; written by the thread of a call, read by others."""

    __slots__ = ('look', 'whom', 'why')

    def __init__(self) -> None:
        self.whom: str | None = None
        #: A sentence about why there is no answer; empty if nothing is known.
        self.why = ''
        #: Looks for that, once.
        self.look: Callable[[], str] | None = None


_current: contextvars.ContextVar[Wait | None] = contextvars.ContextVar('kiln_wait', default=None)


@contextlib.contextmanager
def noted_in(wait: Wait) -> Iterator[None]:
    """Note in ``wait`` what the calls inside the block wait for."""
    reset = _current.set(wait)
    try:
        yield
    finally:
        _current.reset(reset)


def waited_for() -> str | None:
    """Return what the present call waits for, if that is known."""
    wait = _current.get()
    return None if wait is None else wait.whom


@contextlib.contextmanager
def waiting_for(whom: str, look: Callable[[], str] | None = None) -> Iterator[None]:
    """Say what is waited for inside the block.

    ``look`` returns a sentence about why there is no answer. The waiting thread calls it, once,
    as soon as an answer is late.
    """
    wait = _current.get()
    if wait is None:
        yield
        return
    before = wait.whom, wait.look
    if whom != wait.whom:
        wait.look = look
    wait.whom = whom
    try:
        yield
    finally:
        wait.whom, wait.look = before
        wait.why = ''


def is_to_look() -> bool:
    """Return True if the present call looks why its answer is late."""
    wait = _current.get()
    return wait is not None and wait.look is not None


def look_why() -> None:
    """Look why the answer of the present call is late."""
    wait = _current.get()
    if wait is None or wait.look is None:
        return
    look, wait.look = wait.look, None
    wait.why = look()
