"""The command that works on clusters until it is told to stop."""

from __future__ import annotations

import argparse
import contextlib
import signal
import socket
from typing import NoReturn

from kiln.cli.base import KilnCommand
from kiln.cli.stores import configured_site


class Conduct(KilnCommand):
    """Work on clusters until SIGTERM or Ctrl-C.

    Several may run, on one host or on many, if they share a database on a server;
    each says which clusters it works on, and when one dies another goes on.

    A shell that starts it in the background may have Ctrl-C ignored, and so it is then:
    SIGTERM alone ends it.

    Told to stop, it begins nothing more and gives its clusters up at once; what is
    under way in a backend goes on there. The exit status is 0 then. Told a second
    time, it stops where it is: nothing is lost, but the others wait until its leases
    are over.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with configured_site(self.app.settings, self.app.clock) as site:
            # It says so at once where it cannot read the store.
            site.store.operations.runnable(limit=1)
            with site.conducting():
                with contextlib.suppress(KeyboardInterrupt):
                    self.app.say(f'Working on clusters; {_what_ends_it()} ends it.')
                    _await_signal()
                self.app.say('Stopping.')


def _what_ends_it() -> str:
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    return 'SIGTERM' if ignored else 'SIGTERM or Ctrl-C'


def _await_signal() -> NoReturn:
    """Wait for a signal whose handler raises, whatever thread the kernel hands it to."""
    woken, waker = socket.socketpair()
    with woken, waker:
        # Python runs the handler on the main thread, and that may sleep on while
        # another thread is interrupted: the byte wakes it.
        waker.setblocking(False)
        before = signal.set_wakeup_fd(waker.fileno())
        try:
            while True:
                woken.recv(1)
        finally:
            signal.set_wakeup_fd(before)
