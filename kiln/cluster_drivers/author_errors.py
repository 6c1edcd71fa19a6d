"""Descriptions of an author's errors, each with its place in the author's own files."""

from __future__ import annotations

import traceback
from pathlib import Path

_KILN = Path(__file__).parents[1]
#: Folders of many packages: what is beside a module there does not belong to it.
_SHARED = frozenset({'site-packages', 'dist-packages'})


def described(error: BaseException) -> str:
    """Return the kind and the text of an author's error, and its place in the author's files."""
    text = f'{type(error).__name__}: {error}'.rstrip(': ')
    place = _place(error)
    return f'{text} ({place})' if place else text


def _place(error: BaseException) -> str:
    """Return the last line of the author's code in a traceback; empty if none is in it."""
    frames = [
        (Path(frame.f_code.co_filename), line)
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    own = [one for one in frames if not one[0].is_relative_to(_KILN)]
    if not own:
        return ''
    # What the author's code called, such as a library, is not where the mistake is.
    first = own[0][0]
    home = first if first.parent.name in _SHARED else first.parent
    file, line = [one for one in own if one[0].is_relative_to(home)][-1]
    return f'{file}:{line}'
