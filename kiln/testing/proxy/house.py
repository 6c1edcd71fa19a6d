"""The proxy's inside: who is let in, and who is served. All of it runs in one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket

from kiln.testing.proxy.connection import Connection
from kiln.testing.proxy.exchanges import Log
from kiln.testing.proxy.peer import Peer
from kiln.testing.proxy.script import Script

LOOPBACK = '127.0.0.1'
_BACKLOG = 512


def bound(port: int) -> socket.socket:
    """Return a socket that has a port and does nothing with it."""
    sock = socket.socket()
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((LOOPBACK, port))
    except OSError:
        sock.close()
        raise
    return sock


class House:
    """Listens, while it is up, and has a task for each client."""

    def __init__(self, upstream: tuple[str, int], port: int, script: Script, log: Log) -> None:
        self.upstream = upstream
        self.script = script
        self.log = log
        #: Done, and replaced, once all that hangs is to end.
        self.released = self._not_yet()
        self.port = port
        self._claim: socket.socket | None = None
        self._open = False
        self._welcoming: asyncio.Task[None] | None = None
        self._clients: dict[Peer, asyncio.Task[None]] = {}
        self._comeback: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Take the port, and let clients in.

        :raises OSError: the port is taken.
        """
        # This socket never listens. It keeps the port ours while the proxy is
        # down, and the kernel refuses connections to it as to any dead server.
        self._claim = bound(self.port)
        self.port = self._claim.getsockname()[1]
        await self.up()

    async def up(self) -> None:
        """Let clients in."""
        self._keep_down()
        self._open = True
        await self._listen()

    async def down(self, *, accept: bool) -> None:
        """Reset all clients and let no more in."""
        self._keep_down()
        self._shut(accept=accept)
        if accept:
            await self._listen()

    def refuse(self, seconds: float, *, accept: bool) -> None:
        """Be down for some seconds, from now on; what is down already stays as it is."""
        if self._open:
            self._shut(accept=accept)
            self._comeback = asyncio.create_task(self._come_back(seconds))

    async def release(self) -> None:
        """End all that hangs now, but nothing that will."""
        self.released.set_result(None)
        self.released = self._not_yet()

    async def close(self) -> None:
        """Drop everybody; return when no socket is left."""
        welcoming = [self._welcoming] if self._welcoming else []
        await self.down(accept=False)
        visits = list(self._clients.values())
        for visit in visits:
            visit.cancel()
        await asyncio.gather(*visits, *welcoming, return_exceptions=True)
        if self._claim is not None:
            self._claim.close()

    @staticmethod
    def _not_yet() -> asyncio.Future[None]:
        return asyncio.get_running_loop().create_future()

    async def _come_back(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._comeback = None
        await self.up()

    def _keep_down(self) -> None:
        if self._comeback is not None:
            self._comeback.cancel()
            self._comeback = None

    def _shut(self, *, accept: bool) -> None:
        self._open = False
        if self._welcoming is not None and not accept:
            self._welcoming.cancel()
            self._welcoming = None
        for client in self._clients:
            client.reset()

    async def _listen(self) -> None:
        if self._welcoming is None:
            listener = bound(self.port)
            listener.setblocking(False)
            listener.listen(_BACKLOG)
            self._welcoming = asyncio.create_task(self._welcome(listener))

    async def _welcome(self, listener: socket.socket) -> None:
        # A server of asyncio that is closed forgets the clients that it has just
        # accepted, and their sockets stay open.
        loop = asyncio.get_running_loop()
        with listener:
            while True:
                client, _ = await loop.sock_accept(listener)
                # One that is gone again already ends nothing but itself.
                with contextlib.suppress(OSError):
                    await loop.connect_accepted_socket(lambda: Peer(opened=self._let_in), client)

    def _let_in(self, client: Peer) -> None:
        if not self._open:
            client.close()
            return
        task = asyncio.create_task(Connection(self, client).serve())
        self._clients[client] = task
        task.add_done_callback(lambda _: self._clients.pop(client))
