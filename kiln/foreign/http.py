"""HTTP connections whose requests end with their exchange; no redirects, no proxies."""

from __future__ import annotations

import http.client
import ssl

from kiln.foreign.exchange import connect, exchange, secured

#: The most bytes of the head of an answer.
_LONGEST_HEAD = 256 * 1024


class PlainConnection(http.client.HTTPConnection):
    """A connection without TLS."""

    def connect(self) -> None:
        """Connect within the time of the exchange."""
        self.sock = connect(self.host, self.port)


class TlsConnection(PlainConnection):
    """A connection with TLS, for the name of the host or another."""

    default_port = http.client.HTTPS_PORT

    def __init__(
        self, host: str, port: int | None, context: ssl.SSLContext, name: str | None = None
    ) -> None:
        super().__init__(host, port)
        self._context, self._name = context, name or host

    def connect(self) -> None:
        """Connect within the time of the exchange."""
        self.sock = secured(connect(self.host, self.port), self._context, self._name)


def status_of(connection: http.client.HTTPConnection, path: str, limit_s: float) -> int:
    """Return the status of the answer to a GET, and close the connection.

    :raises OSError: there is no answer within the limit.
    :raises http.client.HTTPException: the answer is not HTTP.
    """
    try:
        with exchange(limit_s, _LONGEST_HEAD):
            connection.request('GET', path, headers={'Connection': 'close'})
            with connection.getresponse() as answer:
                return answer.status
    finally:
        connection.close()
