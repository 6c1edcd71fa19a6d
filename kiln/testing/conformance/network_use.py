"""Use of the network by one thread, as Python itself reports it."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Iterator
from typing import Any

#: Audit events, and the argument of each that says what was called.
_EVENTS = {
    'socket.connect': 1,
    'socket.sendto': 1,
    'socket.sendmsg': 1,
    'socket.getaddrinfo': 0,
    'socket.gethostbyname': 0,
}
_watched = threading.local()


@contextlib.contextmanager
def network_use() -> Iterator[list[str]]:
    """Collect what the present thread does on the network, whatever library it uses."""
    _listen()
    used: list[str] = []
    _watched.used = used
    try:
        yield used
    finally:
        _watched.used = None


@functools.cache
def _listen() -> None:
    # It stays for the life of the process: Python removes no hook.
    sys.addaudithook(_heard)


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    used = getattr(_watched, 'used', None)
    if used is not None and event in _EVENTS:
        used.append(f'{event.removeprefix("socket.")} to {arguments[_EVENTS[event]]}')
