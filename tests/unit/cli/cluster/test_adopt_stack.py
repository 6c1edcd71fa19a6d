"""Tests of ``kiln cluster adopt-stack``, on a Heat that is played."""

from kiln.cli.exit_codes import ExitCode
from kiln.clock import SYSTEM_CLOCK
from kiln.cluster_drivers.discovery.directory import load_directory
from kiln.cluster_drivers.heat.names import tags
from tests.unit.cli.shell import Terminal
from tests.unit.cli.site_shell import SiteShell
from tests.unit.cluster_drivers.heat.fake_heat import FakeHeat
from tests.unit.cluster_drivers.heat.made import cluster_of, context
from tests.unit.cluster_drivers.heat.test_adoption import FILE, MAGNUM, NAME
from tests.unit.cluster_service.site import WEB

DRIVER = FILE.replace('cluster: shop', 'cluster: shop\ndriver: magnum_on_heat_v1')


class AdoptionShell(SiteShell):
    """Has a stack that was made by hand, and a driver that fits it."""

    def setUp(self):
        super().setUp()
        self.heat = self.enterContext(FakeHeat())
        self.heat.prompt = True
        secrets = self.folder / 'secrets'
        secrets.mkdir(mode=0o700)
        (secrets / 'heat').write_text(
            f'auth_type: none\norchestration_endpoint_override: {self.heat.url}\n'
        )
        (secrets / 'heat').chmod(0o600)
        with self.config.open('a') as config:
            config.write(
                f'driver_path = {MAGNUM.parent}\n'
                f'[secrets]\ndirectory = {secrets}\ncredentials = heat\n'
            )
        definition = load_directory(MAGNUM).open().template_definition
        self.stack = self.heat.make(
            NAME, definition.extract_definition(context(), cluster_of(FILE))
        )
        self.page(DRIVER)

    @property
    def changes(self):
        return [method for method, path in self.heat.requests if method != 'GET']

    def adopt(self, *more, text=DRIVER):
        return ('cluster', 'adopt-stack', NAME, self.page(text), *more)


class AdoptStack(AdoptionShell):
    def test_the_plan_shows_the_stack_and_changes_nothing(self):
        said = self.ok(*self.adopt('--plan', text=DRIVER.replace('count: 3', 'count: 2')))
        self.assertIn(f'shop: + cluster of driver magnum_on_heat_v1 1.0.0, from {NAME}', said)
        self.assertIn(f'note: Heat: stack {NAME} ({self.stack["id"]}) is CREATE_COMPLETE', said)
        self.assertIn('lost: kube_minions.2', said)
        self.assertEqual(['PUT'], self.changes, 'the preview')
        self.assertEqual([], self.json('cluster', 'list'))

    def test_nothing_is_done_without_confirmation(self):
        self.assertIn(
            f'stack {NAME} becomes cluster shop', self.fails(ExitCode.USAGE, *self.adopt())
        )
        app = self.app(stdin=Terminal('n\n'), stderr=Terminal())
        code = self.run_bare('--config-file', str(self.config), *self.adopt(), app=app)
        self.assertEqual(ExitCode.USAGE, code)
        self.assertEqual([], self.json('cluster', 'list'))
        self.assertEqual('CREATE', self.stack['action'])

    def test_a_stack_of_another_cluster_is_refused_before_anything_is_done(self):
        self.stack['tags'] = tags('west', cluster_of(FILE), 'x')
        said = self.fails(ExitCode.UNFORESEEN, *self.adopt('--yes'))
        self.assertIn('it is that of cluster c1 of site west', said)
        self.assertEqual([], self.changes)

    def test_a_change_that_heat_cannot_foresee_is_refused(self):
        self.heat.unforeseen = 'the network is gone'
        said = self.fails(ExitCode.UNFORESEEN, *self.adopt('--yes'))
        self.assertIn('the network is gone', said)
        self.assertEqual([], self.json('cluster', 'list'))

    def test_what_the_template_lacks_is_a_mistake_in_the_file(self):
        text = DRIVER.replace('{name: master, role: control, count: 1, flavor: medium}', '')
        text = text.replace('  - \n', '')
        said = self.fails(ExitCode.USAGE, *self.adopt('--yes', text=text))
        self.assertRegex(said, 'web.yaml:1:1: Parameter master_flavor of the template is unset')
        self.assertEqual([], self.changes)

    def test_a_name_that_is_taken_is_refused(self):
        self.ok(*self.adopt('--yes', '--no-wait'))
        self.heat.requests.clear()
        said = self.fails(ExitCode.CONFLICT, *self.adopt('--yes'))
        self.assertIn(f"Cannot create cluster 'shop' from {NAME}: the name is taken", said)
        self.assertEqual([], self.changes)

    def test_a_driver_of_nodes_is_refused(self):
        said = self.fails(ExitCode.UNSUPPORTED, *self.adopt('--yes', text=WEB))
        self.assertIn('nodes_v1 goes on with nothing that exists', said)

    def test_a_file_declares_one_cluster(self):
        text = DRIVER + '---\n' + DRIVER.replace('cluster: shop', 'cluster: other')
        self.assertIn(
            'the file declares 2 clusters', self.fails(ExitCode.USAGE, *self.adopt(text=text))
        )

    def test_the_plan_is_also_json(self):
        (said,) = self.json(*self.adopt('--plan'))
        self.assertEqual((NAME, 'create'), (said['plan']['existing'], said['plan']['kind']))


class Wholly(AdoptionShell):
    def open_clock(self):
        # Answers of Heat come in real time.
        return SYSTEM_CLOCK

    def test_the_stack_becomes_a_cluster_with_its_outputs(self):
        before = {name: one['id'] for name, one in self.stack['live'].items()}
        said = self.ok(*self.adopt('--yes'))
        self.assertIn('shop: worker_addresses', said)
        self.assertEqual(before, {name: one['id'] for name, one in self.stack['live'].items()})
        shown = self.json('cluster', 'show', 'shop')
        self.assertEqual('ready', shown['state'], shown)
        self.ok('up', self.page(DRIVER))
        self.assertIn('nothing to do', self.out)
        self.ok('cluster', 'delete', 'shop', '--yes')
        self.assertEqual({}, self.heat.stacks)
