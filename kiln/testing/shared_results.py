"""Results that several behaviours of a process read, each of which is made once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Generic, Protocol, TypeVar

T = TypeVar('T')


class Watcher(Protocol):
    """Takes note of which behaviours read which results."""

    def reads(self, key: str) -> None:
        """Take the key of a result that is read now."""

    def making(self, key: str) -> AbstractContextManager[object]:
        """Return what is entered while a result is made."""


#: Those that are told; empty unless mutants of a driver are judged.
watchers: list[Watcher] = []


class SharedResults(Generic[T]):
    """Results by key, for as long as the process lives."""

    def __init__(self) -> None:
        self._made: dict[str, T] = {}

    def get(self, key: str, make: Callable[[], T]) -> T:
        """Return the result of a key, which is made when it is read for the first time."""
        for one in watchers:
            one.reads(key)
        if key not in self._made:
            with contextlib.ExitStack() as stack:
                for one in watchers:
                    stack.enter_context(one.making(key))
                self._made[key] = make()
        return self._made[key]
