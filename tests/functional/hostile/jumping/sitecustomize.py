"""A wall clock that a test sets, for each Python that finds this file first on its path.

JUMPING_CLOCK names a file with the seconds that the clock is ahead; JUMPING_HOST is the name of
the host. Monotonic time stays as it is.
"""

import datetime
import mmap
import os
import pathlib
import struct
import time

_AHEAD = struct.Struct('d')


def _set(path):
    now, now_ns = time.time, time.time_ns
    with pathlib.Path(path).open('rb') as file:
        content = mmap.mmap(file.fileno(), _AHEAD.size, prot=mmap.PROT_READ)

    def ahead_s():
        return _AHEAD.unpack(content[:])[0]

    time.time = lambda: now() + ahead_s()
    time.time_ns = lambda: now_ns() + int(ahead_s()) * 10**9

    class Moved(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls.fromtimestamp(time.time(), tz)

    datetime.datetime = Moved


def _name(host):
    true = os.uname()
    os.uname = lambda: os.uname_result((true.sysname, host, *true[2:]))


if 'JUMPING_CLOCK' in os.environ:
    _set(os.environ['JUMPING_CLOCK'])
    _name(os.environ['JUMPING_HOST'])
