"""Health of a conductor, as supervisors ask for it: Kubernetes, load balancers, systemd."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kiln.cli.exit_codes import explain
from kiln.exceptions import KilnError

if TYPE_CHECKING:
    from kiln.cluster_service.site_metrics import SharedCensus
    from kiln.engine.conductor import Conductor

#: A conductor that works does something every few seconds.
_LONGEST_SILENCE_S = 60.0
#: A round computes for seconds, and waits for the store for half a minute at most.
_LONGEST_ROUND_S = 300.0


class Health:
    """Answers the questions of a supervisor about one conductor."""

    def __init__(self, census: SharedCensus, *, lease_s: float, watch_s: float) -> None:
        # Only a process that has a conductor has SQLAlchemy.
        from kiln.engine.health.standing_check import LONGEST_POLL_S

        self._census = census
        self._lease_s = lease_s
        self._longest_poll_s = max(LONGEST_POLL_S, 3 * watch_s)
        #: None until it works.
        self.conductor: Conductor | None = None

    def alive(self) -> str:
        """Return since when it does nothing, for which a restart is the remedy."""
        if self.conductor is None:
            return ''
        if (silent_s := self.conductor.silent_s) > max(_LONGEST_SILENCE_S, 2 * self._lease_s):
            return f'It has done nothing for {silent_s:.0f} s.'
        if (silent_s := self.conductor.rounds_silent_s) > _LONGEST_ROUND_S:
            return f'Its work on clusters has stood still for {silent_s:.0f} s.'
        return ''

    def status(self) -> str:
        """Return what it does, for people."""
        if self.conductor is None:
            return 'Starting'
        count = self.conductor.clusters
        watch = '; polling the settled clusters' if self.conductor.watch.polled_at else ''
        return f'Working on {count} cluster{"" if count == 1 else "s"}{watch}'

    def ready(self) -> str:
        """Return why it cannot work on clusters now; empty if it can."""
        if self.conductor is None:
            return 'It is starting.'
        if wrong := self._store() or self.alive():
            return wrong
        if (late_s := self.conductor.unrenewed_s) > self._lease_s:
            return f'It has not renewed its leases for {late_s:.0f} s, so others can take them.'
        if (late_s := self.conductor.watch.silent_s) > self._longest_poll_s:
            return f'Its poll of the settled clusters has taken {late_s:.0f} s so far.'
        return ''

    def _store(self) -> str:
        # Only a process that has a conductor has SQLAlchemy.
        from kiln.db.tables.schema import REVISION

        try:
            revision = self._census.take().revision
        except KilnError as exc:
            return explain(exc)
        except TimeoutError as exc:
            return str(exc)
        if revision != REVISION:
            return f'The store has revision {revision}, and this version of kiln needs {REVISION}.'
        return ''
