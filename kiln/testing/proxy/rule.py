"""A rule: selects the requests that meet a fault."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from typing import Self

from kiln.testing.proxy.exchanges import Fault, Request, matcher

#: Returns True for a request that the rule is for.
Predicate = Callable[[Request], bool]


@dataclasses.dataclass(eq=False)
class Rule:
    """A fault, or several in turn, for matching requests; a ``with`` block removes it."""

    faults: Fault | Sequence[Fault]
    method: str | None = None
    #: A regular expression for the whole path, without version, project and query.
    path: str | None = None
    when: Predicate | None = None
    #: Number of matching requests that pass before the first fault.
    skip: int = 0
    #: Number of requests that meet a fault; later requests pass.
    times: int | None = None
    #: Probability that a matching request meets a fault.
    chance: float = 1.0
    #: Numbers of requests that matched before the rule was used up, and that met a fault.
    seen: int = dataclasses.field(default=0, init=False)
    hits: int = dataclasses.field(default=0, init=False)

    def __post_init__(self) -> None:
        self._matches = matcher(self.method, self.path)
        self._remove: Callable[[Rule], None] | None = None
        self._random = random.Random()  # noqa: S311 - not for secrets
        if not isinstance(self.faults, Fault):
            in_turn = len(self.faults)
            self.times = in_turn if self.times is None else min(self.times, in_turn)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.remove()

    def join(self, remove: Callable[[Rule], None], seed: str) -> None:
        """Store the callback that removes this rule; ``seed`` seeds the random choices."""
        self._remove = remove
        self._random.seed(seed)

    def remove(self) -> None:
        """Take the rule out of its proxy; safe to repeat."""
        if self._remove is not None:
            self._remove(self)

    def choose(self, request: Request) -> Fault | None:
        """Return the fault for a request, or None if this rule has none for it."""
        if self.times is not None and self.hits >= self.times:
            return None
        if not (self._matches(request) and (self.when is None or self.when(request))):
            return None
        self.seen += 1
        if self.seen <= self.skip:
            return None
        if self.chance < 1 and self._random.random() >= self.chance:
            return None
        fault = self.faults if isinstance(self.faults, Fault) else self.faults[self.hits]
        self.hits += 1
        return fault
