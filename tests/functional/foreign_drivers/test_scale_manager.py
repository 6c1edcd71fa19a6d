"""The scale manager of a driver is asked by every command that lets nodes go."""

from kiln.cli.exit_codes import ExitCode
from tests.unit.cli.cluster.foreign import ForeignShell

SOURCE = '''
class Quorum(ScaleManager):
    """Lets go only what leaves a majority of all members at work."""

    def order(self, nodegroup, nodes):
        record('order', nodegroup.name, nodegroup.shape.count, [node.name for node in nodes])
        return self._spare(nodes)

    def replacement_order(self, nodegroup, nodes):
        record('replacement_order', nodegroup.name, len(nodes))
        if (FOLDER / 'wrong').exists():
            raise KeyError('work')
        return self._spare(nodes)

    def _spare(self, nodes):
        members = self.context.nodes
        ready = [one for one in members if one.state is NodeState.READY and not one.doomed]
        return nodes[:max(0, len(ready) - (len(members) // 2 + 1))]


class Driver(NodeClusterDriver):
    name = 'quorum_v1'
    version = '1.0.0'
    provides = (('*', '*', 'quorum'),)

    def get_template_definition(self):
        return TemplateDefinition(directory=None)

    def get_scale_manager(self, context, cluster):
        return Quorum(context, cluster)
'''
FOUR = """\
cluster: web
coe: quorum
image: debian-13
nodegroups:
  - name: boss
    role: control
    count: 1
  - name: work
    count: 3
"""


class ScaleManagers(ForeignShell):
    name = 'quorum_v1'
    source = SOURCE
    cluster_file = FOUR

    def setUp(self):
        super().setUp()
        self.up()
        self.forget_calls()

    def names(self, group='work'):
        return [node['name'] for node in self.nodes('--group', group)]

    def refused(self, *argv):
        before = self.nodes()
        said = self.fails(ExitCode.CONFLICT, *argv)
        self.assertIn('the driver allows', said)
        self.assertIn('node remove --force', said)
        self.assertEqual(before, self.nodes())

    def test_up_with_fewer_nodes_than_a_quorum_needs_is_refused(self):
        for text in (
            FOUR.replace('count: 3', 'count: 0'),
            FOUR.replace('count: 3', 'count: 1'),
            FOUR[: FOUR.index('  - name: work')],
        ):
            with self.subTest(text):
                self.page(text)
                self.refused('up', str(self.path), '--yes')
                self.refused('plan', str(self.path))

    def test_up_removes_the_nodes_that_the_driver_lets_go(self):
        self.page(FOUR.replace('count: 3', 'count: 2'))
        said = self.ok('plan', str(self.path))
        ((group, count, asked),) = self.calls('order')
        self.assertEqual(('work', 2, set(self.names())), (group, count, set(asked)))
        self.assertIn(f'-1 of the default flavor (one too many): {asked[0]}', said)
        self.up('--yes')
        self.assertEqual(set(asked[1:]), set(self.names()))

    def test_scale_and_remove_of_a_majority_are_refused(self):
        one, two, three = self.names()
        self.refused('cluster', 'scale', 'web', 'work=0', '--yes')
        self.refused('cluster', 'scale', 'web', 'work=1', '--remove', one, two, '--yes')
        self.refused('node', 'remove', 'web', one, two, three, '--yes')

    def test_a_named_node_goes_by_force(self):
        one, two, _ = self.names()
        self.ok('node', 'remove', 'web', one, two, '--force', '--yes')
        self.assertEqual(1, len(self.names()))
        self.assertEqual([], self.calls('order'))

    def test_two_groups_cannot_each_lose_the_one_node_that_can_go(self):
        self.page(FOUR.replace('count: 1', 'count: 0').replace('count: 3', 'count: 2'))
        self.refused('up', str(self.path), '--yes')

    def test_an_upgrade_asks_before_each_node_is_replaced(self):
        before = set(self.names()) | set(self.names('boss'))
        self.ok('cluster', 'upgrade', 'web', '--image', 'debian-14', '--yes')
        self.assertFalse(before & {*self.names(), *self.names('boss')})
        asked = self.calls('replacement_order')
        self.assertEqual({('boss', 1), ('work', 3), ('work', 2), ('work', 1)},
                         {tuple(one) for one in asked})  # fmt: skip

    def test_a_mistake_in_a_scale_manager_is_shown_as_one_of_the_driver(self):
        (self.folder / 'wrong').touch()
        name = self.names()[0]
        said = self.fails(
            ExitCode.UNAVAILABLE, 'node', 'replace', 'web', name, '--yes', '--timeout', '3'
        )
        self.assertIn(
            'Cluster driver quorum_v1 failed in Quorum.replacement_order: KeyError', said
        )
        self.assertIn(name, self.names())

    def test_a_replacement_without_surge_waits_until_the_driver_lets_the_node_go(self):
        self.page(
            FOUR.replace('count: 3', 'count: 1\n    strategy: {max_surge: 0, max_unavailable: 1}')
        )
        self.ok('node', 'remove', 'web', *self.names()[:2], '--force', '--yes')
        self.up('--yes')
        (name,) = self.names()
        said = self.fails(
            ExitCode.UNAVAILABLE, 'node', 'replace', 'web', name, '--yes', '--timeout', '3'
        )
        self.assertIn(f'the cluster driver does not let {name} go now', said)
        self.assertEqual([name], self.names())
