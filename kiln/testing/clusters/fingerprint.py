"""Fingerprints of the bootstrap data of nodes, to compare between processes."""

from __future__ import annotations

import datetime
import functools
import hashlib
import json
import os
import pickle
import platform
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.values import Bootstrap
from kiln.clusters.models import Cluster
from kiln.testing.clusters import samples
from kiln.testing.clusters.subjects import find_driver

#: Another date, another hour, another minute.
_LATER_S = 40 * 86_400 + 7 * 3600 + 13 * 60 + 11
OTHER_HOST = 'kit-elsewhere'
#: Variables that Python itself needs.
_KEPT = ('PYTHON', 'LD_', 'DYLD_', 'VIRTUAL_ENV', 'COVERAGE')


def fingerprint(given: Bootstrap) -> str:
    """Return a digest of all that a node is given."""
    whole = hashlib.sha256(given.user_data or b'')
    for file in given.files:
        whole.update(repr(file).encode() + file.content)
    whole.update((given.join_token or '').encode())
    return whole.hexdigest()


def fingerprints(
    driver: NodeClusterDriver, clusters: Iterable[Cluster], *, backwards: bool = False
) -> Mapping[str, str]:
    """Return the fingerprint of each node, asked for one after the other."""
    asked = [(one, node) for one in clusters for node in samples.nodes_of(one)]
    found = {}
    for cluster, node in reversed(asked) if backwards else asked:
        context = samples.context(*samples.nodes_of(cluster), join_key=key_of(cluster))
        given = driver.bootstrap(context=context, cluster=cluster, node=node)
        found[f'{cluster.id} {node.name}'] = fingerprint(given)
    return found


def key_of(cluster: Cluster) -> bytes:
    """Return the join key of a cluster of the kit."""
    return hashlib.sha256(cluster.id.encode()).digest()


def main() -> None:
    """Print the fingerprints of a driver for clusters, which are pickled on stdin.

    The arguments are the driver, and groups of what is to be different: a line of JSON has
    the fingerprints for each group.
    """
    reference, groups = sys.argv[1], json.loads(sys.argv[2])
    # Another behaviour finds a driver that waits; here it is to cost no time.
    time.sleep = lambda seconds: None
    clusters = pickle.load(sys.stdin.buffer)  # noqa: S301  # from the kit itself
    found = [_in_child(functools.partial(_found, reference, clusters, one)) for one in groups]
    sys.stdout.write('\n' + json.dumps(found))


def _found(reference: str, clusters: Sequence[Cluster], different: list[str]) -> Mapping[str, str]:
    for name in different:
        _CHANGES[name]()
    # Imported from here on, so its modules see what is different, too.
    driver = find_driver(reference).open()
    assert isinstance(driver, NodeClusterDriver)
    return fingerprints(driver, clusters, backwards='order' in different)


def _in_child(function: Callable[[], Mapping[str, str]]) -> Mapping[str, str]:
    """Return what a function returns in a process of its own, forked from this one."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        status = 1
        try:
            with os.fdopen(writing, 'w') as file:
                json.dump(function(), file)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as file:
        text = file.read()
    if os.waitpid(pid, 0)[1]:
        sys.exit(1)
    found: Mapping[str, str] = json.loads(text)
    return found


def absolute(reference: str) -> str:
    """Return a reference that means the same driver in every working directory."""
    path = Path(reference)
    return str(path.absolute()) if path.is_dir() else reference


def _in_another_environment() -> None:
    for name in os.environ.keys() - {'PATH', 'TMPDIR'}:
        if not name.startswith(_KEPT):
            del os.environ[name]
    os.environ |= {
        'HOME': tempfile.gettempdir(), 'USER': 'kit', 'LOGNAME': 'kit',
        'TZ': 'Pacific/Kiritimati', 'LANG': 'C', 'LC_ALL': 'C',
    }  # fmt: skip
    time.tzset()


def _in_another_directory() -> None:
    os.chdir(tempfile.gettempdir())


def _on_another_host() -> None:
    uname = os.uname()
    elsewhere = type(uname)((uname[0], OTHER_HOST, *uname[2:]))
    os.uname = lambda: elsewhere
    socket.gethostname = lambda: OTHER_HOST
    socket.getfqdn = lambda name='': name or OTHER_HOST
    platform.node = lambda: OTHER_HOST


def _at_another_time() -> None:
    now, now_ns = time.time, time.time_ns
    time.time = lambda: now() + _LATER_S
    time.time_ns = lambda: now_ns() + _LATER_S * 10**9
    for name in ('gmtime', 'localtime', 'ctime'):
        setattr(time, name, _later(getattr(time, name)))
    formatted = time.strftime
    time.strftime = lambda form, at=None: formatted(form, at or time.localtime())
    datetime.datetime, datetime.date = _Later, _LaterDate  # type: ignore[misc]


def _later(function: Any) -> Any:
    @functools.wraps(function)
    def later(seconds: float | None = None) -> Any:
        return function(time.time() if seconds is None else seconds)

    return later


class _Later(datetime.datetime):
    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Any:
        return cls.fromtimestamp(time.time(), tz)

    @classmethod
    def utcnow(cls) -> Any:
        return cls.fromtimestamp(time.time(), datetime.UTC).replace(tzinfo=None)

    @classmethod
    def today(cls) -> Any:
        return cls.now()


class _LaterDate(datetime.date):
    @classmethod
    def today(cls) -> Any:
        return cls.fromtimestamp(time.time())


_CHANGES: Mapping[str, Callable[[], None]] = {
    'environment': _in_another_environment,
    'working directory': _in_another_directory,
    'host name': _on_another_host,
    'time of day': _at_another_time,
    # Nodes are asked for in another order; see fingerprints.
    'order': lambda: None,
}
