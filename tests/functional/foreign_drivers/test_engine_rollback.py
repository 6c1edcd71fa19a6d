"""``--rollback`` of clusters that an engine of the driver's own builds."""

from tests.unit.cli.cluster.foreign import ForeignShell

SOURCE = """
DONE = StatusReport(progress=Progress.COMPLETE, driver_handle='stack-1')


class Driver(ClusterDriver):
    name = 'stack_v1'
    version = '1.0.0'
    provides = (('*', '*', 'stack'),)

    def create_cluster(self, context, cluster, cluster_create_timeout):
        return DONE

    def update_cluster(self, context, cluster, scale_manager=None, rollback=False):
        count = cluster.spec.groups[0].shape.count
        record('update_cluster', count, rollback)
        if count == 8:
            raise ClusterDriverError('Too many.')
        return StatusReport(progress=Progress.FAILED, reason='too few') if count == 1 else DONE

    def delete_cluster(self, context, cluster):
        return DONE

    def upgrade_cluster(self, context, cluster, *, cluster_template, nodegroups, strategy):
        return StatusReport(progress=Progress.IN_PROGRESS)

    def update_cluster_status(self, context, cluster):
        return StatusReport(progress=Progress.IN_PROGRESS)
"""
FILE = """\
cluster: web
coe: stack
image: debian-13
nodegroups:
  - name: work
    count: 2
"""


class Rollbacks(ForeignShell):
    name = 'stack_v1'
    source = SOURCE
    cluster_file = FILE

    def setUp(self):
        super().setUp()
        self.up()

    def rolled_back(self, *argv):
        self.assertNotEqual(0, self.sh(*argv, '--yes', '--rollback'))
        self.assertIn('rolled back', self.err)
        shown = self.json('cluster', 'show', 'web')
        self.assertEqual('rolled_back', shown['operation']['state'])
        self.page(FILE)
        self.assertIn('nothing to do', self.up())

    def test_a_failure_of_the_engine_leads_back_to_the_former_state(self):
        self.rolled_back('up', self.page(FILE.replace('count: 2', 'count: 1')))
        self.assertEqual([[1, False], [2, True]], self.calls('update_cluster'))
        self.assertIn('too few', self.ok('why', 'web'))

    def test_a_refusal_of_the_driver_leads_back(self):
        self.rolled_back('up', self.page(FILE.replace('count: 2', 'count: 8')))
        self.assertEqual([[8, False], [2, True]], self.calls('update_cluster'))

    def test_a_missed_deadline_leads_back(self):
        self.rolled_back('cluster', 'upgrade', 'web', '--image', 'debian-14', '--timeout', '9')
        self.assertEqual([[2, True]], self.calls('update_cluster'))

    def test_without_the_option_the_change_stays_declared(self):
        path = self.page(FILE.replace('count: 2', 'count: 1'))
        self.assertNotEqual(0, self.sh('up', path, '--yes'))
        self.assertEqual('failed', self.json('cluster', 'show', 'web')['operation']['state'])
        self.assertEqual([[1, False]], self.calls('update_cluster'))
