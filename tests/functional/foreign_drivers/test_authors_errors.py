"""An author's error is an author's error: the driver, the method, the exception, its place."""

import json
import threading

from kiln.cli.exit_codes import ExitCode
from tests.unit.cli.cluster.driver_shell import BARE, DriverShell

MISTAKE = "{}['work']"


class Mistakes(DriverShell):
    def assert_named(self, said, method, file):
        said = ' '.join(said.split())
        place = self.place(file, MISTAKE)
        self.assertIn(
            f"Cluster driver bare_v1 failed in {method}: KeyError: 'work' ({place}).", said
        )
        self.assertNotIn('defect of kiln', said)

    def test_in_validate(self):
        file = self.install(
            BARE,
            f"""
            def validate(self, context, cluster, plan):
                return {MISTAKE}
            """,
        )
        self.assert_named(
            self.fails(ExitCode.UNFORESEEN, 'plan', str(self.path)), 'validate', file
        )
        self.assertEqual([], self.json('cluster', 'list'))

    def test_in_bootstrap_which_fails_before_a_machine_is_made(self):
        file = self.install(
            BARE,
            f"""
            def bootstrap(self, context, cluster, node):
                return {MISTAKE}
            """,
        )
        self.assert_named(self.fails(ExitCode.UNFORESEEN, 'up', str(self.path)), 'bootstrap', file)
        self.assertEqual([], self.machines())
        # One node was planned, and no other was made in its place.
        (node,) = self.nodes()
        self.assertEqual(('planned', 1), (node['state'], node['attempt']))
        self.assert_named(self.why(), 'bootstrap', file)
        # The author repairs the driver, and the creation continues.
        file.write_text(file.read_text().replace(MISTAKE, 'Bootstrap()'))
        self.ok('cluster', 'retry', 'web')
        self.assertEqual(3, len(self.machines()))

    def test_in_the_test_of_a_node(self):
        file = self.install(
            BARE,
            f"""
            def is_ready(self, context, cluster, node):
                return {MISTAKE}
            """,
        )
        said = self.fails(ExitCode.UNAVAILABLE, 'up', str(self.path), '--timeout', '20')
        self.assert_named(said, 'is_ready', file)

    def test_in_a_hook(self):
        file = self.install(
            BARE,
            f"""
            def pre_create_cluster(self, context, cluster, operation):
                {MISTAKE}
            """,
        )
        said = self.fails(ExitCode.UNFORESEEN, 'up', str(self.path))
        self.assert_named(said, 'pre_create_cluster', file)

    def test_in_opening_the_driver(self):
        file = self.install(
            BARE,
            f"""
            def __init__(self):
                {MISTAKE}
            """,
        )
        self.assert_named(self.fails(ExitCode.UNFORESEEN, 'up', str(self.path)), 'open', file)

    def test_in_the_scale_manager_and_a_verb(self):
        file = self.install(
            BARE,
            f"""
            class Scale(ScaleManager):
                def order(self, nodegroup, nodes):
                    return {MISTAKE}

            def get_scale_manager(self, context, cluster):
                return self.Scale(context, cluster)

            def show(context, cluster, arguments):
                return {{'nodes': cluster.work}}

            verbs = {{'show': Verb(run=show, help='Show.')}}
            """,
        )
        self.up()
        self.assert_named(self.fails(1, 'cluster', 'scale', 'web', 'work=1'), 'Scale.order', file)
        said = self.fails(1, 'x', 'bare_v1', 'show', 'web')
        place = self.place(file, 'cluster.work')
        self.assertIn('Cluster driver bare_v1 failed in verb show: AttributeError: ', said)
        self.assertIn(f'({place}).', said)


class Prints(DriverShell):
    def test_what_a_driver_prints_does_not_get_into_the_output(self):
        file = self.install(
            BARE,
            """
            def bootstrap(self, context, cluster, node):
                print('hello from bootstrap')
                return Bootstrap()

            def validate(self, context, cluster, plan):
                print('hello from validate')
                return ()
            """,
        )
        file.write_text("print('hello from the module')\n" + file.read_text())
        said = json.loads(self.ok('up', str(self.path), '-f', 'json'))
        self.assertEqual('succeeded', said[0]['operation']['state'])
        self.assertIn('hello from bootstrap', self.err)
        self.assertEqual('bare_v1', self.json('driver', 'show', 'bare_v1')['name'])


class Slow(DriverShell):
    """A driver whose bootstrap does not return."""

    def test_it_delays_no_other_cluster(self):
        gate, entered = threading.Event(), threading.Event()
        self.addCleanup(gate.set)
        self.install(
            BARE,
            """
            def bootstrap(self, context, cluster, node):
                import tests.functional.foreign_drivers.test_authors_errors as here
                if cluster.name == 'web':
                    here.HELD[0].set()
                    here.HELD[1].wait()
                return Bootstrap()
            """,
        )
        HELD[:] = entered, gate
        both = self.path.read_text()
        self.page(f'{both}---\n{both.replace("cluster: web", "cluster: other")}')
        self.ok('up', str(self.path), '--no-wait')
        with self.site() as site, site.conducting():
            entered.wait()
            self.until(lambda: site.clusters.show('other').state == 'ready')
            self.assertNotEqual('ready', site.clusters.show('web').state)
            gate.set()
            self.until(lambda: site.clusters.show('web').state == 'ready')


#: The events of the test of a slow driver.
HELD = []
