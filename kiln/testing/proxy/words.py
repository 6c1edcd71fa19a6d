"""Rules as people type them: ``POST /servers lose_answer times=1``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from kiln.testing.proxy import faults
from kiln.testing.proxy.faults import Fault
from kiln.testing.proxy.script import Rule

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

_HOW_OFTEN = frozenset({'skip', 'times', 'chance'})


def rule(text: str) -> Rule:
    """Return the rule that a line says: method, path, fault, and its settings.

    A ``*`` is any method, or any path. A setting whose value is a fault's name
    is that fault: ``* * lose_answer instead=reset``.

    :raises ValueError: the line is no rule; the message says why.
    """
    words = text.split()
    if len(words) < 3:
        raise ValueError(f'{text!r} must be: METHOD PATH FAULT [name=value ...]')
    method, path, name, *settings = words
    if name not in FAULTS:
        raise ValueError(f'{name!r} is no fault; there are: {", ".join(FAULTS)}')
    given = dict(_setting(word) for word in settings)
    how_often = {key: given.pop(key) for key in _HOW_OFTEN & given.keys()}
    try:
        return Rule(
            faults=FAULTS[name](**given),
            method=None if method == '*' else method,
            path=None if path == '*' else path,
            **how_often,
        )
    except TypeError as exc:
        raise ValueError(f'{text!r}: {exc}') from exc


def _setting(word: str) -> tuple[str, Any]:
    key, equals, value = word.partition('=')
    if not equals:
        raise ValueError(f'{word!r} must be name=value')
    if value in FAULTS:
        return key, FAULTS[value]()
    for read in (int, float):
        try:
            return key, read(value)
        except ValueError:
            pass
    return key, value


def exchange(done: Any) -> str:
    """Return a line about an exchange."""
    fault = '' if done.fault is None else f' {done.fault}'
    return f'{done.method} {done.target} {done.status or "-"}/{done.server_status or "-"}'
