"""Private namespaces that the kernel cleans up, however the tool ends.

The work is the first process of a pid namespace, so all that it started ends with it, and
of a mount namespace, so its mounts end with the last of them. A keeper between the tool and
the work waits for it. Each process dies with its parent: to kill the tool with -9 ends all.
"""

import os
import select
import signal
import sys
import traceback
from collections.abc import Callable

from . import kernel
from .errors import FreshrootError

#: Exit status when the tool, not the command, failed; docker and chroot use the same.
FAILED = 125


def run_apart(work: Callable[[], int]) -> int:
    """Run a function in namespaces of its own, and return what it returns."""
    sys.stdout.flush()
    parent = os.getpid()
    keeper = os.fork()
    if keeper == 0:
        _leave(lambda: _keep(parent, work))
    try:
        return status(os.waitpid(keeper, 0)[1])
    except BaseException:
        os.kill(keeper, signal.SIGTERM)
        os.waitpid(keeper, 0)
        raise


def status(waited: int) -> int:
    """Return the exit status that a shell would give for what waitpid returned."""
    code = os.waitstatus_to_exitcode(waited)
    return code if code >= 0 else 128 - code


def wait_for(child: int) -> int:
    """Wait for a child and return its exit status; also reap adopted orphans."""
    while True:
        pid, waited = os.wait()
        if pid == child:
            return status(waited)


def _leave(work: Callable[[], int]) -> None:
    """End this process with the return value of the function."""
    code = FAILED
    try:
        code = work()
    except FreshrootError as error:
        print(f'freshroot: {error}', file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _keep(parent: int, work: Callable[[], int]) -> int:
    # From a terminal it comes to all of them; the tool decides what follows.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A request to end can come before there is a process to pass it on to.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    kernel.die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        return FAILED  # it ended before we asked to die with it
    kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWPID | kernel.CLONE_NEWIPC)
    lifeline = os.pipe()
    first = os.fork()
    if first == 0:
        _leave(lambda: _begin(lifeline, work))
    os.close(lifeline[0])
    signal.signal(signal.SIGTERM, lambda *_: os.kill(first, signal.SIGKILL))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    return status(os.waitpid(first, 0)[1])


def _begin(lifeline: tuple[int, int], work: Callable[[], int]) -> int:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    os.close(lifeline[1])
    kernel.die_with_parent(signal.SIGKILL)
    # No pid tells here whether the keeper still lives: it has none in this namespace.
    if select.select([lifeline[0]], [], [], 0)[0]:
        return FAILED
    # Before anything is mounted: none of it may be seen outside.
    kernel.mount('none', '/', flags=kernel.MS_REC | kernel.MS_PRIVATE)
    return work()
