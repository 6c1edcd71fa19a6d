"""Tests of ``kiln cluster adopt-stack``, on a Heat that is played."""

from kiln.cli.exit_codes import ExitCode
from kiln.clock import SYSTEM_CLOCK
from kiln.cluster_drivers.discovery.directory import load_directory
from kiln.cluster_drivers.heat.names import tags
from kiln.cluster_file.reading import read
from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from tests.unit.cli.shell import Terminal
from tests.unit.cli.site_shell import SiteShell
from tests.unit.cluster_drivers.heat.fake_heat import FakeHeat
from tests.unit.cluster_drivers.heat.made import cluster_of, context
from tests.unit.cluster_drivers.heat.test_adoption import FILE, MAGNUM, NAME

DRIVER = FILE.replace('cluster: shop', 'cluster: shop\ndriver: magnum_on_heat_v1')


class AdoptionShell(SiteShell):
    """Has a stack that was made by hand, and a driver that fits it."""

    def open_clock(self):
        # Answers of Heat come in real time.
        return SYSTEM_CLOCK

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

    def test_a_file_declares_one_cluster(self):
        text = DRIVER + '---\n' + DRIVER.replace('cluster: shop', 'cluster: other')
        self.assertIn(
            'the file declares 2 clusters', self.fails(ExitCode.USAGE, *self.adopt(text=text))
        )

    def test_the_plan_is_also_json(self):
        (said,) = self.json(*self.adopt('--plan'))
        self.assertEqual((NAME, 'create'), (said['plan']['existing'], said['plan']['kind']))


class Wholly(AdoptionShell):
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


class MachineShell(AdoptionShell):
    """The servers of the stack are machines of the site's backend, and belong to nobody."""

    def setUp(self):
        super().setUp()
        cloud = NoopCloud(self.folder / 'cloud.db', clock=self.clock)
        self.addCleanup(cloud.close)
        for name, one in self.stack['live'].items():
            flavor = 'small' if 'masters' in name else 'large'
            one['id'] = cloud.make_unowned(
                name, flavor=flavor, image_id='coreos-38', availability_zone='az1'
            )
        self.cloud = cloud

    @property
    def ids(self):
        return sorted(one['id'] for one in self.stack['live'].values())

    def described(self):
        """Return the file that declares the servers as nodes."""
        return self.ok('cluster', 'adopt-stack', NAME)


class Servers(MachineShell):
    def test_without_a_file_one_is_printed_and_nothing_is_done(self):
        text = self.described()
        (spec,) = read(text).clusters
        self.assertEqual(
            [('kube-masters', 1, 'small'), ('kube-minions', 3, 'large')],
            [(one.name, one.shape.count, one.machine.flavor) for one in spec.groups],
        )
        self.assertIn(f'Stack {NAME} ({self.stack["id"]}) is CREATE_COMPLETE', self.err)
        self.assertIn('1 of kube-masters, 3 of kube-minions', self.err)
        self.assertEqual([], self.changes)
        self.assertEqual([], self.json('compute', 'list'))

    def test_the_servers_become_the_nodes_and_the_stack_is_left_alone(self):
        text = self.described()
        before = [(one['id'], one['name']) for one in self.found()]
        said = self.ok(*self.adopt('--yes', text=text))
        self.assertIn(f"'kiln cluster forget-stack {NAME} {NAME}'", self.err)
        self.assertIn('kube-minions: =3 that exist: kube_minions.0, kube_minions.1', said)
        self.assertNotIn('kube-minions: +', said)
        nodes = self.json('node', 'list', NAME)
        self.assertEqual(self.ids, sorted(one['compute_id'] for one in nodes))
        self.assertEqual({'ready'}, {one['state'] for one in nodes})
        self.assertEqual(before, [(one['id'], one['name']) for one in self.found()])
        self.assertEqual([], self.changes)

    def found(self):
        driver = NoopDriver(cloud=self.cloud)
        self.addCleanup(driver.close)
        found = [driver.get_amphora(amphora_id=one) for one in self.ids]
        return [{'id': one.id, 'name': one.name} for one in found]

    def test_the_plan_takes_nothing(self):
        text = self.described()
        said = self.ok(*self.adopt('--plan', text=text))
        self.assertIn('kube-masters: =1 that exist', said)
        self.assertNotIn('forget-stack', self.err)
        self.assertEqual([], self.json('compute', 'list'))

    def test_the_question_names_the_servers(self):
        said = self.fails(ExitCode.USAGE, *self.adopt(text=self.described()))
        self.assertIn(f'4 servers of stack {NAME} become nodes of cluster {NAME}', said)

    def test_servers_without_a_group_in_the_file_are_refused(self):
        text = self.described().replace('kube-minions', 'others')
        said = self.fails(ExitCode.USAGE, *self.adopt('--yes', text=text))
        self.assertIn('the cluster has no such group', said)

    def test_a_stack_without_servers_and_one_of_a_cluster_are_refused(self):
        self.stack['live'] = {}
        said = self.fails(ExitCode.UNFORESEEN, 'cluster', 'adopt-stack', NAME)
        self.assertIn('it has no servers', said)
        self.stack['tags'] = tags('west', cluster_of(FILE), 'x')
        said = self.fails(ExitCode.UNFORESEEN, 'cluster', 'adopt-stack', NAME)
        self.assertIn('it is that of cluster c1 of site west', said)

    def test_the_servers_of_a_stack_that_failed_are_described_all_the_same(self):
        self.stack.update(action='UPDATE', status='FAILED', reason='no room')
        self.assertIn('kube-minions', self.described())

    def test_credentials_go_with_no_file(self):
        said = self.fails(ExitCode.USAGE, *self.adopt('--credentials', 'heat'))
        self.assertIn('Cannot use --credentials with FILE', said)
