"""The work source that the work_source option describes."""

from __future__ import annotations

import dataclasses
import os
import socket
import urllib.parse
import uuid
from collections.abc import Callable
from typing import Any

from kiln.clock import SYSTEM_CLOCK, Clock
from kiln.db.store import Store
from kiln.engine.work_sources.base import WorkSource
from kiln.engine.work_sources.boards import Board
from kiln.engine.work_sources.database import DatabaseSource
from kiln.engine.work_sources.jobboard import JobboardSource
from kiln.exceptions import ConfigurationError
from kiln.plugins.extras import importing

#: The value of the option for no jobboard.
DATABASE = 'database'
#: Seconds that a board is allowed to take to answer.
ANSWER_S = 10.0
_FORMS = 'database, zookeeper://HOST[:PORT][,HOST[:PORT]...]/PATH, etcd://HOST[:PORT]/PATH or ' \
    'redis://[[USER]:PASSWORD@]HOST[:PORT]/PATH'  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class TlsFiles:
    """The TLS files of a connection: names of PEM files, None without one."""

    #: Trusted certificates, instead of the system's; on Redis beside them.
    ca: str | None = None
    #: Certificate and key of the client.
    cert: str | None = None
    key: str | None = None

    def named(self, ca: str, cert: str, key: str) -> dict[str, str]:
        """Return the files that are set, under the names that a client library has for them."""
        files = {ca: self.ca, cert: self.cert, key: self.key}
        return {name: file for name, file in files.items() if file}


NO_FILES = TlsFiles()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class BoardAddress:
    """The address of a jobboard."""

    kind: str
    hosts: tuple[tuple[str, int], ...]
    path: str
    tls: bool = False
    files: TlsFiles = NO_FILES
    user: str | None = None
    password: str | None = dataclasses.field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The address for people, without the password."""
        return f'{self.kind}://{",".join(map(_joined, self.hosts))}/{self.path}'


def open_source(
    where: str,
    store: Store,
    *,
    claim_s: float,
    sweep_s: float = 30.0,
    files: TlsFiles = NO_FILES,
    clock: Clock = SYSTEM_CLOCK,
) -> WorkSource:
    """Return the work source of an option; does not use the network.

    :param files: for a board that is reached over TLS.
    :raises ConfigurationError: the option is not valid, or what it needs is not installed.
    """
    if where == DATABASE:
        return DatabaseSource(store)
    address = parse(where, files)
    # Unique to this process.
    owner = f'{socket.gethostname()}.{os.getpid()}.{uuid.uuid4().hex[:8]}'
    # If it is not installed, fail now and not later in a thread.
    open_board(address, owner=owner, claim_s=claim_s)
    return JobboardSource(
        lambda: open_board(address, owner=owner, claim_s=claim_s),
        store, claim_s=claim_s, sweep_s=sweep_s, clock=clock,
    )  # fmt: skip


def open_board(address: BoardAddress, *, owner: str, claim_s: float) -> Board:
    """Return a board that is not connected.

    :param owner: the owner of its claims; no other process ever has the same name.
    :raises ConfigurationError: what it needs is not installed.
    """
    # An extra that only sites with several conductors install.
    with importing(f'Cannot use the jobboard at {address.name}', ConfigurationError):
        from kiln.engine.work_sources.taskflow_board import TaskflowBoard
    conf = board_conf(address, claim_s=claim_s)
    return TaskflowBoard(conf, name=address.name, owner=owner, claim_s=claim_s)


def board_conf(
    address: BoardAddress, *, claim_s: float, answer_s: float = ANSWER_S
) -> dict[str, Any]:
    """Return the configuration of a board for TaskFlow.

    :param answer_s: seconds that a single request is allowed to take.
    """
    return _CONFS[address.kind](address, claim_s, answer_s)


def parse(where: str, files: TlsFiles = NO_FILES) -> BoardAddress:
    """Return the address of a jobboard.

    :raises ConfigurationError: it is not a valid address; a password is not quoted.
    """
    try:
        parts = urllib.parse.urlsplit(where)
        kind, tls, port = _SCHEMES[parts.scheme]
        account, _, places = parts.netloc.rpartition('@')
        hosts = tuple(_host_and_port(place, port) for place in places.split(','))
    except (KeyError, ValueError):
        raise ConfigurationError(f'Cannot use work_source: it must be one of {_FORMS}.') from None
    user, _, password = account.partition(':')
    if account and kind != 'redis':
        raise ConfigurationError(f'Cannot use work_source: {kind} takes no user in its URL.')
    if len(hosts) > 1 and kind != 'zookeeper':
        raise ConfigurationError(f'Cannot use work_source: name one host of {kind}.')
    if files != NO_FILES and not tls:
        raise ConfigurationError(
            f'Cannot use work_source: its files are for TLS, which {parts.scheme} does not use; '
            f'write {_SAFE[kind]}://.'
        )
    return BoardAddress(
        kind=kind, hosts=hosts, path=parts.path.strip('/') or 'kiln', tls=tls, files=files,
        user=urllib.parse.unquote(user) or None, password=urllib.parse.unquote(password) or None,
    )  # fmt: skip


def _host_and_port(place: str, port: int) -> tuple[str, int]:
    parts = urllib.parse.urlsplit(f'//{place}')
    if not parts.hostname:
        raise ValueError(place)
    return parts.hostname, parts.port or port


def _joined(place: tuple[str, int]) -> str:
    host, port = place
    return f'[{host}]:{port}' if ':' in host else f'{host}:{port}'


def _zookeeper(address: BoardAddress, claim_s: float, answer_s: float) -> dict[str, Any]:
    return {
        'board': 'zookeeper',
        'hosts': ','.join(map(_joined, address.hosts)),
        # The last part of the path is replaced for everything that is not a job.
        'path': f'/{address.path}/jobs',
        'timeout': claim_s,
        'check_compatible': False,
        'use_ssl': address.tls,
        **address.files.named('ca', 'certfile', 'keyfile'),
    }


def _etcd(address: BoardAddress, claim_s: float, answer_s: float) -> dict[str, Any]:
    host, port = address.hosts[0]
    return {
        'board': 'etcd', 'host': host, 'port': port, 'path': address.path,
        'protocol': 'https' if address.tls else 'http', 'timeout': answer_s,
        **address.files.named('ca_cert', 'cert_cert', 'cert_key'),
    }  # fmt: skip


def _redis(address: BoardAddress, claim_s: float, answer_s: float) -> dict[str, Any]:
    host, port = address.hosts[0]
    account = {'username': address.user, 'password': address.password}
    return {
        'board': 'redis', 'host': host, 'port': port, 'namespace': address.path,
        'ssl': address.tls, 'socket_timeout': answer_s, 'socket_connect_timeout': answer_s,
        **{name: value for name, value in account.items() if value},
        **address.files.named('ssl_ca_certs', 'ssl_certfile', 'ssl_keyfile'),
    }  # fmt: skip


#: By the scheme of a URL: the kind of board, whether it uses TLS, and its default port.
_SCHEMES = {
    'zookeeper': ('zookeeper', False, 2181),
    'zookeepers': ('zookeeper', True, 2281),
    'etcd': ('etcd', False, 2379),
    'etcds': ('etcd', True, 2379),
    'redis': ('redis', False, 6379),
    'rediss': ('redis', True, 6379),
}
#: The URL scheme of each kind over TLS.
_SAFE = {kind: scheme for scheme, (kind, tls, _) in _SCHEMES.items() if tls}
_CONFS: dict[str, Callable[[BoardAddress, float, float], dict[str, Any]]] = {
    'zookeeper': _zookeeper,
    'etcd': _etcd,
    'redis': _redis,
}
