"""The command ``kiln conductor``, which works on clusters until a signal."""

from __future__ import annotations

import argparse
import contextlib
import signal

from kiln.cli.base import KilnCommand
from kiln.telemetry import serving_metrics


class Conductor(KilnCommand):
    """Work on clusters until SIGTERM or Ctrl-C.

    Several conductors can run, on one host or on many, if they share a database server.
    Each logs the clusters that it works on. If one dies, another takes over.

    A shell can start background commands with Ctrl-C ignored; then only SIGTERM ends a
    conductor.

    On the first signal it starts nothing more and releases its clusters at once; what is
    running in a backend continues there, and the exit status is 0. On a second signal it
    stops immediately: nothing is lost, but other conductors wait until its leases expire.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with self.app.open_site() as site:
            # Fails at once where the store cannot be read.
            site.store.operations.runnable(limit=1)
            listen = self.app.settings.clusters.metrics_listen
            with serving_metrics(listen) as url, site.conducting() as conductor:
                if url:
                    self.app.say(f'Metrics are at {url}.')
                with contextlib.suppress(KeyboardInterrupt):
                    self.app.say(f'Working on clusters; {_what_ends_it()} ends it.')
                    conductor.wait()
                self.app.say('Stopping.')


def _what_ends_it() -> str:
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    return 'SIGTERM' if ignored else 'SIGTERM or Ctrl-C'
