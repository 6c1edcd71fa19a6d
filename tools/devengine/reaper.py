"""Runs an engine, and buries what it leaves: PID 1 of a small machine may not.

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
    """Run a command, and return when it and all that came of it have ended."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # A request to end may come before there is somebody to pass it on to.
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
            # Its pid may soon be another's.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)


if __name__ == '__main__':
    main(sys.argv[1:])
