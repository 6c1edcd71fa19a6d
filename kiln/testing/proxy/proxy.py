"""The fault proxy for tests: rules, recorded exchanges, an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Self

from kiln.testing.proxy.connection import Connection, NoAnswer
from kiln.testing.proxy.exchanges import Exchange, Fault, Request, Visit, matcher
from kiln.testing.proxy.faults import Serve
from kiln.testing.proxy.http1 import Message
from kiln.testing.proxy.rule import Predicate, Rule
from kiln.testing.proxy.server import LOOPBACK, Server
from kiln.testing.proxy.urls import renamed

LOG = logging.getLogger(__name__)

_SERVE = Serve()


class FaultProxy:
    """A proxy between HTTP clients and one server, with faults by rules.

    Use it as a context manager. Every method can be called from any thread; a
    rule counts for the requests that arrive after it was made.
    """

    def __init__(
        self,
        upstream_url: str,
        *,
        port: int = 0,
        seed: int = 0,
        on_end: Callable[[Exchange], None] | None = None,
        idle_s: float = 5.0,
    ) -> None:
        """Keep the address of the server.

        ``seed`` decides which requests meet rules with a chance. ``on_end`` is called
        with each exchange, in the proxy's thread, so it must not wait for the proxy.
        A connection to the server that was idle for ``idle_s`` is replaced: a server that
        closes it at that moment would lose a request.

        :raises ValueError: the URL is not one of plain HTTP.
        """
        parts = urllib.parse.urlsplit(upstream_url)
        if parts.scheme != 'http' or not parts.hostname:
            raise ValueError(f'Cannot forward to {upstream_url!r}: it is not an http:// URL.')
        self._upstream = (parts.hostname, parts.port or 80)
        self._path = parts.path.rstrip('/')
        self._port = port
        self._seed = seed
        self._on_end = on_end
        self._idle_s = idle_s
        #: The rules, in the order in which they are tried.
        self.faults: tuple[Rule, ...] = ()
        self._rules_made = 0
        self._exchanges: list[Exchange] = []
        #: Guards rules and exchanges; notified when an exchange begins or ends.
        self._changed = threading.Condition()
        self._urls: Mapping[str, str] = {}
        self._thread: threading.Thread | None = None

    # ---- start and end ---------------------------------------------------------

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def start(self) -> None:
        """Listen; when this returns, clients can connect.

        :raises OSError: the port is taken.
        """
        self._loop = asyncio.new_event_loop()
        try:
            self._server = Server(
                self._loop,
                self._port,
                lambda client: Connection(
                    client, self._upstream, self._handle, idle_s=self._idle_s
                ).serve(),
            )
        except OSError:
            self._loop.close()
            raise
        self._port = self._server.port
        self._thread = threading.Thread(target=self._live, name='fault-proxy', daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Drop all clients and end; safe to repeat."""
        if self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._thread = None

    @property
    def url(self) -> str:
        """Where the proxy listens, with the path of the server's URL."""
        return f'http://{LOOPBACK}:{self._port}{self._path}'

    def down(self, *, accept: bool = False) -> None:
        """Reset all connections and refuse new ones; with ``accept``, take and close them."""
        self._run(lambda: self._server.down(accept=accept))

    def up(self) -> None:
        """Let clients in again, at the same port."""
        self._run(self._server.up)

    def release(self) -> None:
        """Close all connections that hang now."""
        self._run(self._server.release)

    def _run(self, work: Callable[[], None]) -> None:
        async def run() -> None:
            work()

        asyncio.run_coroutine_threadsafe(run(), self._loop).result()

    # ---- rules -----------------------------------------------------------------

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
        """Add a rule; the first rule that has a fault for a request decides.

        ``path`` is a regular expression for the whole path, where version,
        project and query do not count: ``/servers/[^/]+``. Several faults are
        used in turn, each for one request. The first of the requests that fit
        ``skip`` pass, and no more than ``times`` meet a fault.
        """
        return self.add(Rule(faults, method, path, when, skip, times, chance))

    def add(self, rule: Rule) -> Rule:
        """Add a rule after the others."""
        with self._changed:
            self._rules_made += 1
            # One generator for each rule, so that the n-th request that this rule
            # matches has the same result in every run, whatever other rules do.
            rule.join(self._remove, f'{self._seed}/{self._rules_made}')
            self.faults = (*self.faults, rule)
        return rule

    def _remove(self, rule: Rule) -> None:
        with self._changed:
            self.faults = tuple(known for known in self.faults if known is not rule)

    def rename(self, urls: Mapping[str, str]) -> None:
        """Replace these URLs by others, in headers and JSON of the server's answers."""
        self._urls = dict(urls)

    # ---- exchanges -------------------------------------------------------------

    @property
    def requests(self) -> list[Exchange]:
        """All exchanges since the start, or since :meth:`forget`."""
        return self._exchanges.copy()

    def count(self, method: str | None = None, path: str | None = None) -> int:
        """Return the number of requests; ``path`` is as in a rule."""
        return sum(map(matcher(method, path), self.requests))

    def wait_for(
        self,
        count: int,
        method: str | None = None,
        path: str | None = None,
        *,
        seconds: float = 10.0,
    ) -> bool:
        """Wait until ``count`` matching requests arrived; return False on timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: self.count(method, path) >= count, seconds)

    def settle(self, *, seconds: float = 10.0) -> bool:
        """Wait until all exchanges are over; return False if time ran out."""
        with self._changed:
            return self._changed.wait_for(
                lambda: all(exchange.ended for exchange in self._exchanges), seconds
            )

    def forget(self) -> None:
        """Forget the exchanges so far."""
        with self._changed:
            self._exchanges.clear()

    # ---- in the proxy's thread -------------------------------------------------

    def _live(self) -> None:
        # A runner closes the loop, and also the tasks and threads of faults.
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            self._loop.run_forever()
            runner.run(self._server.close())

    async def _handle(self, connection: Connection, message: Message) -> None:
        """Play the fault of the first rule that has one, and record the exchange."""

        async def fetch(request: Request) -> Message:
            return renamed(await connection.fetch(request.message), self._urls)

        client, request = connection.client, Request(message)
        exchange = Exchange(request)
        with self._changed:
            self._exchanges.append(exchange)
            self._changed.notify_all()
        try:
            chosen = (rule.choose(request) for rule in self.faults)
            exchange.fault = next((one for one in chosen if one is not None), None)
            visit = Visit(request, exchange, client, self._server, fetch)
            await (exchange.fault or _SERVE).play(visit)
        except NoAnswer as exc:
            LOG.warning('No answer to %s %s: %s', request.method, request.target, exc)
            client.reset()
        except Exception:  # an error in a fault or rule must not look like a hang
            LOG.exception('A fault or rule failed on %s %s', request.method, request.target)
            client.reset()
        finally:
            with self._changed:
                exchange.ended = time.monotonic()
                self._changed.notify_all()
            if self._on_end is not None:
                self._on_end(exchange)


@contextlib.contextmanager
def fault_proxies(urls: Mapping[str, str]) -> Iterator[dict[str, FaultProxy]]:
    """Put a proxy before each of several services that link to each other, as a catalogue does.

    URLs in their answers lead to the proxies again, so a client that was given
    the URL of one of them stays behind them all.
    """
    with contextlib.ExitStack() as stack:
        proxies = {name: stack.enter_context(FaultProxy(url)) for name, url in urls.items()}
        instead = {url: proxies[name].url for name, url in urls.items()}
        for proxy in proxies.values():
            proxy.rename(instead)
        yield proxies
