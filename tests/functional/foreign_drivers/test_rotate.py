"""``kiln cluster rotate``: a driver renews credentials or the certificate authority."""

from kiln.cli.exit_codes import ExitCode
from tests.unit.cli.cluster.foreign import ForeignShell

NODES = """
class Driver(NodeClusterDriver):
    name = 'keys_v1'
    version = '1.0.0'
    provides = (('*', '*', 'keys'),)

    def get_template_definition(self):
        return TemplateDefinition(directory=None)

    def rotate_ca_certificate(self, context, cluster):
        record('rotate_ca_certificate', cluster.name, len(context.nodes))
        if (FOLDER / 'busy').exists():
            raise ClusterDriverError('It is busy.', retryable=True)
        if (FOLDER / 'wrong').exists():
            return {'done': True}
        return StatusReport(progress=Progress.IN_PROGRESS, reason='1 of 2 nodes')

    def update_cluster_status(self, context, cluster):
        record('update_cluster_status')
        return StatusReport(progress=Progress.COMPLETE)

    def pre_update_cluster(self, context, cluster, operation):
        record('pre_update_cluster', operation.kind)
"""
STACK = """
class Driver(ClusterDriver):
    name = 'keys_v1'
    version = '1.0.0'
    provides = (('*', '*', 'keys'),)

    def create_cluster(self, context, cluster, cluster_create_timeout):
        return StatusReport(progress=Progress.COMPLETE, driver_handle='stack-1')

    def update_cluster(self, context, cluster, scale_manager=None, rollback=False):
        return StatusReport(progress=Progress.COMPLETE)

    def delete_cluster(self, context, cluster):
        return StatusReport(progress=Progress.COMPLETE)

    def rotate_credential(self, context, cluster):
        record('rotate_credential', cluster.driver_handle)
        return StatusReport(progress=Progress.COMPLETE)

    def rotate_ca_certificate(self, context, cluster):
        record('rotate_ca_certificate', cluster.driver_handle)
        return StatusReport(progress=Progress.FAILED, reason='the old one is in use')
"""
FILE = """\
cluster: web
coe: keys
image: debian-13
nodegroups:
  - name: work
    count: 2
"""


class OfNodes(ForeignShell):
    name = 'keys_v1'
    source = NODES
    cluster_file = FILE

    def setUp(self):
        super().setUp()
        self.up()
        self.forget_calls()

    def rotate(self, what='ca-certificate'):
        return 'cluster', 'rotate', 'web', what

    def test_the_driver_is_called_once_and_polled_until_it_is_done(self):
        before = self.nodes()
        said = self.ok(*self.rotate())
        self.assertIn('web: ! rotate the ca certificate', said)
        self.assertTrue(said.endswith('web: rotate succeeded\n'), said)
        self.assertEqual(
            [
                ['pre_update_cluster', 'rotate'],
                ['rotate_ca_certificate', 'web', 2],
                ['update_cluster_status'],
            ],
            self.calls(),
        )
        self.assertEqual(before, self.nodes())

    def test_what_the_driver_cannot_rotate_is_refused_before_anything_is_submitted(self):
        said = self.fails(ExitCode.UNSUPPORTED, *self.rotate('credential'))
        self.assertIn('cannot rotate credential', said)
        self.assertEqual([], self.calls())
        self.assertEqual('create', self.json('cluster', 'show', 'web')['operation']['kind'])

    def test_a_passing_error_is_retried_up_to_the_deadline(self):
        (self.folder / 'busy').touch()
        said = self.fails(ExitCode.UNFORESEEN, *self.rotate(), '--timeout', '5')
        self.assertIn('It is busy.', said)
        self.assertGreater(len(self.calls('rotate_ca_certificate')), 1)

    def test_an_answer_that_is_no_report_is_an_error_of_the_driver(self):
        (self.folder / 'wrong').touch()
        said = self.fails(ExitCode.UNFORESEEN, *self.rotate())
        self.assertIn('keys_v1 returned a wrong answer from rotate_ca_certificate', said)


class OfAnEngine(ForeignShell):
    name = 'keys_v1'
    source = STACK
    cluster_file = FILE

    def test_each_rotation_has_its_call(self):
        self.up()
        self.ok('cluster', 'rotate', 'web', 'credential')
        self.assertEqual([['stack-1']], self.calls('rotate_credential'))
        said = self.fails(ExitCode.UNFORESEEN, 'cluster', 'rotate', 'web', 'ca-certificate')
        self.assertIn('the old one is in use', said)
        self.assertEqual([['stack-1']], self.calls('rotate_ca_certificate'))
