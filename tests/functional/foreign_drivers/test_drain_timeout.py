"""A group limits how long its nodes are drained."""

from kiln.cli.exit_codes import ExitCode
from tests.unit.cli.cluster.foreign import ForeignShell

SOURCE = """
from kiln.cluster_drivers.values import Drained


class Driver(NodeClusterDriver):
    name = 'sticky_v1'
    version = '1.0.0'
    provides = (('*', '*', 'sticky'),)

    def get_template_definition(self):
        return TemplateDefinition(directory=None)

    def drain(self, context, cluster, node):
        record('drain', node.name)
        if (FOLDER / 'wrong').exists():
            raise ClusterDriverError('It cannot be reached.')
        return Drained(done=False, reason='two jobs run')
"""
FILE = """\
cluster: web
coe: sticky
image: debian-13
nodegroups:
  - name: work
    count: 2
    strategy: {drain_timeout: 3s}
"""


class DrainTimeout(ForeignShell):
    name = 'sticky_v1'
    source = SOURCE
    cluster_file = FILE

    def removed(self, *more):
        self.up()
        name = self.nodes()[0]['name']
        before = self.clock.monotonic()
        self.ok('node', 'remove', 'web', name, '--yes', *more)
        self.assertIn(f'{name} goes with its work: it was not drained in time', self.out)
        self.assertGreater(len(self.calls('drain')), 1)
        return self.clock.monotonic() - before

    def test_a_node_that_does_not_drain_in_time_goes_with_its_work(self):
        took_s = self.removed()
        self.assertLess(3, took_s)
        self.assertGreater(12, took_s)
        self.assertEqual(1, len(self.nodes()))

    def test_a_drain_that_fails_ends_in_time_too(self):
        (self.folder / 'wrong').touch()
        self.assertGreater(12, self.removed())

    def test_a_dropped_group_keeps_its_limit_and_a_reboot_has_it(self):
        self.up()
        self.ok('cluster', 'reboot', 'web')
        self.page(FILE.replace('name: work', 'name: other'))
        self.up('--yes')
        self.assertEqual({'other'}, {node['group'] for node in self.nodes()})

    def test_without_a_limit_the_deadline_of_the_operation_decides(self):
        self.page(FILE.replace('    strategy: {drain_timeout: 3s}\n', ''))
        self.up()
        name = self.nodes()[0]['name']
        said = self.fails(
            ExitCode.UNAVAILABLE, 'node', 'remove', 'web', name, '--yes', '--timeout', '8'
        )
        self.assertIn('two jobs run', said)
