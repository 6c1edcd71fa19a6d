"""From a backend's options to a keystoneauth session; no network is touched."""

from __future__ import annotations

from typing import Any

import requests
from keystoneauth1 import exceptions as ksa
from keystoneauth1 import loading
from keystoneauth1.session import Session, TCPKeepAliveAdapter

from kiln.exceptions import ConfigurationError

#: Threads that may call a driver made by hand, with no option that says so.
_DEFAULT_WORKERS = 16


def open_session(conf: Any) -> tuple[Session, str | None]:
    """Return a session, and the region to use.

    :raises ConfigurationError: the credentials are not complete, or not known.
    """
    if conf.cloud:
        session, region = _from_clouds_yaml(conf.cloud, conf.region_name)
    else:
        session, region = _from_options(conf), conf.region_name
    workers = getattr(conf, 'max_workers', _DEFAULT_WORKERS)
    session.session = _connections(conf, workers)
    return session, region


def _connections(conf: Any, workers: int) -> requests.Session:
    # A thread that finds the pool empty opens a connection and throws it away
    # afterwards: so there is one for each, and one for the watcher.
    pool = TCPKeepAliveAdapter(
        pool_connections=8,
        pool_maxsize=workers + 1,
        tls_ciphers=conf.tls_ciphers,
        tls_min_version=conf.tls_min_version,
    )
    connections = requests.Session()
    for scheme in ('http://', 'https://'):
        connections.mount(scheme, pool)
    return connections


def _from_options(conf: Any) -> Session:
    try:
        loader: Any = loading.get_plugin_loader(conf.auth_type)
        auth = loader.load_from_options_getter(lambda opt: getattr(conf, opt.dest, None))
    except ksa.ClientException as exc:
        raise ConfigurationError(
            f'Cannot use auth_type {conf.auth_type!r}: {str(exc).rstrip(".")}.'
        ) from exc
    if getattr(conf, 'auth_url', None) is None and hasattr(auth, 'auth_url'):
        raise ConfigurationError(
            'Cannot authenticate: auth_url is not set. Name a cloud of clouds.yaml, or give '
            'the URL of Keystone, a user and a password.'
        )
    verify: bool | str = not conf.insecure and (conf.cafile or True)
    cert = (conf.certfile, conf.keyfile) if conf.keyfile else conf.certfile
    return Session(auth=auth, verify=verify, cert=cert)


def _from_clouds_yaml(cloud: str, region: str | None) -> tuple[Session, str | None]:
    # Half a second to import; most sites configure kiln in its own file.
    from openstack import config
    from openstack import exceptions as sdk

    try:
        found = config.OpenStackConfig(load_envvars=False).get_one(cloud, region_name=region)
        session = found.get_session()
    except (sdk.SDKException, ksa.ClientException, OSError) as exc:
        raise ConfigurationError(
            f'Cannot use cloud {cloud!r} of clouds.yaml: {str(exc).rstrip(".")}.'
        ) from exc
    return session, region or found.get_region_name()
