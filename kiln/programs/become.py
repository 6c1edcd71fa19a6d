"""Switch to another user, the last step before a program: in a process that is only for it.

It imports nothing of kiln. Its arguments are the numbers of the user, of its group and of all of
its groups, and the words of the program.
"""

from __future__ import annotations

import os
import signal
import sys


def main(user: str, group: str, groups: str, *argv: str) -> None:
    """Become the user, and the program."""
    os.setgroups([int(one) for one in groups.split(',')])
    os.setresgid(int(group), int(group), int(group))
    os.setresuid(int(user), int(user), int(user))
    home = os.environ['HOME']
    try:
        os.chdir(home)
    except OSError as exc:
        sys.exit(f'user {user} cannot reach {home}: {exc.strerror}')
    # Python ignores them, and a program would go on to do so.
    for one in signal.SIGPIPE, signal.SIGXFSZ:
        signal.signal(one, signal.SIG_DFL)
    os.execv(argv[0], argv)  # noqa: S606  # the operator installs the driver


if __name__ == '__main__':
    main(*sys.argv[1:])
