"""Requests to a container engine through the Docker SDK."""

from __future__ import annotations

import copy
import dataclasses
import logging
import os
import re
import threading
import urllib.parse
from collections.abc import Callable
from typing import Any, TypeVar

import docker
import docker.errors
import docker.tls
import docker.transport
import requests
import urllib3.exceptions
from docker.transport import unixconn

from kiln.clock import Clock, current_deadline
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.docker.api import errors, ssh
from kiln.compute_drivers.docker.api.errors import Reply
from kiln.exceptions import ConfigurationError, Outcome, ServiceTimeout, ServiceUnavailable
from kiln.foreign.exchange import exchange
from kiln.foreign.http_adapter import MOST_BYTES, BoundedAdapter, timed
from kiln.foreign.waiting import waiting_for

LOG = logging.getLogger(__name__)

T = TypeVar('T')

#: The oldest API version that kiln's own suites have passed with.
OLDEST = (1, 41)
#: Seconds allowed for requests that no controller waits for, such as imports.
PATIENT_S = 3600.0
_SHORTEST_S = 0.05
_DEFAULT_WORKERS = 16
_SPARE_CONNECTIONS = 4
_PULL = '/images/create'
#: How the SDK and the libraries below it report a missing answer.
_NO_ANSWER = (requests.RequestException, urllib3.exceptions.HTTPError, OSError)
#: The host named in requests that go through ssh; nothing is sent to it.
_NOWHERE = 'tcp://docker:2375'
_SECONDS = re.compile(r'[0-9]{1,9}(\.[0-9]+)?')
#: Podman reads the process of a container while it answers. If the process ends
#: meanwhile, Podman reports an error of its own.
_JUST_ENDED = re.compile(r'/proc/\d+/\S+: no such (process|file)')


class _UnixPool(unixconn.UnixHTTPConnectionPool):  # type: ignore[misc]  # no types
    def _new_conn(self) -> Any:
        kind = timed(unixconn.UnixHTTPConnection)
        return kind(self.base_url, self.socket_path, self.timeout)


class _UnixAdapter(BoundedAdapter, docker.transport.UnixHTTPAdapter):  # type: ignore[misc]
    """Sends requests to an engine of this host; all its connections are in one pool."""

    def __init__(self, path: str, connections: int) -> None:
        # Each request has its own time-out.
        docker.transport.UnixHTTPAdapter.__init__(self, path, max_pool_size=connections)

    def get_connection(self, url: Any, proxies: Any = None) -> Any:
        """Return the pool of the socket."""
        with self.pools.lock:
            pool = self.pools.get(url)
            if pool is None:
                pool = _UnixPool(url, self.socket_path, self.timeout, maxsize=self.max_pool_size)
                self.pools[url] = pool
        return pool


class Session(docker.APIClient):  # type: ignore[misc]  # the SDK has no types
    """The SDK's client, with a time-out of its own for connections."""

    connect_timeout_s = 10.0

    def send(self, request: Any, **kwargs: Any) -> Any:
        """Send a request; the exchange that it is part of has the deadline of the caller."""
        kwargs['timeout'] = (min(self.connect_timeout_s, self.timeout), self.timeout)
        # A pull reports its progress for as long as it takes.
        kwargs['stream'] = bool(kwargs.get('stream')) or _PULL in str(request.url)
        return super().send(request, **kwargs)

    def inspect_container(self, container: str) -> Any:
        """Inspect a container, once more if its process has just ended."""
        try:
            return super().inspect_container(container)
        except docker.errors.APIError as exc:
            if not _JUST_ENDED.search(str(exc.explanation)):
                raise
        return super().inspect_container(container)

    def _result(self, response: Any, json: bool = False, binary: bool = False) -> Any:
        try:
            return super()._result(response, json, binary)
        except requests.JSONDecodeError as exc:
            # The library counts it among the errors of requests that got no answer.
            raise ValueError('the answer is not JSON') from exc

    def _raise_for_status(self, response: Any) -> None:
        try:
            super()._raise_for_status(response)
        except (KeyError, TypeError, AttributeError) as exc:
            # The SDK expects a message in the JSON of every error, even of a proxy's.
            raise docker.errors.APIError('no message', response=response) from exc


class Engine:
    """One container engine; its version is read on first use."""

    def __init__(self, conf: Any, clock: Clock) -> None:
        self._url = conf.url
        #: What is silent if no answer comes.
        self._whom = f'the engine at {conf.url}'
        self._tls = _tls(conf)
        self._ssh = _ssh(conf)
        self._timeout_s, self._connect_timeout_s = conf.timeout, conf.connect_timeout
        # A thread that finds the pool empty opens a connection and discards it afterwards.
        self._connections = getattr(conf, 'max_workers', _DEFAULT_WORKERS) + _SPARE_CONNECTIONS
        self._clock = clock
        self._lock = threading.Lock()
        self._session: Session | None = None
        self._podman = False

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        with self._lock:
            session, self._session = self._session, None
        if session is not None:
            session.close()

    def ask(self, asked: Asked, action: Callable[..., T], *what: Any, **how: Any) -> T:
        """Return the result of ``action`` with the SDK's client and further arguments.

        :raises AmphoraComputeError: the engine gave no answer, or answered with an error.
        """
        self._check_time(asked)
        session = self._connect(asked)
        started = self._clock.monotonic()
        try:
            with exchange(self._left_s(), MOST_BYTES), waiting_for(self._whom):
                return action(session, *what, **how)
        except docker.errors.APIError as exc:
            raise errors.refused(asked, _reply(exc)) from exc
        except _NO_ANSWER as exc:
            raise errors.unanswered(asked, exc) from exc
        except (ValueError, RecursionError) as exc:
            # A success that is not JSON was not sent by an engine.
            raise errors.refused(asked, Reply(status=200)) from exc
        finally:
            took_ms = 1000 * (self._clock.monotonic() - started)
            LOG.debug('%s %s: %.0f ms', asked.verb, asked.subject, took_ms)

    def ask_patiently(self, asked: Asked, action: Callable[..., T], *what: Any, **how: Any) -> T:
        """Do the same as ``ask``, on a separate connection and with hours to spare."""
        engine = self._patient()
        try:
            return engine.ask(asked, action, *what, **how)
        finally:
            engine.close()

    def is_podman(self, asked: Asked) -> bool:
        """Return True if the engine is Podman, which answers as Docker does."""
        self._connect(asked)
        return self._podman

    # ---- connecting ------------------------------------------------------

    def _patient(self) -> Engine:
        engine = copy.copy(self)
        engine._session, engine._timeout_s = None, PATIENT_S
        # Nobody else waits until it has opened its connection.
        engine._lock = threading.Lock()
        return engine

    def _connect(self, asked: Asked) -> Session:
        # One thread asks for the version, and the others wait for it.
        with waiting_for(self._whom), self._lock:
            if self._session is None:
                self._session = self._made(self._spoken(asked))
            return self._session

    def _made(self, version: str) -> Session:
        session = Session(
            base_url=_NOWHERE if self._ssh else self._url,
            version=version,
            timeout=self._timeout_s,
            tls=False if self._ssh else self._tls,
        )
        session.connect_timeout_s = self._connect_timeout_s
        # The environment's proxies are not for engines, and its certificate authorities
        # would override those of the backend.
        session.trust_env = False
        if self._ssh:
            session.mount('http://', ssh.SshAdapter(self._ssh, self._connections))
        elif '+' not in session.base_url:
            pool = BoundedAdapter(pool_maxsize=self._connections)
            session.mount('http://', pool)
            session.mount('https://', pool)
        else:
            path = self._url.partition('://')[2]
            session.mount('http+docker://', _UnixAdapter(path, self._connections))
        return session

    def _spoken(self, asked: Asked) -> str:
        """Return the API version that the engine speaks; changes nothing."""
        oldest = '.'.join(map(str, OLDEST))
        session = self._made(oldest)
        try:
            with exchange(self._left_s(), MOST_BYTES):
                answer = session.version(api_version=False)
            spoken = str(answer['ApiVersion'])
            version = tuple(map(int, spoken.split('.')))
            self._podman = _is_podman(answer)
        except docker.errors.APIError as exc:
            raise errors.refused(dataclasses.replace(asked, making=False), _reply(exc)) from exc
        except _NO_ANSWER as exc:
            raise errors.unanswered(asked, exc, at=f' at {self._shown}') from exc
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
            raise asked.error(
                ServiceUnavailable, f'what answers at {self._shown} is not a container engine.'
            ) from exc
        finally:
            session.close()
        if version < OLDEST:
            raise asked.error(
                ServiceUnavailable,
                f'the engine at {self._shown} speaks API {spoken}; kiln needs {oldest}. '
                'Upgrade it.',
                retryable=False,
            )
        return spoken

    @property
    def _shown(self) -> str:
        parts = urllib.parse.urlsplit(self._url)
        return f'{parts.scheme}://{parts.netloc.rpartition("@")[2]}{parts.path}'

    def _left_s(self) -> float:
        deadline = current_deadline()
        return PATIENT_S if deadline is None else max(_SHORTEST_S, deadline.remaining_s())

    def _check_time(self, asked: Asked) -> None:
        deadline = current_deadline()
        if deadline is not None and deadline.remaining_s() <= 0:
            raise asked.error(
                ServiceTimeout,
                'no time was left to send the request to the engine.',
                outcome=Outcome.NOT_APPLIED,
            )


def _is_podman(version: Any) -> bool:
    parts = [str(part.get('Name', '')) for part in version.get('Components') or ()]
    return any('podman' in part.lower() for part in parts)


def _ssh(conf: Any) -> tuple[str, ...] | None:
    if not conf.url.startswith('ssh://'):
        return None
    try:
        return ssh.command(conf.url, conf.ssh_config)
    except ValueError as exc:
        raise ConfigurationError(f'Cannot use url {conf.url!r}: {exc}.') from exc


def _tls(conf: Any) -> Any:
    files = [conf.tls_ca, conf.tls_cert, conf.tls_key]
    if not any(files):
        return False
    for path in filter(None, files):
        if not os.path.exists(path):
            raise ConfigurationError(f'Cannot use TLS: file {path!r} does not exist.')
    if bool(conf.tls_cert) != bool(conf.tls_key):
        raise ConfigurationError('Cannot use TLS: set both tls_cert and tls_key, or neither.')
    cert = (conf.tls_cert, conf.tls_key) if conf.tls_cert else None
    return docker.tls.TLSConfig(client_cert=cert, ca_cert=conf.tls_ca, verify=True)


def _reply(exc: docker.errors.APIError) -> Reply:
    response = exc.response
    try:
        body = response.json()
    except ValueError:
        body = None
    said = response.headers.get('Retry-After', '')
    return Reply(
        status=response.status_code,
        reason=errors.own_words(body),
        retry_after=float(said) if _SECONDS.fullmatch(said) else None,
    )
