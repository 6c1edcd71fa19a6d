"""Boards of TaskFlow whose clients read a bounded answer, each from the host that is named.

Requests to etcd and commands to Redis end with the exchange of their thread
(:mod:`kiln.foreign.exchange`). The client of ZooKeeper, and the watch of etcd, read on threads
of their own for as long as the connection lasts; there the bytes are bounded.
"""

from __future__ import annotations

import functools
import math
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import requests
from kazoo.handlers.threading import SequentialThreadingHandler
from taskflow.jobs import backends
from taskflow.jobs.backends.impl_etcd import EtcdJobBoard

from kiln.foreign.answers import MOST_BYTES, Flood
from kiln.foreign.exchange import exchange, timed_redis
from kiln.foreign.http_adapter import BoundedAdapter


def make_board(conf: Mapping[str, Any]) -> Any:
    """Return a board that is not connected."""
    if conf['board'] == 'etcd':
        return _EtcdBoard('kiln', {**conf, 'session': _session(conf)})
    if conf['board'] == 'redis':
        return _redis_board(conf)
    return backends.fetch('kiln', {**conf, 'handler': _Handler(conf)})


# ---- ZooKeeper -----------------------------------------------------------------------


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]  # no types
    """Opens connections to the named host of ZooKeeper, and to no other over TLS."""

    def __init__(self, conf: Mapping[str, Any]) -> None:
        super().__init__()
        self._trusted: ssl.SSLContext | None = None
        if conf.get('use_ssl'):
            self._trusted = ssl.create_default_context(cafile=conf.get('ca'))
            if 'certfile' in conf:
                self._trusted.load_cert_chain(conf['certfile'], conf.get('keyfile'))

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **_: Any
    ) -> _BoundedSocket:
        """Connect to an address of a host."""
        plain = socket.create_connection(address, timeout)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._trusted is None:
            return _BoundedSocket(plain)
        try:
            return _BoundedSocket(self._trusted.wrap_socket(plain, server_hostname=hostname))
        # No other code has the socket so far.
        except BaseException:
            plain.close()
            raise


class _BoundedSocket:
    """A socket from which no answer of more bytes is read; kazoo asks for all that are left."""

    def __init__(self, plain: socket.socket) -> None:
        self._plain = plain

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)

    def recv(self, count: int) -> bytes:
        """Return bytes of an answer of which so many are left."""
        if count > MOST_BYTES:
            raise Flood(MOST_BYTES)
        return self._plain.recv(count)


# ---- etcd ----------------------------------------------------------------------------


class _EtcdBoard(EtcdJobBoard):  # type: ignore[misc]  # no types
    """A board on etcd that can be given the session of its client."""

    ETCD_CONFIG_OPTIONS = (*EtcdJobBoard.ETCD_CONFIG_OPTIONS, ('session', lambda session: session))


class _WatchedAdapter(BoundedAdapter):
    """Bounds what a watch reads in all; TaskFlow learns nothing from it that it must know."""

    def send(self, *args: Any, **kwargs: Any) -> requests.Response:
        """Send a request; a response that is streamed ends after that many bytes."""
        response = super().send(*args, **kwargs)
        if kwargs.get('stream'):
            response.raw.stream = functools.partial(_bounded, response.raw.stream)
        return response


def _bounded(stream: Callable[..., Iterator[bytes]], *args: Any, **kwargs: Any) -> Iterator[bytes]:
    # On a thread that does nothing else.
    with exchange(math.inf, MOST_BYTES):
        yield from stream(*args, **kwargs)


def _session(conf: Mapping[str, Any]) -> requests.Session:
    session = requests.Session()
    session.trust_env = False
    for scheme in ('http://', 'https://'):
        session.mount(scheme, _WatchedAdapter())
    if 'ca_cert' in conf:
        session.verify = conf['ca_cert']
    if 'cert_cert' in conf:
        key = conf.get('cert_key')
        session.cert = (conf['cert_cert'], key) if key else conf['cert_cert']
    return session


# ---- Redis ---------------------------------------------------------------------------


def _redis_board(conf: Mapping[str, Any]) -> Any:
    # Sites with another board need not have redis.
    from redis.backoff import NoBackoff
    from redis.retry import Retry
    from taskflow.jobs.backends.impl_redis import RedisJobBoard

    class RedisBoard(RedisJobBoard):  # type: ignore[misc]  # no types
        """A board whose commands are sent once, and end with their exchange."""

        @classmethod
        def _make_client(cls, conf: Mapping[str, Any]) -> Any:
            client = super()._make_client(conf)
            # After any error another board is opened.
            client.set_retry(Retry(NoBackoff(), 0))
            pool = client.connection_pool
            pool.connection_class = timed_redis(pool.connection_class)
            return client

    return RedisBoard('kiln', dict(conf))
