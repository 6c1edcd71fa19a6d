"""Monitor of a swarm: nodes, services, tasks and reservations."""

from __future__ import annotations

from collections.abc import Mapping

from kiln.cluster_drivers.monitor import Metric, Monitor
from kiln.cluster_drivers.values import Context
from kiln.clusters.models import Cluster

from .values import Role
from .view import View


class SwarmMonitor(Monitor):
    """Polls one manager; if none answers, all values are unknown."""

    metrics = (
        Metric('nodes', 'nodes', 'Nodes of the swarm.'),
        Metric('nodes_ready', 'nodes', 'Nodes that are ready.'),
        Metric('managers_reachable', 'nodes', 'Managers that the other managers reach.'),
        Metric('services', 'services', 'Desired services.'),
        Metric('tasks_running', 'tasks', 'Running containers of services.'),
        Metric('cpu_reserved', 'share', 'The share of all processors that tasks have reserved.'),
        Metric('memory_reserved', 'share', 'The share of all memory that tasks have reserved.'),
    )

    def __init__(self, context: Context, cluster: Cluster, view: View) -> None:
        super().__init__(context, cluster)
        self._view = view

    def pull(self) -> Mapping[str, float | None]:
        with self._view.manager() as manager:
            peers, tasks, services = manager.peers(), manager.tasks(), manager.services()
        ready = [peer for peer in peers if peer.ready]
        there = [task for task in tasks if task.there]
        managers = [peer for peer in peers if peer.role is Role.MANAGER]
        cpus = sum(peer.cpus for peer in ready)
        memory = sum(peer.memory_bytes for peer in ready)
        return {
            'nodes': len(peers),
            'nodes_ready': len(ready),
            'managers_reachable': sum(peer.reachable for peer in managers),
            'services': len(services),
            'tasks_running': sum(task.running for task in tasks),
            'cpu_reserved': sum(task.cpus for task in there) / cpus if cpus else None,
            'memory_reserved': sum(task.memory_bytes for task in there) / memory
            if memory
            else None,
        }
