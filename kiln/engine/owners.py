"""Names of the owners of leases; an owner that died on this host is known by its name."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import uuid
from pathlib import Path

from kiln.programs import supervisor

_NAME = re.compile(r'.+\.(?P<pid>\d+)\.(?P<place>[0-9a-f]{8})(?P<start>[0-9a-f]{8})[0-9a-f]{4}.*')


def new_owner() -> str:
    """Return a name for an owner in this process, which no other owner ever has."""
    pid = os.getpid()
    start = _start(pid) or '0' * 8
    return f'{host()}.{pid}.{_place()}{start}{uuid.uuid4().hex[:4]}'


def host() -> str:
    """Return the beginning of the names of all owners of this host."""
    return os.uname().nodename


def has_died(owner: str) -> bool:
    """Return True if an owner is certain to be gone: it was a process of this host."""
    found = _NAME.fullmatch(owner)
    # Only processes of this boot, and of this container, can be looked up.
    if found is None or found['place'] != _place():
        return False
    return _start(int(found['pid'])) != found['start']


@functools.cache
def _place() -> str:
    try:
        boot = Path('/proc/sys/kernel/random/boot_id').read_text(encoding='ascii')
        return _digest(boot, os.readlink('/proc/self/ns/pid'))
    except OSError:
        # Such a name is never that of an owner which has died.
        return uuid.uuid4().hex[:8]


def _start(pid: int) -> str:
    """Return what tells a process from later ones with its number; empty if it is gone."""
    found = supervisor.process(pid)
    return _digest(found.started) if found else ''


def _digest(*words: str) -> str:
    return hashlib.blake2s(' '.join(words).encode(), digest_size=4).hexdigest()
