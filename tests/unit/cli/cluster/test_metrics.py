"""``kiln cluster metrics``: what the monitor of a driver measures."""

from kiln.cli.exit_codes import ExitCode
from tests.unit.cli.cluster.foreign import ForeignShell

SOURCE = '''
from kiln.clock import current_deadline
from kiln.cluster_drivers.monitor import Metric, Monitor


class Load(Monitor):
    metrics = (
        Metric('busy', 'nodes', 'Nodes with work.'),
        Metric('heat', 'celsius', 'How warm it is.'),
    )

    def pull(self):
        record('pull', self.cluster.name, len(self.context.nodes),
               current_deadline().remaining_s() > 0)
        if (FOLDER / 'away').exists():
            raise OSError('nobody answers')
        return {'busy': 2}


class Careful(ScaleManager):
    """Keeps the nodes that have work."""

    def order(self, nodegroup, nodes):
        busy = self.context.readings()['busy']
        return nodes if busy is None else nodes[int(busy):]


class Driver(NodeClusterDriver):
    name = 'load_v1'
    version = '1.0.0'
    provides = (('*', '*', 'load'),)

    def get_template_definition(self):
        return TemplateDefinition(directory=None)

    def get_monitor(self, context, cluster):
        return Load(context, cluster)

    def get_scale_manager(self, context, cluster):
        return Careful(context, cluster)
'''
FILE = """\
cluster: web
coe: load
image: debian-13
nodegroups:
  - name: work
    count: 3
"""


class Metrics(ForeignShell):
    name = 'load_v1'
    source = SOURCE
    cluster_file = FILE

    def setUp(self):
        super().setUp()
        self.up()
        self.forget_calls()

    def test_values_are_shown_with_units_and_unknown_values_with_a_reason(self):
        busy, heat = self.json('cluster', 'metrics', 'web')
        self.assertEqual(
            ('busy', 2.0, 'nodes', ''),
            tuple(busy[one] for one in ('name', 'value', 'unit', 'reason')),
        )
        self.assertEqual((None, 'it was not measured'), (heat['value'], heat['reason']))
        self.assertEqual([['web', 3, True]], self.calls('pull'))
        self.assertRegex(self.ok('cluster', 'metrics', 'web'), r'busy +\| +2.0 +\| +nodes')

    def test_a_monitor_that_fails_is_a_reason_and_no_error(self):
        (self.folder / 'away').touch()
        for one in self.json('cluster', 'metrics', 'web'):
            self.assertIsNone(one['value'])
            self.assertRegex(one['reason'], r'^OSError: nobody answers \(.*driver.py:\d+\)$')

    def test_a_scale_manager_reads_the_monitor(self):
        self.assertIn('allows 1', self.fails(ExitCode.CONFLICT, 'cluster', 'scale', 'web', '1'))
        self.ok('cluster', 'scale', 'web', '2', '--yes')
        self.assertTrue(self.calls('pull'))

    def test_without_a_monitor_the_command_is_refused(self):
        self.page(FILE.replace('web', 'shop').replace('coe: load', 'driver: nodes_v1'))
        self.up('--no-wait')
        said = self.fails(ExitCode.UNSUPPORTED, 'cluster', 'metrics', 'shop')
        self.assertIn('Cluster driver nodes_v1 cannot monitor', said)
