"""Requests to one engine, through the docker SDK: an answer, or one of kiln's errors."""

from __future__ import annotations

import logging
import os
import threading
import urllib.parse
from collections.abc import Callable
from typing import Any, TypeVar

import docker
import docker.errors
import docker.tls
import requests
import requests.adapters
import urllib3.exceptions

from kiln.clock import Clock, current_deadline
from kiln.compute_drivers.docker import errors, failures
from kiln.compute_drivers.docker.errors import Asked, Reply
from kiln.exceptions import ConfigurationError, Outcome, ServiceTimeout, ServiceUnavailable

LOG = logging.getLogger(__name__)

T = TypeVar('T')

#: The oldest version of the API that kiln's own suites have passed with.
OLDEST = (1, 41)
#: Seconds that what is no call of a controller may take: imports.
PATIENT_S = 3600.0
_SHORTEST_S = 0.05
_DEFAULT_WORKERS = 16
_SPARE_CONNECTIONS = 4


class Session(docker.APIClient):  # type: ignore[misc]  # the SDK has no types
    """The SDK's client, whose every request keeps to the deadline of its caller."""

    connect_timeout_s = 10.0

    def send(self, request: Any, **kwargs: Any) -> Any:
        """Send a request within the time that is left."""
        deadline = current_deadline()
        left_s = self.timeout
        if deadline is not None:
            left_s = min(left_s, max(_SHORTEST_S, deadline.remaining_s()))
        kwargs['timeout'] = (min(self.connect_timeout_s, left_s), left_s)
        # One of the environment is never meant for an engine.
        kwargs['proxies'] = {}
        return super().send(request, **kwargs)


class Engine:
    """One container engine; asked for its version when it is first needed."""

    def __init__(self, conf: Any, clock: Clock) -> None:
        self._url = conf.url
        self._tls = _tls(conf)
        self._timeout_s, self._connect_timeout_s = conf.timeout, conf.connect_timeout
        # A thread that finds the pool empty opens a connection and throws it away.
        self._connections = getattr(conf, 'max_workers', _DEFAULT_WORKERS) + _SPARE_CONNECTIONS
        self._clock = clock
        self._lock = threading.Lock()
        self._session: Session | None = None
        self._podman: bool | None = None

    def close(self) -> None:
        """Give back the connections; the next request opens new ones."""
        with self._lock:
            session, self._session = self._session, None
        if session is not None:
            session.close()

    def ask(self, asked: Asked, action: Callable[[Any], T]) -> T:
        """Return what ``action`` makes of the SDK's client.

        :raises AmphoraComputeError: it was not answered, or with an error.
        """
        self._check_time(asked)
        session = self._session or self._connect(asked)
        started = self._clock.monotonic()
        try:
            return action(session)
        except docker.errors.APIError as exc:
            raise errors.refused(asked, _reply(exc)) from exc
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as exc:
            sent = failures.was_sent(exc)
            slow = failures.took_too_long(exc)
            raise errors.unanswered(asked, failures.why(exc), sent=sent, slow=slow) from exc
        except ValueError as exc:
            # What says success and is no JSON was not written by an engine.
            raise errors.refused(asked, Reply(status=200)) from exc
        finally:
            took_ms = 1000 * (self._clock.monotonic() - started)
            LOG.debug('%s %s: %.0f ms', asked.verb, asked.subject, took_ms)

    def ask_patiently(self, asked: Asked, action: Callable[[Any], T]) -> T:
        """Do the same on a connection of its own, for what takes minutes."""
        engine = self._patient()
        try:
            return engine.ask(asked, action)
        finally:
            engine.close()

    def is_podman(self, asked: Asked) -> bool:
        """Tell whether it is Podman that answers as Docker does."""
        if self._podman is None:
            version = self.ask(asked, lambda session: session.version())
            parts = [part.get('Name', '') for part in version.get('Components') or ()]
            self._podman = any('podman' in part.lower() for part in parts)
        return self._podman

    # ---- connecting ------------------------------------------------------

    def _patient(self) -> Engine:
        engine = object.__new__(Engine)
        engine.__dict__.update(self.__dict__)
        engine._session, engine._timeout_s = None, PATIENT_S
        return engine

    def _connect(self, asked: Asked) -> Session:
        with self._lock:
            if self._session is None:
                self._session = self._opened(asked)
            return self._session

    def _opened(self, asked: Asked) -> Session:
        try:
            session = Session(
                base_url=self._url,
                version='auto',
                timeout=self._timeout_s,
                tls=self._tls,
                use_ssh_client=True,
                max_pool_size=self._connections,
            )
        except docker.errors.DockerException as exc:
            raise self._no_entry(asked, exc) from exc
        except (requests.RequestException, OSError) as exc:
            raise errors.unanswered(asked, failures.why(exc), sent=False, slow=False) from exc
        session.connect_timeout_s = self._connect_timeout_s
        if session.base_url.startswith('http') and '+' not in session.base_url:
            pool = requests.adapters.HTTPAdapter(pool_maxsize=self._connections)
            session.mount('http://', pool)
            session.mount('https://', pool)
        spoken = tuple(int(part) for part in session.api_version.split('.'))
        if spoken < OLDEST:
            session.close()
            raise asked.error(
                ServiceUnavailable,
                f'the engine at {self._shown} speaks API {session.api_version}; kiln needs '
                f'{".".join(map(str, OLDEST))}. Upgrade it.',
                retryable=False,
            )
        return session

    def _no_entry(self, asked: Asked, exc: docker.errors.DockerException) -> Exception:
        cause: BaseException = exc
        while isinstance(cause, docker.errors.DockerException) and cause.__context__ is not None:
            cause = cause.__context__
        said = failures.why(cause)
        hint = ''
        if 'permission denied' in said:
            hint = ' Give the user of kiln the right to the socket; it is as good as root.'
        return asked.error(
            ServiceUnavailable, f'the engine at {self._shown} cannot be reached: {said}.{hint}'
        )

    @property
    def _shown(self) -> str:
        parts = urllib.parse.urlsplit(self._url)
        return f'{parts.scheme}://{parts.hostname or ""}{parts.path}'

    def _check_time(self, asked: Asked) -> None:
        deadline = current_deadline()
        if deadline is not None and deadline.remaining_s() <= 0:
            raise asked.error(
                ServiceTimeout, 'no time was left to ask the engine.', outcome=Outcome.NOT_APPLIED
            )


def _tls(conf: Any) -> Any:
    files = [conf.tls_ca, conf.tls_cert, conf.tls_key]
    if not any(files):
        return False
    for path in filter(None, files):
        if not os.path.exists(path):
            raise ConfigurationError(f'Cannot use TLS: there is no file {path!r}.')
    if bool(conf.tls_cert) != bool(conf.tls_key):
        raise ConfigurationError('Cannot use TLS: tls_cert and tls_key go together.')
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
        retry_after=float(said) if said.isdecimal() else None,
    )
