"""The listening side of the proxy: goes up and down, has a task per client."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Coroutine
from typing import Any

from kiln.testing.proxy.connection import Peer

LOOPBACK = '127.0.0.1'
_BACKLOG = 512


class Server:
    """Listens on a port of loopback while it is up; for one event loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        port: int,
        serve: Callable[[Peer], Coroutine[Any, Any, None]],
    ) -> None:
        """Take the port, and let clients in once the loop runs.

        :raises OSError: the port is taken.
        """
        # This socket never listens. It keeps the port ours while the proxy is
        # down, and the kernel refuses connections as for any stopped server.
        self._claim = _bound(port)
        self.port: int = self._claim.getsockname()[1]
        self._loop = loop
        self._serve = serve
        self._open = False
        self._listening: asyncio.Task[None] | None = None
        self._comeback: asyncio.TimerHandle | None = None
        self._clients: dict[Peer, asyncio.Task[None]] = {}
        #: Completed, and replaced, to end everything that hangs.
        self.released: asyncio.Future[None] = self._loop.create_future()
        self.up()

    def up(self) -> None:
        """Let clients in."""
        self._cancel_comeback()
        self._open = True
        self._listen()

    def down(self, *, accept: bool) -> None:
        """Reset all clients and refuse new ones; with ``accept``, take and close them."""
        self._cancel_comeback()
        self._open = False
        if accept:
            self._listen()
        elif self._listening is not None:
            self._listening.cancel()
            self._listening = None
        for client in self._clients:
            client.reset()

    def refuse(self, seconds: float, *, accept: bool) -> None:
        """Go down for some seconds; no effect if the proxy is already down."""
        if self._open:
            self.down(accept=accept)
            self._comeback = self._loop.call_later(seconds, self.up)

    def release(self) -> None:
        """End everything that hangs now."""
        self.released.set_result(None)
        self.released = self._loop.create_future()

    async def close(self) -> None:
        """Drop all clients; return when no socket is left."""
        tasks = [*self._clients.values(), *filter(None, [self._listening])]
        self.down(accept=False)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._claim.close()

    def _cancel_comeback(self) -> None:
        if self._comeback is not None:
            self._comeback.cancel()

    def _listen(self) -> None:
        if self._listening is None:
            listener = _bound(self.port)
            listener.setblocking(False)
            listener.listen(_BACKLOG)
            self._listening = self._loop.create_task(self._accept(listener))

    async def _accept(self, listener: socket.socket) -> None:
        # A server of asyncio that is closed forgets the clients that it has just
        # accepted, and their sockets stay open.
        with listener:
            while True:
                accepted, _ = await self._loop.sock_accept(listener)
                # A client that has already gone must not end the loop.
                with contextlib.suppress(OSError):
                    _, client = await self._loop.connect_accepted_socket(Peer, accepted)
                    if self._open:
                        self._let_in(client)
                    else:
                        client.transport.close()

    def _let_in(self, client: Peer) -> None:
        task = self._clients[client] = self._loop.create_task(self._serve(client))
        task.add_done_callback(lambda _: self._clients.pop(client))


def _bound(port: int) -> socket.socket:
    """Return a socket that is bound to a port and does not listen."""
    sock = socket.socket()
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((LOOPBACK, port))
    except OSError:
        sock.close()
        raise
    return sock
