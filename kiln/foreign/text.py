"""Visible text: control characters and marks of direction are shown as escapes."""

from __future__ import annotations

import re

# Characters that act on a terminal, change the direction of text, have no width, or cannot be
# encoded. Line ends and tabs stay, and so do the joiners of scripts and emoji.
_HIDDEN = re.compile(
    r'\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e'
    r'\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]'
)
# Without this, "[31m" of a terminal colour would remain.
_ESCAPES = re.compile(r'\x1b(?:\[[0-?]*+[ -/]*+[@-~]|\][^\x07\x1b]*+(?:\x07|\x1b\\)?|[@-Z\\-_])')


def visible(text: str) -> str:
    r"""Return a text with each character that is not shown as an escape, such as ``\x1b``."""
    # The usual case, and fast.
    return text if text.isprintable() else _HIDDEN.sub(_escaped, text)


def plain(text: str) -> str:
    """Return a text as one line without terminal sequences and characters that are not shown."""
    if text.isprintable():
        return ' '.join(text.split())
    return ' '.join(_HIDDEN.sub(' ', _ESCAPES.sub('', text)).split())


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code > 0xFFFF:
        return f'\\U{code:08x}'
    return f'\\x{code:02x}' if code <= 0xFF else f'\\u{code:04x}'
