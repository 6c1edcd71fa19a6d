"""The demonstration of machines keeps what it promises; that of clusters: functional/cli."""

import io

from kiln import conf as kiln_conf
from kiln.cli.demo.fleet import Ledger, Play, cloud
from kiln.cli.demo.stage import Stage
from kiln.cli.exit_codes import ExitCode
from kiln.driver_manager import DriverManager
from tests.unit.cli.shell import Shell, Terminal


class Fleet(Shell):
    def test_the_demo_keeps_what_it_promises(self):
        out = self.ok('demo', '--compute', '--fleet', '6', '--pace', '0.1')
        self.assertEqual(12, out.count('\nok  '), out)
        self.assertIn('closed -> open -> half-open -> closed', out)
        self.assertNotIn('\033', out)

    def test_a_cloud_that_never_breaks_does_not_pass_for_one_that_recovered(self):
        options = cloud(2, 0.1)
        options.pop('KILN_COMPUTE_DEMO__FAULTS')
        ledger = Ledger()
        conf = kiln_conf.load([], [], environment=options)
        opened = DriverManager(conf).open('demo', clock=self.clock, listeners=[ledger])
        with opened as compute:
            stage = Stage(io.StringIO(), self.clock)
            Play(compute, ledger, stage, 2).run()
        self.assertFalse(stage.end())
        false = [one.claim for one in stage.expectations if not one.true]
        self.assertIn('every caller was refused at once: 0, not 1000', false)
        self.assertIn('the circuit opened once and closed once: ', ' '.join(false))
        self.assertTrue(stage.expectations[0].true)

    def test_the_ledger_keeps_the_story_of_the_circuit_for_builds_alone(self):
        ledger = Ledger()
        before = list(ledger.circuit)
        ledger.circuit_changed('demo', 'read', 'closed', 'open')
        ledger.circuit_changed('demo', 'build', 'closed', 'open')
        self.assertEqual([*before, 'open'], ledger.circuit)

    def test_on_a_terminal_the_demo_is_in_colour(self):
        app = self.app(stdout=Terminal())
        code = self.run_bare('demo', '--compute', '--fleet', '6', '--pace', '0.1', app=app)
        self.assertEqual(0, code, self.out)
        self.assertIn('\033[', self.out)
        self.assertIn('closed -> open -> half-open -> closed', self.out)


class Swarm(Shell):
    def test_an_image_that_cannot_be_built_ends_it_with_the_status_of_the_build(self):
        code = self.run_bare('demo', '--swarm', 'nonsense')
        self.assertEqual((ExitCode.USAGE, ''), (code, self.err))
