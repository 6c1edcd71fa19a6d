"""The proxy itself: a thread with an event loop, and the door to it for other threads."""

from __future__ import annotations

import asyncio
import socket
import threading
import urllib.parse
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Self

from kiln.testing.proxy.connection import Connection, Peer
from kiln.testing.proxy.exchanges import Exchange, Log
from kiln.testing.proxy.faults import Fault
from kiln.testing.proxy.script import Predicate, Rule, Script

_LOOPBACK = '127.0.0.1'
_BACKLOG = 512


class FaultProxy:
    """Stands between HTTP clients and one server, and misbehaves as told.

    Use it as a context manager. Everything may be called from any thread; a rule
    counts for requests that arrive after it was made.
    """

    def __init__(
        self,
        upstream_url: str,
        *,
        port: int = 0,
        seed: int = 0,
        on_end: Callable[[Exchange], None] | None = None,
    ) -> None:
        """Remember the server; ``on_end`` is told of each exchange, in the proxy's thread."""
        parts = urllib.parse.urlsplit(upstream_url)
        if parts.scheme != 'http' or not parts.hostname:
            raise ValueError(f'Cannot stand before {upstream_url!r}: it is no http:// URL.')
        self.upstream = (parts.hostname, parts.port or 80)
        self.script = Script(seed)
        self.log = Log()
        self.on_end = on_end
        self._path = parts.path
        self._port = port
        self._ready = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop
        self._failure: BaseException | None = None

    # For the test that uses it.

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def start(self) -> None:
        """Listen; return when clients can connect.

        :raises OSError: the port is taken.
        """
        # This socket never listens. It keeps the port ours while the proxy is
        # down, when the kernel refuses connections to it as to any dead server.
        self._claim = _bound(self._port)
        self._port = self._claim.getsockname()[1]
        self._thread = threading.Thread(target=self._run, name='fault-proxy', daemon=True)
        self._thread.start()
        self._ready.wait()

    def close(self) -> None:
        """Drop everybody, and end; to say so twice does no harm."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._loop.call_soon_threadsafe(self._closing.set)
            thread.join()
            self._claim.close()

    @property
    def url(self) -> str:
        """Where the proxy listens, with the path that the server's URL has."""
        return f'http://{_LOOPBACK}:{self._port}{self._path}'

    def fault(
        self,
        faults: Fault | Sequence[Fault],
        method: str | None = None,
        path: str | None = None,
        *,
        when: Predicate | None = None,
        skip: int = 0,
        times: int | None = None,
        chance: float = 1.0,
    ) -> Rule:
        """Make a rule from now on; the first rule that fits a request decides.

        ``path`` is a regular expression for the whole path, where version,
        project and query do not count: ``/servers/[^/]+``. Several faults are
        met in turn, each by one request.
        """
        return self.script.add(
            Rule(
                faults=faults,
                method=method,
                path=path,
                when=when,
                skip=skip,
                times=times,
                chance=chance,
            )
        )

    @property
    def faults(self) -> tuple[Rule, ...]:
        """The rules, in the order in which they are asked."""
        return self.script.rules

    @property
    def requests(self) -> list[Exchange]:
        """All exchanges since the start, or since they were forgotten."""
        return self.log.all()

    def count(self, method: str | None = None, path: str | None = None) -> int:
        """Return how many requests there were; ``path`` is as in a rule."""
        return self.log.count(method, path)

    def wait_for(
        self,
        count: int,
        method: str | None = None,
        path: str | None = None,
        *,
        seconds: float = 10.0,
    ) -> bool:
        """Wait until so many such requests have arrived; False where time ran out."""
        return self.log.wait_for(count, method, path, seconds)

    def forget(self) -> None:
        """Forget the exchanges so far."""
        self.log.clear()

    def down(self, *, accept: bool = False) -> None:
        """Reset all connections and refuse new ones; with ``accept``, take and close them."""
        self._do(self._go_down(accept))

    def up(self) -> None:
        """Let clients in again, at the same port."""
        self._do(self._go_up())

    def release(self) -> None:
        """End all that hangs now: those connections are closed."""
        self._do(self._release())

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    # In the thread of the loop.

    def _run(self) -> None:
        asyncio.run(self._live())

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._closing = asyncio.Event()
        self.released = asyncio.Event()
        self._clients: set[Peer] = set()
        self._visits: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None
        self._accepts = True
        self._comeback: asyncio.TimerHandle | None = None
        await self._go_up()
        self._ready.set()
        await self._closing.wait()
        await self._go_down(accept=False)
        for visit in self._visits:
            visit.cancel()
        await asyncio.gather(*self._visits, return_exceptions=True)

    def _let_in(self, client: Peer) -> None:
        if not self._accepts:
            client.close()
            return
        task = self._loop.create_task(self._serve(client))
        self._visits.add(task)
        task.add_done_callback(self._visits.discard)

    async def _serve(self, client: Peer) -> None:
        self._clients.add(client)
        try:
            await Connection(self, client).serve()
        finally:
            self._clients.discard(client)
