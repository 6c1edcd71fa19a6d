from kiln.cluster_drivers.scale import DefaultScaleManager
from kiln.cluster_drivers.values import Context
from kiln.cluster_service.choosing import chosen
from kiln.cluster_service.requests import Resize as Ask
from kiln.clusters.models import Node, NodeState
from kiln.clusters.spec import NodeGroupSpec, Place, Shape
from kiln.engine.measuring import Meter
from kiln.engine.nodes.scale_choice import ScaleChoice
from kiln.engine.plan.diff import Resize
from tests.unit.cluster_service.site import ConductedCase
from tests.unit.engine.site import Plain

GROUP = NodeGroupSpec(name='work', shape=Shape(count=2))
PAGE = """
cluster: web
driver: example_v1
image: debian-13
nodegroups:
  - name: work
    count: 3
"""


class Backwards(DefaultScaleManager):
    """Releases first the nodes that the rules would keep the longest."""

    def order(self, nodegroup, nodes):
        return list(reversed(nodes))


class BackwardsDriver(Plain):
    def get_scale_manager(self, context, cluster):
        return Backwards(context, cluster)


def a_node(number, zone=None, **more):
    return Node(
        id=f'n-{number}', cluster_id='c', group='work', name=f'n{number}', place=Place(zone=zone),
        backend='noop', state=NodeState.READY, created_at=float(number), **more,
    )  # fmt: skip


class Choosing(ConductedCase):
    def victims(self, nodes, victims, named=()):
        found = Resize(shape=GROUP.shape, victims=dict.fromkeys(victims, 'the group shrinks'))
        named = dict.fromkeys(named, 'asked for')
        scale = ScaleChoice(BackwardsDriver(), Context(nodes=tuple(nodes)), None, Meter())
        return set(chosen(scale, GROUP, nodes, found, named).victims)

    def test_the_driver_chooses_among_all_nodes_of_a_place(self):
        nodes = [a_node(1), a_node(2), a_node(3)]
        self.assertEqual({'n-1'}, self.victims(nodes, ['n-3']))

    def test_the_rules_set_how_many_nodes_of_each_zone_are_removed(self):
        nodes = [a_node(1, 'a'), a_node(2, 'a'), a_node(3, 'b'), a_node(4, 'b')]
        self.assertEqual({'n-1'}, self.victims(nodes, ['n-2']))
        self.assertEqual({'n-1', 'n-3'}, self.victims(nodes, ['n-2', 'n-4']))

    def test_named_nodes_are_removed_and_leaving_nodes_cannot_be_chosen(self):
        nodes = [a_node(1, doomed='asked for'), a_node(2), a_node(3), a_node(4)]
        self.assertEqual({'n-4', 'n-2'}, self.victims(nodes, ['n-4', 'n-3'], ['n-4']))

    def test_001_22_a_group_shrinks_by_the_nodes_that_its_driver_releases(self):
        self.up(PAGE)
        nodes = self.clusters.show('web').nodes
        oldest = min(nodes, key=lambda node: node.created_at)
        proposal = self.clusters.plan(Ask(cluster='web', count=1))
        self.assertEqual({node.id for node in nodes} - {oldest.id}, set(proposal.doomed))
