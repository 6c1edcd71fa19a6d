"""Words for what a look at a backend saw, for the sentence of a failure."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kiln.models import Amphora, ComputeStatus

#: Characters of what has no words of its own, such as an answer of many parts.
_MOST = 200


def in_words(seen: object) -> str:
    """Return what was seen as words: of an instance, its state and what it is busy with."""
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
    # A description has neither.
    for name in ('task_state', 'fault'):
        if told := getattr(seen, name, None):
            yield f'with {name} {str(told)!r}'
