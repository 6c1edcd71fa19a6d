"""The fault proxy, as tests and people use it: a thread of its own, and a door to it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
import urllib.parse
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Self

from kiln.testing.proxy.exchanges import Exchange, Log
from kiln.testing.proxy.faults import Fault
from kiln.testing.proxy.house import LOOPBACK, House
from kiln.testing.proxy.script import Predicate, Rule, Script


class FaultProxy:
    """Stands between HTTP clients and one server, and misbehaves as told.

    Use it as a context manager. Every method may be called from any thread; a
    rule counts for the requests that arrive after it was made.
    """

    def __init__(
        self,
        upstream_url: str,
        *,
        port: int = 0,
        seed: int = 0,
        on_end: Callable[[Exchange], None] | None = None,
    ) -> None:
        """Remember the server.

        ``seed`` decides whom rules with a chance hit. ``on_end`` is told of each
        exchange, in the proxy's thread, so it must not wait for the proxy.

        :raises ValueError: the server is asked by something else than plain HTTP.
        """
        parts = urllib.parse.urlsplit(upstream_url)
        if parts.scheme != 'http' or not parts.hostname:
            raise ValueError(f'Cannot stand before {upstream_url!r}: it is no http:// URL.')
        self._upstream = (parts.hostname, parts.port or 80)
        self._path = parts.path.rstrip('/')
        self._port = port
        self._script = Script(seed)
        self._log = Log(on_end)
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def start(self) -> None:
        """Listen; return when clients can connect.

        :raises OSError: the port is taken.
        """
        started: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._live(started)), name='fault-proxy', daemon=True
        )
        self._thread.start()
        try:
            started.result()
        except OSError:
            self._thread.join()
            self._thread = None
            raise

    def close(self) -> None:
        """Drop everybody, and end; to say so twice does no harm."""
        if self._thread is not None:
            self._loop.call_soon_threadsafe(self._closing.set)
            self._thread.join()
            self._thread = None

    @property
    def url(self) -> str:
        """Where the proxy listens, with the path that the server's URL has."""
        return f'http://{LOOPBACK}:{self._port}{self._path}'

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
        """Make a rule; the first rule that has a fault for a request decides.

        ``path`` is a regular expression for the whole path, where version,
        project and query do not count: ``/servers/[^/]+``. Several faults are
        met in turn, each by one request. Of the requests that fit, the first
        ``skip`` pass, and no more than ``times`` meet a fault.
        """
        return self.add(Rule(faults, method, path, when, skip, times, chance))

    def add(self, rule: Rule) -> Rule:
        """Ask a rule too, after those that are there."""
        return self._script.add(rule)

    @property
    def faults(self) -> tuple[Rule, ...]:
        """The rules, in the order in which they are asked."""
        return self._script.rules

    @property
    def requests(self) -> list[Exchange]:
        """All exchanges since the start, or since they were forgotten."""
        return self._log.all()

    def count(self, method: str | None = None, path: str | None = None) -> int:
        """Return how many requests there were; ``path`` is as in a rule."""
        return self._log.count(method, path)

    def wait_for(
        self,
        count: int,
        method: str | None = None,
        path: str | None = None,
        *,
        seconds: float = 10.0,
    ) -> bool:
        """Wait until so many such requests have arrived; False where time ran out."""
        return self._log.wait_for(count, method, path, seconds)

    def settle(self, *, seconds: float = 10.0) -> bool:
        """Wait until all exchanges are over; False where time ran out."""
        return self._log.settle(seconds)

    def forget(self) -> None:
        """Forget the exchanges so far."""
        self._log.clear()

    def down(self, *, accept: bool = False) -> None:
        """Reset all connections and refuse new ones; with ``accept``, take and close them."""
        self._do(self._house.down(accept=accept))

    def up(self) -> None:
        """Let clients in again, at the same port."""
        self._do(self._house.up())

    def release(self) -> None:
        """End all that hangs now: those connections are closed."""
        self._do(self._house.release())

    def rename(self, urls: Mapping[str, str]) -> None:
        """Put other URLs in place of these, in headers and JSON of the server's answers."""
        self._script.urls = dict(urls)

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _live(self, started: concurrent.futures.Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._closing = asyncio.Event()
        self._house = House(self._upstream, self._port, self._script, self._log)
        try:
            await self._house.open()
            self._port = self._house.port
            started.set_result(None)
            await self._closing.wait()
        except OSError as exc:
            started.set_exception(exc)
        finally:
            await self._house.close()


@contextlib.contextmanager
def fault_proxies(urls: Mapping[str, str]) -> Iterator[dict[str, FaultProxy]]:
    """Stand before several services that name one another, such as those of a catalogue.

    Whatever their answers name leads to the proxies again, so a client that was
    given the URL of one of them stays behind them all.
    """
    with contextlib.ExitStack() as stack:
        proxies = {name: stack.enter_context(FaultProxy(url)) for name, url in urls.items()}
        instead = {url: proxies[name].url for name, url in urls.items()}
        for proxy in proxies.values():
            proxy.rename(instead)
        yield proxies
