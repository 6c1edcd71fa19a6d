"""Files of others: opened beneath a folder, and judged by the users that can change them."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from contextlib import ExitStack
from pathlib import Path, PurePath

from kiln.plugins.service_credentials import is_credential

#: The owner of kiln's own code can change all that kiln does.
_OWNER_OF_KILN = Path(__file__).stat().st_uid
_FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def read_beneath(root: Path, name: str, *, most_bytes: int) -> bytes:
    """Return the content of a regular file beneath a folder, without following a link.

    The folder itself can be reached by links: its place is not the choice of the author.

    :raises OSError: there is no such file.
    :raises ValueError: the name leads elsewhere, or the file is a link, no regular file, or
        too long; the text has the reason.
    """
    pure = PurePath(name)
    if pure.is_absolute() or '..' in pure.parts or not pure.parts:
        raise ValueError('is elsewhere')
    with ExitStack() as stack:
        at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        stack.callback(os.close, at)
        for part in pure.parts:
            if stat.S_ISLNK(os.stat(part, dir_fd=at, follow_symlinks=False).st_mode):
                raise ValueError('is a link, which kiln does not follow')
            # A pipe without a writer would wait; a link that is new here is an error.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            at = os.open(part, flags, dir_fd=at)
            stack.callback(os.close, at)
        if not stat.S_ISREG(os.fstat(at).st_mode):
            raise ValueError('is not a regular file')
        with os.fdopen(os.dup(at), 'rb') as file:
            content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise ValueError(f'has more than {most_bytes} bytes')
    return content


def unsafe_because(path: Path, *, private: bool = False) -> str:
    """Return why users other than root and this one could change a file; empty if none could.

    As sshd does, the whole path counts: the file and each folder above it, behind all links,
    belong to root, to the user of this process or to the owner of kiln's own code, and nobody
    else can write them. The group of the owner alone, which many systems give to each user, is
    nobody else. A folder such as ``/tmp``, in which each user can only replace the user's own
    files, counts as safe.

    :param private: True for a file that nobody else is allowed to read, either.
    :raises OSError: the file does not exist, or cannot be reached.
    """
    real = path.resolve(strict=True)
    for one in (real, *real.parents):
        found = one.stat()
        if found.st_uid not in (0, os.geteuid(), _OWNER_OF_KILN):
            return f'{one} belongs to another user; chown it'
        is_sticky = one != real and found.st_mode & stat.S_ISVTX
        if _others_write(found) and not is_sticky:
            return f'other users can change {one}; chmod go-w it'
    if private and not is_private(real):
        return 'other users can read it; chmod 600 it'
    return ''


def _others_write(found: os.stat_result) -> bool:
    if found.st_mode & stat.S_IWOTH:
        return True
    return bool(found.st_mode & stat.S_IWGRP) and not _is_own(found.st_gid, found.st_uid)


def _is_own(group_id: int, user_id: int) -> bool:
    """Return True if a group is the user's own, and nobody else is in it."""
    try:
        group, user = grp.getgrgid(group_id), pwd.getpwuid(user_id)
    except KeyError:
        return False
    return (
        (group.gr_name, group_id) == (user.pw_name, user.pw_gid)
        and set(group.gr_mem) <= {user.pw_name}
        and not any(one.pw_gid == group_id and one.pw_uid != user_id for one in pwd.getpwall())
    )


def is_private(path: Path) -> bool:
    """Return True if only the owner of a file is allowed to access it.

    A credential of systemd can have an access list for the user of the service, whose mask
    looks like a permission of the group.

    :raises OSError: the file does not exist, or cannot be reached.
    """
    allowed = stat.S_IRGRP if is_credential(path) else 0
    return not path.stat().st_mode & _FOR_OTHERS & ~allowed
