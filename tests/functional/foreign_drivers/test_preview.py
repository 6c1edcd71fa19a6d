"""What an engine of a driver's own foresees, in a plan."""

from kiln.cli.exit_codes import ExitCode
from tests.unit.cli.cluster.driver_shell import STACK, DriverShell

PREVIEW = """
def preview_cluster(self, context, cluster, plan):
    {}
"""


class Previews(DriverShell):
    def planned(self, body):
        """Return the plan of a cluster whose driver foresees what the code says."""
        self.install(STACK, PREVIEW.format(body))
        return self.plan()

    def plan(self):
        return self.ok('plan', str(self.path))

    def test_what_the_engine_foresees_is_shown_before_anything_happens(self):
        said = self.planned("return [f'one node is lost by {plan.kind.value}']")
        self.assertIn('one node is lost by create', said)
        self.assertNotIn('plans nodes by itself', said)

    def test_an_engine_that_is_away_keeps_nobody_from_a_plan(self):
        said = self.planned(
            'from kiln.clusters.exceptions import ClusterDriverError; '
            "raise ClusterDriverError('the engine is away')"
        )
        self.assertIn('stack_v1 cannot foresee what its engine would do: the engine is away', said)

    def test_a_driver_without_a_preview_says_that_its_changes_are_not_shown(self):
        self.install(STACK)
        self.assertIn('plans nodes by itself', self.plan())


class Losses(DriverShell):
    """Changes of a cluster whose engine plans its nodes by itself, without --yes."""

    def begun(self, body):
        self.install(STACK, PREVIEW.format(body))
        self.ok('up', str(self.path))

    def change(self, before, after):
        self.page(self.path.read_text().replace(before, after))
        return 'up', str(self.path)

    def test_what_its_engine_would_lose_is_confirmed(self):
        self.begun("return [Loss('a node is replaced')] if plan.kind.value == 'update' else []")
        changed = self.change('debian-13', 'debian-14')
        self.assertIn('web loses what is on nodes', self.fails(ExitCode.USAGE, *changed))
        self.ok(*changed, '--yes')

    def test_what_its_engine_keeps_is_not(self):
        self.begun("return ['a node is added']")
        self.ok(*self.change('debian-13', 'debian-14'))

    def test_fewer_nodes_are_confirmed_whatever_its_engine_foresees(self):
        self.begun('return []')
        changed = self.change('count: 2', 'count: 1')
        self.assertIn('web loses 1 node', self.fails(ExitCode.USAGE, *changed))
