"""keystoneauth session from a backend's options; uses no network."""

from __future__ import annotations

import math
import os
import re
import urllib.parse
from collections.abc import Mapping
from typing import Any

import requests
from keystoneauth1 import exceptions as ksa
from keystoneauth1 import loading
from keystoneauth1.session import Session, TCPKeepAliveAdapter

from kiln.clock import current_deadline
from kiln.exceptions import KNOWN_SECRETS, ConfigurationError
from kiln.foreign.connection_failures import one_line
from kiln.foreign.http_adapter import BoundedAdapter
from kiln.foreign.waiting import waited_for, waiting_for

#: Threads that can call a driver that was made without the option max_workers.
_DEFAULT_WORKERS = 16
#: The shortest timeout: requests refuses zero.
_SHORTEST_S = 0.05
#: The names of what clouds.yaml keeps secret.
_SECRET = re.compile('password|secret|token|passcode')


class _KeepAlive(BoundedAdapter, TCPKeepAliveAdapter):
    """Connections that are kept open, and whose requests end in time."""


class Connections(requests.Session):
    """A requests session with a timeout for each request and cached proxy settings.

    Reading the proxies from the environment takes a third of the CPU time of a
    request. A proxy that is set later does not apply to a running process.
    """

    def __init__(
        self, *, connect_timeout_s: float, timeout_s: float, keystone: str | None = None
    ) -> None:
        super().__init__()
        # Each request has its token. Without this, requests would read ~/.netrc each
        # time, and send a password for the host beside the token.
        self.auth = _as_it_is
        self._timeouts_s = (connect_timeout_s, timeout_s)
        self._settings: dict[tuple[Any, ...], Any] = {}
        self._keystone = _base(keystone)

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        """Send a request; without a timeout of its own it gets that of its call."""
        # keystoneauth sets no timeout when it gets a token or discovers versions.
        limits_s = kwargs.get('timeout') or self._timeouts_s
        if not isinstance(limits_s, tuple):
            limits_s = (limits_s, limits_s)
        deadline = current_deadline()
        left_s = math.inf if deadline is None else max(_SHORTEST_S, deadline.remaining_s())
        kwargs['timeout'] = tuple(min(limit_s, left_s) for limit_s in limits_s)
        with waiting_for(self._whom(str(request.url))):
            return super().send(request, **kwargs)

    def _whom(self, url: str) -> str:
        """Return what is behind a URL: Keystone, what the client names, or the address."""
        base = self._keystone
        # Other services can be on the same host, below paths of their own.
        if base is not None and (url.rstrip('/') == base or url.startswith(f'{base}/v3')):
            return _keystone_at(base)
        if (named := waited_for()) is not None:
            return named
        return urllib.parse.urlsplit(url)._replace(query='', fragment='').geturl()

    def merge_environment_settings(
        self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any
    ) -> Any:
        if proxies:
            return super().merge_environment_settings(url, proxies, stream, verify, cert)
        about = (*urllib.parse.urlsplit(url)[:2], stream, verify, cert)
        found = self._settings.get(about)
        if found is None:
            found = super().merge_environment_settings(url, proxies, stream, verify, cert)
            self._settings[about] = found
        # A redirect can change the returned dict.
        return found | {'proxies': dict(found['proxies'])}


def auth_headers(session: Session) -> Mapping[str, str]:
    """Return the headers with the token, after getting one from Keystone if needed."""
    # If several threads need a token, one of them asks; the others wait for it.
    with waiting_for(_keystone_at(_base(getattr(session.auth, 'auth_url', None)))):
        return session.get_auth_headers() or {}


def _base(url: str | None) -> str | None:
    return url and url.rstrip('/').removesuffix('/v3')


def _keystone_at(base: str | None) -> str:
    return f'Keystone at {base}' if base else 'Keystone'


def _as_it_is(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


def open_session(conf: Any) -> tuple[Session, str | None]:
    """Return a session, and the region to use.

    :raises ConfigurationError: the credentials are incomplete, or their plugin is unknown.
    """
    if conf.cloud:
        session, region = _from_clouds_yaml(conf.cloud, conf.region_name)
    else:
        session, region = _from_options(conf), conf.region_name
    _check_files(session)
    workers = getattr(conf, 'max_workers', _DEFAULT_WORKERS)
    session.session = _connections(conf, workers, getattr(session.auth, 'auth_url', None))
    return session, region


def _check_files(session: Session) -> None:
    # requests would raise an OSError only in the middle of a call.
    certs = session.cert if isinstance(session.cert, tuple) else (session.cert,)
    for path in (session.verify, *certs):
        if isinstance(path, str) and not os.path.exists(path):
            raise ConfigurationError(f'Cannot use TLS: file {path!r} does not exist.')


def _connections(conf: Any, workers: int, keystone: str | None = None) -> requests.Session:
    # A thread that finds the pool empty opens a connection and discards it
    # afterwards: so the pool has one for each worker and one for the watcher.
    # Older versions of keystoneauth have neither these options nor the arguments.
    tls = {name: getattr(conf, name, None) for name in ('tls_ciphers', 'tls_min_version')}
    tls = {name: value for name, value in tls.items() if value}
    pool = _KeepAlive(pool_connections=8, pool_maxsize=workers + 1, **tls)
    connections = Connections(
        connect_timeout_s=conf.connect_timeout, timeout_s=conf.timeout, keystone=keystone
    )
    for scheme in ('http://', 'https://'):
        connections.mount(scheme, pool)
    return connections


def _from_options(conf: Any) -> Session:
    _check_password(conf)
    try:
        loader: Any = loading.get_plugin_loader(conf.auth_type)
        auth = loader.load_from_options_getter(lambda opt: getattr(conf, opt.dest, None) or None)
    except ksa.MissingRequiredOptions as exc:
        missing = ', '.join(option.dest for option in exc.options)
        raise ConfigurationError(
            f'Cannot use auth_type {conf.auth_type}, as option {missing} is missing or misspelt.'
        ) from exc
    except ksa.ClientException as exc:
        raise ConfigurationError(
            f'Cannot use auth_type {conf.auth_type!r}: {one_line(exc)}.'
        ) from exc
    verify: bool | str = not conf.insecure and (conf.cafile or True)
    cert = (conf.certfile, conf.keyfile) if conf.keyfile else conf.certfile
    return Session(auth=auth, verify=verify, cert=cert)


def _check_password(conf: Any) -> None:
    # keystoneauth would find that only when it asks for a token. (No colon follows the word
    # password in the errors, or what is behind it would be masked.)
    if conf.auth_type in ('password', 'v3password') and conf.auth_url and not conf.password:
        raise ConfigurationError(
            f'Cannot use auth_type {conf.auth_type}, as option password is missing or misspelt.'
        )


def _from_clouds_yaml(cloud: str, region: str | None) -> tuple[Session, str | None]:
    # Half a second to import; most sites configure kiln in its own file.
    from openstack import config

    try:
        # The environment can name the file; its credentials are those of another cloud.
        found = config.OpenStackConfig().get_one(cloud, region_name=region)
        for name, value in found.config.get('auth', {}).items():
            if isinstance(value, str) and _SECRET.search(name):
                KNOWN_SECRETS.note(value)
        session = found.get_session()
    # The SDK raises many kinds of exceptions for a malformed file.
    except Exception as exc:
        raise ConfigurationError(
            f'Cannot use cloud {cloud!r} of clouds.yaml: {one_line(exc)}.'
        ) from exc
    return session, region or found.get_region_name()
