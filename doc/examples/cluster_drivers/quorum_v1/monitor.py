"""Monitor that asks the oldest member."""

from __future__ import annotations

from collections.abc import Mapping

from kiln.cluster_drivers.monitor import Metric, Monitor

from . import members
from .agent import Agent


class QuorumMonitor(Monitor):
    """Members that the cluster itself counts, and entries that it has stored."""

    metrics = (
        Metric('members', 'members', 'Members that take part in the quorum.'),
        Metric('entries', 'entries', 'Entries that are stored.'),
    )

    def pull(self) -> Mapping[str, float | None]:
        """Return both numbers; nothing without a member that could be asked."""
        for node in members.ready(self.context)[:1]:
            seen = Agent(self.context, self.cluster, node).get('/cluster')
            return {'members': len(seen['members']), 'entries': seen['entries']}
        return {}
