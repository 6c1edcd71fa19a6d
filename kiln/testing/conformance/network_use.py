"""Use of the network by one thread, as Python itself reports it."""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

#: The functions that send something, or look a name up, and the module that has them.
_CALLS = frozenset({'connect', 'connect_ex', 'sendto', 'sendmsg', 'getaddrinfo', 'gethostbyname'})
_MODULE = '_socket'


@contextlib.contextmanager
def network_use() -> Iterator[list[str]]:
    """Collect what the present thread does on the network, whatever library it uses."""
    used: list[str] = []

    def watch(frame: FrameType, event: str, function: Any) -> None:
        if event != 'c_call' or function.__name__ not in _CALLS:
            return
        if (
            isinstance(getattr(function, '__self__', None), socket.socket)
            or function.__module__ == _MODULE
        ):
            used.append(f'{frame.f_code.co_qualname}() calls {function.__name__}()')

    # Not by an audit hook: Python 3.11 starts no thread while a hook hears of its tracing.
    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield used
    finally:
        sys.setprofile(before)
