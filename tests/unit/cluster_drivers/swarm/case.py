"""Base of tests on simulated engines, with the calls that kiln's engine makes."""

import dataclasses
import unittest

from kiln.cluster_drivers.swarm_debian_v1 import joining, leaving
from kiln.cluster_drivers.swarm_debian_v1.template_def import SwarmTemplateDefinition
from kiln.cluster_drivers.swarm_debian_v1.view import View
from kiln.cluster_drivers.values import Context, ReadyState
from kiln.clusters.models import Cluster, DriverPin, Node, NodeState
from kiln.clusters.spec import ClusterSpec, MachineSpec, NodeGroupSpec, Place, Shape

from .sim import Sim

PIN = DriverPin(name='swarm_debian_v1', version='1.0.0', origin='the tests', digest='d')
DEFINITION = SwarmTemplateDefinition()
DEFINITION.load()


def a_cluster(managers=3, workers=3, **parameters):
    groups = (
        NodeGroupSpec(name='managers', role='control', shape=Shape(count=managers)),
        NodeGroupSpec(
            name='workers', shape=Shape(count=workers), machine=MachineSpec(parameters=parameters)
        ),
    )
    return Cluster(
        id='c-1', name='web', spec=ClusterSpec(name='web', groups=groups), generation=1, pin=PIN,
        created_at=1_700_000_000.0,
    )  # fmt: skip


def a_node(number, group='workers', **more):
    given = {
        'id': f'n-{number}', 'cluster_id': 'c-1', 'group': group, 'name': f'web-{group}-{number}',
        'place': Place(zone='az1'), 'backend': 'docker', 'state': NodeState.JOINING,
        'address': f'10.0.0.{number}', 'created_at': float(number),
    }  # fmt: skip
    return Node(**given | more)


class SwarmCase(unittest.TestCase):
    def setUp(self):
        self.sim = Sim()
        self.cluster = a_cluster()
        self.nodes = {}

    def born(self, number, group='workers', **more):
        node = a_node(number, group, **more)
        self.nodes[node.id] = node
        self.sim.boot(node)
        return node

    def change(self, node, **changes):
        self.nodes[node.id] = dataclasses.replace(self.nodes[node.id], **changes)
        return self.nodes[node.id]

    def view(self, nodes=None):
        context = Context(nodes=tuple(self.nodes.values()) if nodes is None else nodes)
        return View(context, self.cluster, DEFINITION.get_params, self.sim.open)

    def ask(self, node):
        readiness = joining.ready(self.view(), self.nodes[node.id])
        if readiness.state is ReadyState.READY:
            self.change(node, state=NodeState.READY)
        return readiness

    def join(self, *nodes):
        for node in nodes:
            self.assertEqual('', self.ask(node).reason)

    def drain(self, node):
        return leaving.drained(self.view(), self.nodes[node.id])

    def gone(self, node):
        """Delete the machine of a node, as reported by its backend."""
        self.sim.destroy(self.nodes.pop(node.id))

    def whole(self, managers=3, workers=3):
        """Make a complete swarm; return its managers and workers, all ready."""
        first = [self.born(number, 'managers') for number in range(1, managers + 1)]
        others = [self.born(10 + number) for number in range(workers)]
        self.join(*first, *others)
        self.cluster = dataclasses.replace(self.cluster, former=self.cluster.spec)
        return first, others

    def listed(self):
        with self.view().manager() as manager:
            return {peer.node_id: peer for peer in manager.peers()}
