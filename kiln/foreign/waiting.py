"""What the call of a thread waits for, so that a silence names the part that is silent."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator


class Wait:
    """What is waited for now; written by the thread of a call, read by others."""

    __slots__ = ('whom',)

    def __init__(self) -> None:
        self.whom: str | None = None


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
def waiting_for(whom: str) -> Iterator[None]:
    """Say what is waited for inside the block."""
    wait = _current.get()
    if wait is None:
        yield
        return
    before, wait.whom = wait.whom, whom
    try:
        yield
    finally:
        wait.whom = before
