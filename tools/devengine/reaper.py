"""Reaper of an engine's processes, because PID 1 of a small machine may fail to.

The processes of containers do not belong to the engine that started them. Here they
all become children of this process, so that none becomes a zombie, and all are found
when the engine is to end. It ends when the last of them has.
"""

import ctypes
import os
import signal
import sys

_PR_SET_CHILD_SUBREAPER = 36


def main(command: list[str]) -> None:
    """Run a command, and return when it and all its descendants have ended."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # A request to end can come before there is a process to pass it on to.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    engine = os.posix_spawnp(command[0], command, os.environ, setsigmask=[])
    signal.signal(signal.SIGTERM, lambda *_: os.kill(engine, signal.SIGTERM))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    while True:
        try:
            ended, _ = os.wait()
        except ChildProcessError:
            return
        if ended == engine:
            # Its pid can be reused soon.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)


if __name__ == '__main__':
    main(sys.argv[1:])
