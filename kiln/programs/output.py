"""Text that programs print, made safe to show; no I/O."""

from __future__ import annotations

from kiln.exceptions import redact
from kiln.foreign.text import plain

#: The longest message shown to users.
LONGEST_MESSAGE = 500


def clean(text: str) -> str:
    """Return a text as one short line without control characters and secrets."""
    # Cut first: the output of a program can be long.
    line = redact(plain(text[: 8 * LONGEST_MESSAGE]))
    return line if len(line) <= LONGEST_MESSAGE else f'{line[: LONGEST_MESSAGE - 3]}...'


def last_lines(content: bytes, count: int = 3) -> str:
    """Return the last non-empty lines of the output of a program."""
    lines = content.decode(errors='replace').splitlines()
    # Clean each line: clean() keeps the beginning of a text, and the end is needed here.
    kept = [line for line in map(clean, lines) if line][-count:]
    return ' / '.join(kept)
