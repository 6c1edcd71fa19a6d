"""Connections to a broker that read frames and messages of a bounded size.

kombu and py-amqp read whatever length a frame or a message announces. Everything is read on
one thread of kiln's, so a broker that is slow delays nothing but its own notifications.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import kombu
from amqp.method_framing import frame_handler
from kombu.transport import pyamqp

from kiln.foreign.answers import MOST_BYTES, Flood

#: The types of frames with the header and with parts of the body of a message.
_HEADER, _BODY = 2, 3
#: Where the header has the size of the body.
_SIZE_AT, _SIZE = 4, struct.Struct('>Q')

_Frame = tuple[int, int, Any]


def connect(url: str, **options: Any) -> kombu.Connection:
    """Return a connection to a broker, which is not open."""
    # Others, such as that of tests in memory, read nothing from a network.
    if url.startswith('amqp:'):
        options['transport'] = _Transport
    return kombu.Connection(url, **options)


class _Connection(pyamqp.Connection):  # type: ignore[misc]  # no types
    """A connection whose frames and messages are bounded."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, frame_handler=_frames, **kwargs)

    def Transport(self, *args: Any, **kwargs: Any) -> Any:  # noqa: N802  # the name is amqp's
        """Return the connection to the host."""
        transport = super().Transport(*args, **kwargs)
        read = transport._read

        def bounded(count: int, *more: Any) -> Any:
            if count > MOST_BYTES:
                raise Flood(MOST_BYTES)
            return read(count, *more)

        transport._read = bounded
        return transport


class _Transport(pyamqp.Transport):  # type: ignore[misc]  # no types
    Connection = _Connection


def _frames(connection: Any, callback: Callable[..., Any]) -> Callable[[_Frame], bool]:
    """Return the function that takes in frames; it refuses a message that is too long."""
    take = frame_handler(connection, callback)
    left: dict[int, int] = {}

    def on_frame(frame: _Frame) -> bool:
        kind, channel, content = frame
        if kind == _HEADER and len(content) >= _SIZE_AT + _SIZE.size:
            (left[channel],) = _SIZE.unpack_from(content, _SIZE_AT)
        if kind == _BODY:
            left[channel] = left.get(channel, 0) - len(content)
        if not 0 <= left.get(channel, 0) <= MOST_BYTES:
            raise Flood(MOST_BYTES)
        return bool(take(frame))

    return on_frame
