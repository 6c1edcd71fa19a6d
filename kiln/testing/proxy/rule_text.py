"""Parser of rules on the command line: ``POST /servers lose_answer times=1``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any

from kiln.testing.proxy import faults
from kiln.testing.proxy.exchanges import Fault
from kiln.testing.proxy.rule import Rule

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


def rule(text: str) -> Rule:
    """Return the rule of a line: method, path, fault, and its settings.

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
