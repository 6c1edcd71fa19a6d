"""The command ``kiln conductor``, which works on clusters until a signal."""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kiln.cli.base import KilnCommand
from kiln.cli.site.health import Health
from kiln.cli.site.service_notify import Notifier
from kiln.telemetry import default_listeners, exporting_site, serving_metrics

if TYPE_CHECKING:
    from kiln.cluster_service.site import Site


class Conductor(KilnCommand):
    """Work on clusters until SIGTERM or Ctrl-C.

    Several conductors can run, on one host or on many, if they share a database server.
    Each logs the clusters that it works on, as [DEFAULT] says, or else to stderr. If one dies,
    another takes over.

    A shell can start background commands with Ctrl-C ignored; then only SIGTERM ends a
    conductor.

    On the first signal it starts nothing more and releases its clusters at once; what is
    running in a backend continues there, and the exit status is 0. On a second signal it
    stops immediately: nothing is lost, but other conductors wait until its leases expire.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.app.log_as_service()
        # Before anything starts a process, which must not have its variables.
        notifier = Notifier()
        if notifier.watchdog_s is not None:
            # The watchdog ends it with SIGABRT. Where no thread of Python runs any more, the
            # notifier can log no stacks, and this does.
            faulthandler.enable()
        _check_tracing(self.app.settings.compute)
        with self.app.open_site(waits=False) as site:
            # Fails at once where the store cannot be read.
            site.store.operations.runnable(limit=1)
            with (
                _watched(site, self.app.settings.clusters) as (url, health),
                site.conducting() as health.conductor,
            ):
                if url:
                    self.app.say(f'Metrics are at {url}.')
                with (
                    contextlib.suppress(KeyboardInterrupt),
                    notifier.running(health.status, health.alive),
                ):
                    self.app.say(f'Working on clusters; {_what_ends_it()} ends it.')
                    health.conductor.wait()
                self.app.say('Stopping.')


def _check_tracing(options: Any) -> None:
    """Return if traces can be made; backends are opened, and would report it, only later."""
    default_listeners(
        metrics=False,
        tracing=options.tracing,
        endpoint=options.tracing_endpoint,
        service=options.tracing_service,
    )


@contextlib.contextmanager
def _watched(site: Site, options: Any) -> Iterator[tuple[str, Health]]:
    """Serve metrics and health of a conductor while the block lasts, if so configured."""
    from kiln.cluster_service.site_metrics import SharedCensus, SiteMetrics

    census = SharedCensus(site.store)
    health = Health(census, lease_s=options.lease, watch_s=options.watch)
    metrics = SiteMetrics(census, lambda: health.conductor)
    checks = {'/healthz': health.alive, '/readyz': health.ready}
    with contextlib.ExitStack() as stack:
        if options.metrics_listen:
            stack.enter_context(exporting_site(metrics.values))
        yield stack.enter_context(serving_metrics(options.metrics_listen, checks)), health


def _what_ends_it() -> str:
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    return 'SIGTERM' if ignored else 'SIGTERM or Ctrl-C'
