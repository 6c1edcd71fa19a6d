"""Which request meets which fault: rules, asked in the order they were made."""

from __future__ import annotations

import dataclasses
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Self

from kiln.testing.proxy.exchanges import Request, pattern
from kiln.testing.proxy.faults import Fault

#: Looks at a request and says whether it is meant.
Predicate = Callable[[Request], bool]


@dataclasses.dataclass(eq=False)
class Rule:
    """A fault, or some in turn, for the requests it fits; leaving its ``with`` removes it."""

    faults: Fault | Sequence[Fault]
    method: str | None = None
    #: A regular expression for the whole path, without version, project and query.
    path: str | None = None
    when: Predicate | None = None
    #: So many fitting requests pass before the first fault.
    skip: int = 0
    #: So many meet a fault, and then no more.
    times: int | None = None
    #: How probable it is that a fitting request meets it.
    chance: float = 1.0
    #: How many requests it fitted while it was not used up, and how many met a fault.
    seen: int = dataclasses.field(default=0, init=False)
    hits: int = dataclasses.field(default=0, init=False)

    def __post_init__(self) -> None:
        self._fits_path = pattern(self.path)
        self._script: Script | None = None
        self._random = random.Random()  # noqa: S311 - luck, not secrecy
        if not isinstance(self.faults, Fault):
            in_turn = len(self.faults)
            self.times = in_turn if self.times is None else min(self.times, in_turn)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.remove()

    def join(self, script: Script, seed: str) -> None:
        """Become a rule of a script; ``seed`` decides whom a chance hits."""
        self._script = script
        self._random.seed(seed)

    def remove(self) -> None:
        """Be a rule no more; to say so twice does no harm."""
        if self._script is not None:
            self._script.remove(self)

    def choose(self, request: Request) -> Fault | None:
        """Return what a request is to meet, or None if nothing by this rule."""
        if (self.times is not None and self.hits >= self.times) or not self._fits(request):
            return None
        self.seen += 1
        if self.seen <= self.skip:
            return None
        if self.chance < 1 and self._random.random() >= self.chance:
            return None
        fault = self.faults if isinstance(self.faults, Fault) else self.faults[self.hits]
        self.hits += 1
        return fault

    def _fits(self, request: Request) -> bool:
        return (
            (self.method is None or self.method == request.method)
            and self._fits_path(request.path)
            and (self.when is None or self.when(request))
        )


class Script:
    """The rules of one proxy; changed by any thread, asked by the proxy's own."""

    def __init__(self, seed: int = 0) -> None:
        self.rules: tuple[Rule, ...] = ()
        #: The URLs that answers shall not name, and what they name instead.
        self.urls: Mapping[str, str] = {}
        self._seed = seed
        self._made = 0
        self._lock = threading.Lock()

    def add(self, rule: Rule) -> Rule:
        """Ask a rule too, after those that are there."""
        with self._lock:
            self._made += 1
            # Numbers of its own: whatever other rules do, the n-th request
            # that this one fits has the same luck in every run.
            rule.join(self, f'{self._seed}/{self._made}')
            self.rules = (*self.rules, rule)
        return rule

    def remove(self, rule: Rule) -> None:
        """Ask a rule no more."""
        with self._lock:
            self.rules = tuple(known for known in self.rules if known is not rule)

    def choose(self, request: Request) -> Fault | None:
        """Return the fault of the first rule that has one for the request."""
        for rule in self.rules:
            fault = rule.choose(request)
            if fault is not None:
                return fault
        return None
