"""Transport for clients that use requests: whole exchanges are bounded, and their answers.

The libraries count a time-out from one byte to the next, and read a body of any size. Here
the connections heed :func:`kiln.foreign.exchange.exchange`.
"""

from __future__ import annotations

import functools
from typing import Any, cast

import requests
import requests.adapters
import urllib3.connection
import urllib3.connectionpool
import urllib3.exceptions

from kiln.foreign.answers import DEEPEST, too_deep
from kiln.foreign.exchange import TimedSocket, exchange, left_s

#: The most bytes of an answer, compressed or not; a page of servers has a few millions.
MOST_BYTES = 64 * 1024 * 1024
_BLOCK = 64 * 1024
_JSON = (b'{', b'[')


@functools.cache
def timed(kind: type[Any]) -> type[Any]:
    """Return a class of urllib3's connections, with reads and writes bound to an exchange."""

    class Timed(kind):  # type: ignore[misc]  # the base is an argument
        sock: Any
        timeout: Any

        def connect(self) -> None:
            self.timeout = left_s(self.timeout)
            super().connect()
            if not isinstance(self.sock, TimedSocket):
                self.sock = TimedSocket(self.sock)

    return Timed


class _HttpPool(urllib3.connectionpool.HTTPConnectionPool):
    ConnectionCls = timed(urllib3.connection.HTTPConnection)


class _HttpsPool(urllib3.connectionpool.HTTPSConnectionPool):
    ConnectionCls = timed(urllib3.connectionpool.HTTPSConnectionPool.ConnectionCls)


_POOLS = {'http': _HttpPool, 'https': _HttpsPool}


class BoundedAdapter(requests.adapters.HTTPAdapter):
    """Sends requests that end within their time-outs, all reads together.

    What the caller streams is bound by the exchange that the caller is in.
    """

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Make the pools open connections of the right class."""
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = cast('Any', _POOLS)

    def proxy_manager_for(self, proxy: Any, **kwargs: Any) -> Any:
        """Return the pools for a proxy, with connections of the right class."""
        manager = super().proxy_manager_for(proxy, **kwargs)
        if not str(proxy).lower().startswith('socks'):
            manager.pool_classes_by_scheme = cast('Any', _POOLS)
        return manager

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: bool | str = True,
        cert: Any = None,
        proxies: Any = None,
    ) -> requests.Response:
        """Send a request; return the response with its body, unless that is streamed."""
        with exchange(_total_s(timeout), MOST_BYTES):
            try:
                response = super().send(request, True, timeout, verify, cert, proxies)
            except requests.exceptions.ConnectionError as exc:
                if _is_late(exc):
                    raise requests.exceptions.ReadTimeout(exc, request=request) from exc
                raise
            if not stream:
                _read(response)
        return response


def _total_s(timeout: Any) -> float:
    parts = timeout if isinstance(timeout, tuple) else (timeout,)
    return float('inf') if None in parts else float(max(parts))


def _is_late(exc: BaseException) -> bool:
    """Return True if an exchange ended while its request was sent, which has no other name."""
    aborted = exc.args[0] if exc.args else None
    return isinstance(aborted, urllib3.exceptions.ProtocolError) and any(
        isinstance(one, TimeoutError) for one in aborted.args
    )


def _read(response: requests.Response) -> None:
    """Read the body of a response into it."""
    kept, size = [], 0
    for block in response.iter_content(_BLOCK):
        kept.append(block)
        size += len(block)
        # Compressed, it can be a thousand times shorter on the wire.
        if size > MOST_BYTES:
            response.close()
            raise requests.exceptions.ContentDecodingError(
                f'the answer has more than {MOST_BYTES} bytes'
            )
    content = b''.join(kept)
    if content.lstrip()[:1] in _JSON and too_deep(content):
        raise requests.exceptions.ContentDecodingError(
            f'the answer is nested more than {DEEPEST} deep'
        )
    response._content = content
    response._content_consumed = True
