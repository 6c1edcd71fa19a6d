"""A cluster driver chooses the backend of each group."""

from kiln.cli.exit_codes import ExitCode
from tests.unit.cli.cluster.foreign import ForeignShell

SOURCE = """
class Driver(NodeClusterDriver):
    name = 'apart_v1'
    version = '1.0.0'
    provides = (('*', '*', 'apart'),)

    def get_template_definition(self):
        return TemplateDefinition(directory=None)

    def compute_driver_for(self, cluster, nodegroup):
        if (FOLDER / 'wrong').exists():
            return 7
        if nodegroup.role == 'control':
            return cluster.spec.machine.parameters.get('chief', 'west')
        return super().compute_driver_for(cluster, nodegroup)
"""
FILE = """\
cluster: web
coe: apart
image: debian-13
nodegroups:
  - name: boss
    role: control
    count: 1
  - name: work
    count: 1
"""


class Backends(ForeignShell):
    name = 'apart_v1'
    source = SOURCE
    cluster_file = FILE

    def setUp(self):
        super().setUp()
        with self.config.open('a') as file:
            file.write(f'[compute:west]\ndriver = noop\npath = {self.folder}/west.db\n')

    def test_the_choice_of_the_driver_decides_where_nodes_are_built(self):
        self.up()
        self.assertEqual(
            {'boss': 'west', 'work': 'east'},
            {node['group']: node['backend'] for node in self.nodes()},
        )
        self.assertIn('web: nothing to do', self.up())
        self.assertEqual(
            [1, 1],
            [len(self.json('compute', 'list', '--backend', one)) for one in ('west', 'east')],
        )

    def test_a_backend_that_does_not_exist_is_refused_with_its_place(self):
        self.page(FILE.replace('coe: apart', 'coe: apart\nparameters: {chief: mars}'))
        said = self.fails(ExitCode.USAGE, 'up', str(self.path))
        self.assertRegex(said, r':6:\d+: nodegroups\[0\].*mars')
        self.assertEqual([], self.json('cluster', 'list'))

    def test_a_choice_that_is_not_a_name_is_an_error_of_the_driver(self):
        (self.folder / 'wrong').touch()
        said = self.fails(ExitCode.UNFORESEEN, 'up', str(self.path))
        self.assertIn('apart_v1 returned a wrong answer from compute_driver_for', said)
