"""Monitor that asks a member."""

from __future__ import annotations

from collections.abc import Mapping

from kiln.cluster_drivers.monitor import Metric, Monitor

from .agent import answering


class QuorumMonitor(Monitor):
    """Members that the cluster itself counts, and entries that it has stored."""

    metrics = (
        Metric('members', 'members', 'Members that take part in the quorum.'),
        Metric('entries', 'entries', 'Entries that are stored.'),
    )

    def pull(self) -> Mapping[str, float | None]:
        """Return both numbers, which any member knows."""
        seen = answering(self.context, self.cluster).get('/cluster')
        return {'members': len(seen['members']), 'entries': seen['entries']}
