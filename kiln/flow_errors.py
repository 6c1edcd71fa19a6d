"""Errors of operations of several steps, which say what is left at their end."""

from __future__ import annotations

from typing import Any

from kiln.exceptions import Advice, AmphoraBuildError, AmphoraComputeError, Outcome
from kiln.models import Amphora, State


def with_what_is_left(error: BaseException, left: Amphora, build_key: str) -> BaseException:
    """Return the error of a build that found, or left, a machine which has run."""
    if left.state is State.ACTIVE:
        advice, to_do = Advice.REPEAT, 'Build again with its key to take it up, or delete it'
    else:
        # To build again would wait for the same machine, and in vain.
        advice, to_do = Advice.REPAIR, 'Bring it back to work, or delete it'
    return told(
        error,
        f'{error} Amphora {left.id}, under build key {build_key!r}, is {left.state.value} '
        f'and has run before, so it was left as it is. {to_do}.',
        outcome=Outcome.APPLIED,
        advice=advice,
        amphora_id=left.id,
        build_key=build_key,
    )


def left_alone(error: BaseException, build_key: str | None = None) -> BaseException:
    """Return the error of a wait, which removes nothing and so says what is left."""
    if not isinstance(error, AmphoraBuildError):
        return error
    where = f' under build key {build_key!r}' if build_key else ''
    text = f'{error} It is left as it is{where}: bring it back to work, or delete it.'
    key = build_key or error.build_key
    return told(error, text, outcome=error.outcome, advice=error.advice, build_key=key)


def told(error: BaseException, text: str, **known: Any) -> BaseException:
    """Return an error that says more, and knows better what is left."""
    if not isinstance(error, AmphoraComputeError):
        return error
    # What is to be done follows from what is left, unless that is known too.
    facts = {name: getattr(error, name) for name in error.FACTS}
    told = type(error)(
        text,
        **facts | {'retry_after': error.retry_after, 'circuit': error.circuit} | known,
    )
    told.__cause__ = error.__cause__
    return told


def as_kind(kind: type[AmphoraComputeError], error: BaseException, **facts: Any) -> BaseException:
    """Return an error of another class that says the same, caused by the first."""
    facts.setdefault('amphora_id', getattr(error, 'amphora_id', None))
    changed = kind(str(error), **facts)
    changed.__cause__ = error
    return changed
