"""The path of one client through the proxy, with its own server connection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from kiln.testing.proxy.exchanges import Request
from kiln.testing.proxy.http1 import FramingError, Message, read_answer, read_request
from kiln.testing.proxy.peer import Peer

LOG = logging.getLogger(__name__)


class NoAnswer(Exception):
    """The server could not be reached, or closed without an answer."""


class Connection:
    """A client, its own connection to the server, and its requests in sequence.

    Because of the pairing nobody notices the proxy: a request is sent to the server
    once and never again, and no answer can go to another client.
    """

    def __init__(
        self,
        client: Peer,
        upstream: tuple[str, int],
        handle: Callable[[Connection, Request], Awaitable[None]],
    ) -> None:
        """Keep the client, the address of the server, and the handler of each request."""
        self.client = client
        self._upstream = upstream
        self._handle = handle
        self._server: Peer | None = None

    async def serve(self) -> None:
        """Serve the client until one of the ends has gone."""
        try:
            lasting = True
            while lasting and self.client.open:
                message = await read_request(self.client.stream, self.client.transport.write)
                await self._handle(self, Request(message))
                lasting = message.lasting
        except (EOFError, OSError):
            pass  # The client has left.
        except FramingError as exc:
            LOG.warning('A client does not send HTTP/1.1: %s', exc)
            self.client.transport.write(b'HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n')
        finally:
            self.client.transport.close()
            ends = [self.client.gone]
            if self._server is not None:
                self._server.transport.abort()
                ends.append(self._server.gone)
            await asyncio.wait(ends)

    async def fetch(self, request: Request) -> Message:
        """Send a request to the server, once, and return the answer.

        :raises NoAnswer: the server could not be reached, or gave no answer.
        """
        server = self._server
        try:
            if server is None or not server.open:
                _, server = await asyncio.get_running_loop().create_connection(
                    Peer, *self._upstream
                )
                self._server = server
            server.transport.write(request.message.raw)
            answer = await read_answer(server.stream, to_head=request.method == 'HEAD')
        except EOFError as exc:
            raise NoAnswer('The server closed the connection.') from exc
        except (OSError, FramingError) as exc:
            raise NoAnswer(str(exc)) from exc
        if not answer.lasting:
            server.transport.close()
        return answer
