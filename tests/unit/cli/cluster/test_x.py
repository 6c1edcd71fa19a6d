from kiln.cli.exit_codes import ExitCode
from tests.unit.cli.site_shell import SiteShell

PAGES = """\
cluster: web
driver: example_v1
image: debian-13
nodegroups:
  - name: front
    count: 2
"""


class Verbs(SiteShell):
    def setUp(self):
        super().setUp()
        self.page(PAGES)
        self.up()

    def test_001_5_a_verb_of_a_driver_is_a_command(self):
        said = self.json('x', 'example_v1', 'pages', 'web')
        self.assertEqual({node['name'] for node in self.nodes()}, set(said))
        self.assertEqual({}, self.json('x', 'example_v1', 'pages', 'web', 'group=work'))

    def test_invalid_arguments_are_reported_with_the_valid_ones(self):
        for words, told in (
            (('nodes_v1', 'pages', 'web'), 'belongs to example_v1'),
            (('example_v1', 'nothing', 'web'), 'It has: pages'),
            (('example_v1', 'pages', 'other'), 'other'),
            (('example_v1', 'pages', 'web', 'group=[1]'), 'must be a string'),
            (('example_v1', 'pages', 'web', 'color=red'), 'there is no color'),
        ):
            with self.subTest(words):
                self.assertNotEqual(ExitCode.OK, self.sh('x', *words))
                self.assertIn(told, self.err)
