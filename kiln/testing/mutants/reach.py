"""Which behaviours call which functions of a driver, as data and recorded."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FrameType
from typing import Self
from unittest import TestCase

from kiln.testing.shared_results import watchers

#: In place of a behaviour: what is called before or after all of them.
_OUTSIDE = ''


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Reach:
    """What each behaviour calls, and how long it takes."""

    #: Seconds that each behaviour takes; the quickest comes first.
    took_s: Mapping[str, float] = dataclasses.field(default_factory=dict)
    #: Behaviours that call a function, as MODULE:FUNCTION.
    callers: Mapping[str, frozenset[str]] = dataclasses.field(default_factory=dict)
    #: Behaviours that ended the record of their calls, so they can call any function.
    unrecorded: frozenset[str] = frozenset()

    @classmethod
    def union(cls, parts: Iterable[Reach]) -> Self:
        """Return what behaviours call that were recorded in parts."""
        took_s: dict[str, float] = {}
        callers: dict[str, frozenset[str]] = {}
        unrecorded: frozenset[str] = frozenset()
        for part in parts:
            took_s |= part.took_s
            unrecorded |= part.unrecorded
            for function, names in part.callers.items():
                callers[function] = callers.get(function, frozenset()) | names
        ordered = dict(sorted(took_s.items(), key=lambda item: item[1]))
        return cls(took_s=ordered, callers=callers, unrecorded=unrecorded)

    def of(self, function: str | None) -> dict[str, float]:
        """Return the behaviours that a mistake in a function can fail, and their seconds.

        None stands for what is outside of functions, which all can fail.
        """
        if function is None:
            return dict(self.took_s)
        callers = self.callers.get(function, frozenset()) | self.unrecorded
        return {name: seconds for name, seconds in self.took_s.items() if name in callers}


class Recorder(contextlib.AbstractContextManager['Recorder']):
    """Records the calls of a driver's functions, on any thread of this process started later.

    What is called while a shared result is made is called by all that read the result.
    ``own`` returns the name of a module if it is the driver's.
    """

    def __init__(
        self, own: Callable[[str], str | None], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._own = functools.cache(own)
        self._now = now
        self._current = _OUTSIDE
        self._took_s: dict[str, float] = {}
        self._callers: dict[str, set[str]] = collections.defaultdict(set)
        #: By shared result: the behaviours that read it.
        self._readers: dict[str, set[str]] = collections.defaultdict(set)
        #: By function: the shared results that were made when it was called.
        self._within: dict[str, set[str]] = collections.defaultdict(set)
        self._making: list[str] = []
        self._unrecorded: set[str] = set()

    def __enter__(self) -> Self:
        watchers.append(self)
        threading.setprofile(self._record)
        sys.setprofile(self._record)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)
        watchers.remove(self)

    def reads(self, key: str) -> None:
        self._readers[key].add(self._current)

    @contextlib.contextmanager
    def making(self, key: str) -> Iterator[None]:
        self._making.append(key)
        try:
            yield
        finally:
            self._making.remove(key)

    def each(self, cases: Iterable[TestCase]) -> Iterator[TestCase]:
        """Yield behaviours; what is called until the next is called by the one before."""
        for case in cases:
            self._current = name_of(case)
            profile, started = sys.getprofile(), self._now()
            yield case
            self._took_s[self._current] = self._now() - started
            # The interpreter drops a profile function that raises, as at the recursion limit.
            if sys.getprofile() != profile:
                self._unrecorded.add(self._current)
                sys.setprofile(profile)
            self._current = _OUTSIDE

    def reach(self) -> Reach:
        """Return what was recorded."""
        took_s = dict(sorted(self._took_s.items(), key=lambda item: item[1]))
        # What is called before them, or by the first alone, can be kept for all others.
        first = set(list(self._took_s)[:1])
        callers = {
            function: frozenset(
                took_s
                if _OUTSIDE in names or names == first
                else names.union(*(self._readers[key] for key in self._within[function]))
            )
            for function, names in self._callers.items()
        }
        return Reach(took_s=took_s, callers=callers, unrecorded=frozenset(self._unrecorded))

    def _record(self, frame: FrameType, event: str, _: object) -> None:
        if event == 'call':
            module = self._own(str(frame.f_globals.get('__name__')))
            if module is not None:
                function = frame.f_code.co_qualname.replace('<locals>.', '')
                self._callers[f'{module}:{function}'].add(self._current)
                self._within[f'{module}:{function}'].update(self._making)


def name_of(case: TestCase) -> str:
    """Return the name of a behaviour, as CLASS.NAME."""
    return f'{type(case).__name__}.{case.id().rpartition(".")[2]}'
