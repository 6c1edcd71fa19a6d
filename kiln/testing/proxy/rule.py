"""A rule selects the requests that meet a fault; it can be read from a line of text."""

from __future__ import annotations

import dataclasses
import inspect
import random
from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import Any, Self

from kiln.testing.proxy import faults
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
        self._remove: Callable[[Rule], None] = lambda rule: None
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


FAULTS: Mapping[str, Callable[..., Fault]] = {
    'answer': faults.Answer,
    'close': faults.Close,
    'delay': faults.Delay,
    'hang': faults.Hang,
    'html': faults.html_page,
    'lose_answer': faults.LoseAnswer,
    'nova_error': faults.nova_error,
    'refuse': faults.Refuse,
    'reset': faults.Reset,
    'serve': faults.Serve,
    'token_expired': faults.token_expired,
    'trickle': faults.Trickle,
    'truncate': faults.Truncate,
}

_HOW_OFTEN: Mapping[str, int | float] = {'skip': 0, 'times': 0, 'chance': 1.0}


def parse(text: str) -> Rule:
    """Return the rule of a line, as in ``POST /servers lose_answer times=1``.

    A ``*`` is any method, or any path. A setting that is itself a fault takes the
    name of one: ``* * lose_answer instead=reset``.

    :raises ValueError: the line is not a rule; the message has the reason.
    """
    method, path, name, *settings = (*text.split(), '', '', '')
    if not name:
        raise ValueError(f'{text!r} must be: METHOD PATH FAULT [name=value ...]')
    make = _fault(name)
    known = {
        setting.name: setting.default
        for setting in inspect.signature(make).parameters.values()
        if isinstance(setting.default, (Fault, int, float, str, NoneType))
    }
    given = dict(_setting(word, {**known, **_HOW_OFTEN}) for word in settings if word)
    how_often = {key: given.pop(key) for key in _HOW_OFTEN if key in given}
    return Rule(
        make(**given),
        None if method == '*' else method,
        None if path == '*' else path,
        **how_often,
    )


def _fault(name: str) -> Callable[..., Fault]:
    if name not in FAULTS:
        raise ValueError(f'{name!r} is not a fault; choose from: {", ".join(FAULTS)}')
    return FAULTS[name]


def _setting(word: str, known: Mapping[str, object]) -> tuple[str, Any]:
    """Return a setting, its value converted to the type of the default."""
    key, equals, value = word.partition('=')
    if not equals or key not in known:
        raise ValueError(f'{word!r} is not a setting; choose from: {", ".join(known)}')
    usual = known[key]
    if isinstance(usual, Fault):
        return key, _fault(value)()
    if isinstance(usual, bool):
        return key, value in ('1', 'true', 'yes')
    if isinstance(usual, (int, float)):
        return key, type(usual)(value)
    return key, value
