"""The command that works on clusters until it is told to stop."""

from __future__ import annotations

import argparse
import contextlib
import time

from kiln.cli.base import KilnCommand
from kiln.cli.stores import configured_site

#: The kernel may hand a signal to any thread, and that wakes no other one: the main
#: thread, on which Python heeds it, has to wake by itself.
_HEED_S = 1.0


class Conduct(KilnCommand):
    """Work on clusters until SIGTERM or Ctrl-C.

    Several may run, on one host or on many, if they share a database on a server;
    each says which clusters it works on, and when one dies another goes on.

    Told to stop, it begins nothing more and gives its clusters up at once; what is
    under way in a backend goes on there. The exit status is 0 then. Told a second
    time, it stops where it is: nothing is lost, but the others wait until its leases
    are over.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Conduct."""
        with configured_site(self.app.settings) as site:
            # It says so at once where it cannot read the store.
            site.store.operations.runnable(limit=1)
            with site.conducting():
                with contextlib.suppress(KeyboardInterrupt):
                    self.app.say('Working on clusters; SIGTERM or Ctrl-C ends it.')
                    while True:
                        time.sleep(_HEED_S)
                self.app.say('Stopping.')
