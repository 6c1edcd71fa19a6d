"""The command ``kiln conductor``, which works on clusters until a signal."""

from __future__ import annotations

import argparse
import contextlib
import signal
from typing import TYPE_CHECKING

from kiln.cli.base import KilnCommand
from kiln.cli.exit_codes import explain
from kiln.exceptions import KilnError
from kiln.telemetry import serving_metrics

if TYPE_CHECKING:
    from kiln.cluster_service.site import Site
    from kiln.engine.conductor import Conductor as EngineConductor

#: A conductor that works does something every few seconds.
_LONGEST_SILENCE_S = 60.0


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
        with self.app.delays.muted(), self.app.open_site() as site:
            # Fails at once where the store cannot be read.
            site.store.operations.runnable(limit=1)
            options = self.app.settings.clusters
            health = _Health(site, options.lease)
            checks = {'/healthz': health.alive, '/readyz': health.ready}
            with (
                serving_metrics(options.metrics_listen, checks) as url,
                site.conducting() as conductor,
            ):
                health.conductor = conductor
                if url:
                    self.app.say(f'Metrics are at {url}.')
                with contextlib.suppress(KeyboardInterrupt):
                    self.app.say(f'Working on clusters; {_what_ends_it()} ends it.')
                    conductor.wait()
                self.app.say('Stopping.')


class _Health:
    """Answers the questions of a supervisor, such as Kubernetes, about this conductor."""

    def __init__(self, site: Site, lease_s: float) -> None:
        self._site = site
        self._longest_s = max(_LONGEST_SILENCE_S, 2 * lease_s)
        #: None until it works.
        self.conductor: EngineConductor | None = None

    def alive(self) -> str:
        """Return since when it does nothing, for which a restart is the remedy."""
        silent_s = 0.0 if self.conductor is None else self.conductor.silent_s
        return f'It has done nothing for {silent_s:.0f} s.' if silent_s > self._longest_s else ''

    def ready(self) -> str:
        """Return why it cannot work on clusters now: it starts, or the store is not usable."""
        if self.conductor is None:
            return 'It is starting.'
        try:
            self._site.store.operations.runnable(limit=1)
        except KilnError as exc:
            return explain(exc)
        return self.alive()


def _what_ends_it() -> str:
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    return 'SIGTERM' if ignored else 'SIGTERM or Ctrl-C'
