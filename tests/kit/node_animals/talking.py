"""Drivers that talk to their machines, and leave the cluster in them wrong; after a model."""

import dataclasses
import sys

from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.monitor import Metric, Monitor
from kiln.cluster_drivers.values import DRAINED, READY, Drained, Readiness
from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.models import NodeState
from kiln.testing.clusters import MachineBench, find_driver
from kiln.testing.clusters.named_bench import named_bench
from tests.unit.test_layering import ROOT

MODEL = find_driver(str(ROOT / 'doc' / 'examples' / 'cluster_drivers' / 'quorum_v1'))
Agent = sys.modules[MODEL.__module__].Agent


class Talking(MODEL):
    """Correct."""

    bench = named_bench(MODEL, MachineBench)


class Founding(Talking):
    """Lets the second node found a cluster, too."""

    def is_ready(self, context, cluster, node):
        found = super().is_ready(context, cluster, node)
        if 'joins' in found.reason and len(context.nodes) > 1:
            Agent(context, cluster, node).put('/member', {'join': None})
        return found


class Despairing(Talking):
    """Founds another cluster once no member of the first one answers."""

    def is_ready(self, context, cluster, node):
        try:
            return super().is_ready(context, cluster, node)
        except ClusterDriverError as exc:
            if 'No member answers' in exc.reason:
                Agent(context, cluster, node).put('/member', {'join': None})
            raise


class Refounding(Talking):
    """Founds another cluster if the oldest node is empty and no other one is well."""

    def is_ready(self, context, cluster, node):
        found = super().is_ready(context, cluster, node)
        if 'waits' in found.reason and node == context.nodes[0]:
            Agent(context, cluster, node).put('/member', {'join': None})
        return found


class Rash(Talking):
    """Takes the node that founds the cluster for a member at once."""

    def is_ready(self, context, cluster, node):
        found = super().is_ready(context, cluster, node)
        return READY if 'founds' in found.reason else found


class Abandoning(Talking):
    """Takes it for the end of the cluster if all nodes of a group but the youngest go."""

    def drain(self, context, cluster, node):
        if all(one.doomed for one in context.nodes[:-1] if one.group == node.group):
            return DRAINED
        return super().drain(context, cluster, node)


class Keeping(Talking):
    """Lets the cluster count nodes that are gone."""

    tend = NodeClusterDriver.tend


class Hasty(Talking):
    """Lets a node go while it serves."""

    def drain(self, context, cluster, node):
        super().drain(context, cluster, node)
        return DRAINED


class Clinging(Talking):
    """Never notices that a node has nothing left to do."""

    def drain(self, context, cluster, node):
        super().drain(context, cluster, node)
        return Drained(done=False, reason='nobody knows')


class Complaining(Talking):
    """Is never content with a cluster."""

    def tend(self, context, cluster):
        super().tend(context, cluster)
        raise ClusterDriverError('It could be better.')


class Blind(Talking):
    """Measures nothing."""

    def get_monitor(self, context, cluster):
        return Nothing(context, cluster)


class Nothing(Monitor):
    metrics = (Metric('members', 'members', 'Members of the cluster.'),)

    def pull(self):
        return {}


class Ageing(Talking):
    """Measures once."""

    def get_monitor(self, context, cluster):
        return First(context, cluster)


class First(Monitor):
    metrics = (Metric('members', 'members', 'Members of the cluster.'),)
    kept = None

    def pull(self):
        if First.kept is None:
            First.kept = MODEL.open().get_monitor(self.context, self.cluster).pull()
        return First.kept


class Thorough(Talking):
    """Has each node hand over its work, also if the cluster ends."""

    def drain(self, context, cluster, node):
        busy = {'doomed': None, 'state': NodeState.READY}
        there = [dataclasses.replace(one, **busy) for one in context.nodes]
        return super().drain(dataclasses.replace(context, nodes=there), cluster, node)


class Tired(Talking):
    """Gives the first node a new key, and no other."""

    def rotate_credential(self, context, cluster):
        super().rotate_credential(dataclasses.replace(context, nodes=context.nodes[:1]), cluster)


class Idle(Talking):
    """Says that it has rotated the key."""

    def rotate_credential(self, context, cluster):
        return None


class Remembering(Talking):
    """Lets a node join that it has seen before, in this process."""

    def __init__(self):
        super().__init__()
        self._seen = set()

    def is_ready(self, context, cluster, node):
        if node.id not in self._seen:
            self._seen.add(node.id)
            return Readiness.not_yet('it was never seen before')
        return super().is_ready(context, cluster, node)


class Brittle(Talking):
    """Gives a node up with the first answer that is lost."""

    def is_ready(self, context, cluster, node):
        try:
            return super().is_ready(context, cluster, node)
        except ClusterDriverError as exc:
            return Readiness.failed(exc.reason)
