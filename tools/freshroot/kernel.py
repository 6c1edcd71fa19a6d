"""System calls that Python 3.11 lacks."""

import ctypes
import fcntl
import os
import socket
import struct

from .errors import FreshrootError

CLONE_NEWNS = 0x00020000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
MS_RDONLY = 1
MS_REMOUNT = 32
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
_PR_SET_PDEATHSIG = 1
_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1
_IFREQ = '16sh22x'
_libc = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    """Move this process, or its children to come, into namespaces of their own."""
    if _libc.unshare(flags):
        raise FreshrootError(
            f'cannot make a namespace ({os.strerror(ctypes.get_errno())}): root needs '
            'CAP_SYS_ADMIN here, which a plain container does not have'
        )


def die_with_parent(signal: int) -> None:
    """Make the kernel send this process a signal when its parent ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal, 0, 0, 0)


def mount(
    source: object, target: object, kind: str | None = None, flags: int = 0, options: str = ''
) -> None:
    """Mount something as the system call of this name does."""
    words = [
        None if word is None else os.fsencode(str(word))
        for word in (source, target, kind, options)
    ]
    if _libc.mount(*words[:3], ctypes.c_ulong(flags), words[3]):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(target))


def loopback_up() -> None:
    """Switch on the loopback device of a new network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = fcntl.ioctl(any_socket, _SIOCGIFFLAGS, struct.pack(_IFREQ, b'lo', 0))
        name, flags = struct.unpack(_IFREQ, asked)
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack(_IFREQ, name, flags | _IFF_UP))
