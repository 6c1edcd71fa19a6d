"""Users that programs run as."""

from __future__ import annotations

import dataclasses
import os
import pwd
from collections.abc import Mapping
from pathlib import Path

#: What root needs to run a program as another user, to end it and to clean up after it, with
#: the number of each: a service can have been left without.
NEEDED = {
    'CAP_CHOWN': 0, 'CAP_DAC_OVERRIDE': 1, 'CAP_FOWNER': 3, 'CAP_KILL': 5, 'CAP_SETGID': 6,
    'CAP_SETUID': 7,
}  # fmt: skip
#: The same for a program that is ended with all that it has started, wherever that has gone: the
#: last is for the environment of processes of other users, by which they are known.
NEEDED_TO_END_ALL = {**NEEDED, 'CAP_SYS_PTRACE': 19}


@dataclasses.dataclass(frozen=True, slots=True)
class Account:
    """A user of the system, and that user's groups."""

    uid: int
    gid: int
    groups: tuple[int, ...]


class AccountError(Exception):
    """Programs cannot run as a user; the text has the reason."""


def account_of(name: str, *, what: str, needed: Mapping[str, int] = NEEDED) -> Account | None:
    """Return a user of the system; None if that is the user of kiln.

    :param what: what is to run as that user, for the error.
    :raises AccountError: there is no such user, or kiln cannot run programs as that user.
    """
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise AccountError(f'{name!r} is not a user of this host; create that user') from None
    if found.pw_uid == os.geteuid():
        return None
    if why := unable_because(os.geteuid(), _effective_capabilities(), needed):
        raise AccountError(f'kiln cannot run {what} as {name!r}: {why}')
    groups = os.getgrouplist(name, found.pw_gid)
    return Account(uid=found.pw_uid, gid=found.pw_gid, groups=tuple(groups))


def unable_because(uid: int, capabilities: int, needed: Mapping[str, int] = NEEDED) -> str:
    """Return why a process cannot run programs as other users; empty if it can.

    A user other than root could have the capabilities, but would pass them on to the programs.
    """
    if uid != 0:
        return 'it does not run as root; run it as root, or remove the option'
    lacking = [name for name, number in needed.items() if not capabilities >> number & 1]
    return f'it lacks {", ".join(lacking)}; add them to its service' if lacking else ''


def _effective_capabilities() -> int:
    status = Path('/proc/self/status').read_text(encoding='ascii', errors='replace')
    return int(status.partition('CapEff:')[2].split()[0], 16)
