"""Wording of polled backend states, for failure messages."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kiln.models import Amphora, ComputeStatus

#: Maximum characters of a value without its own wording, such as a long list.
_MOST = 200


def in_words(seen: object) -> str:
    """Return a polled value as words; for an instance, its state, task and fault."""
    if isinstance(seen, (ComputeStatus, Amphora)):
        return ', '.join(_of_instance(seen))
    if isinstance(seen, str):
        return seen[:_MOST]
    if isinstance(seen, tuple):
        return ' '.join(map(str, seen))[:_MOST]
    if isinstance(seen, Collection):
        return '; '.join(map(in_words, seen))[:_MOST] or 'nothing'
    return repr(seen)[:_MOST]


def _of_instance(seen: ComputeStatus | Amphora) -> Iterator[str]:
    yield seen.state.value
    # An Amphora has neither attribute.
    for name in ('task_state', 'fault'):
        if told := getattr(seen, name, None):
            yield f'with {name} {str(told)!r}'
