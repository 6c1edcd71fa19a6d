"""Output streams of commands, on which no text of others can act on the terminal."""

from __future__ import annotations

from typing import Any, TextIO, cast

from kiln.foreign.text import visible


class VisibleStream:
    """A stream that shows control characters as escapes."""

    def __init__(self, stream: TextIO) -> None:
        self.unchecked = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unchecked, name)

    def write(self, text: str) -> int:
        """Write a text in its visible form."""
        self.unchecked.write(visible(text))
        return len(text)


def visible_stream(stream: TextIO) -> TextIO:
    """Return a stream that shows control characters as escapes."""
    return cast('TextIO', VisibleStream(stream))


def drawn_on(stream: TextIO) -> TextIO:
    """Return the stream itself, for code that draws and makes foreign text visible itself."""
    return cast('TextIO', getattr(stream, 'unchecked', stream))
