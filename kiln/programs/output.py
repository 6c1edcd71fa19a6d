"""Text that programs print, made safe to show."""

from __future__ import annotations

import os
from typing import IO

from kiln.exceptions import redact
from kiln.foreign.text import plain

#: The longest message shown to users.
LONGEST_MESSAGE = 500
#: The bytes that are read of the end of a file; more only for a line that is longer.
_LAST_BYTES = 4096
_LONGEST_LINE = 65536


def clean(text: str) -> str:
    """Return a text as one short line without control characters and secrets."""
    # Cut first: the output of a program can be long. A secret can have line breaks, and a text
    # control characters within a secret.
    line = redact(plain(redact(text[: 8 * LONGEST_MESSAGE])))
    return line if len(line) <= LONGEST_MESSAGE else f'{line[: LONGEST_MESSAGE - 3]}...'


def last_lines(content: bytes, count: int = 3) -> str:
    """Return the last non-empty lines of the output of a program."""
    lines = content.decode(errors='replace').splitlines()
    # Clean each line: clean() keeps the beginning of a text, and the end is needed here.
    kept = [line for line in map(clean, lines) if line][-count:]
    return ' / '.join(kept)


def last_whole_lines(file: IO[bytes]) -> bytes:
    """Return the end of a file without a line whose beginning is not in it.

    Such a line can begin with half a secret, which nothing would recognise.
    """
    size = file.seek(0, os.SEEK_END)
    for most in _LAST_BYTES, _LONGEST_LINE:
        file.seek(max(0, size - most))
        content = file.read(most)
        if size <= most:
            return content
        if whole := content.partition(b'\n')[2]:
            return whole
    return b''
