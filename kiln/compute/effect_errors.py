"""Errors of multi-step operations, with what the operation left behind."""

from __future__ import annotations

from typing import Any

from kiln.exceptions import Advice, AmphoraBuildError, AmphoraComputeError, Outcome
from kiln.models import Amphora, State


def with_what_is_left(error: BaseException, left: Amphora, build_key: str) -> BaseException:
    """Return the error of a build that found, or left, a machine that has run."""
    if left.state is State.ACTIVE:
        advice, to_do = Advice.REPEAT, 'Build again with its key to adopt it, or delete it'
    else:
        # Another build would wait for the same machine, without success.
        advice, to_do = Advice.REPAIR, 'Repair it, or delete it'
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
    """Return the error of a wait; it names what is left, because a wait removes nothing."""
    if not isinstance(error, AmphoraBuildError):
        return error
    where = f' under build key {build_key!r}' if build_key else ''
    text = f'{error} It is left as it is{where}: repair it, or delete it.'
    key = build_key or error.build_key
    return told(error, text, outcome=error.outcome, advice=error.advice, build_key=key)


def told(error: BaseException, text: str, **known: Any) -> BaseException:
    """Return a copy of an error with more text and facts."""
    if not isinstance(error, AmphoraComputeError):
        return error
    # The advice follows from the outcome, unless the advice is given too.
    facts = {name: getattr(error, name) for name in error.FACTS}
    told = type(error)(
        text,
        **facts | {'retry_after': error.retry_after, 'circuit': error.circuit} | known,
    )
    told.__cause__ = error.__cause__
    return told


def as_kind(kind: type[AmphoraComputeError], error: BaseException, **facts: Any) -> BaseException:
    """Return an error of another class with the same text, caused by the first."""
    facts.setdefault('amphora_id', getattr(error, 'amphora_id', None))
    changed = kind(str(error), **facts)
    changed.__cause__ = error
    return changed
