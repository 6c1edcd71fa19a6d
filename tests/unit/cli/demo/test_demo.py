"""Tests of the demo of machines; for the demo of clusters see functional/cli."""

import io

from kiln import conf as kiln_conf
from kiln.cli.demo.fleet import Ledger, Play, cloud
from kiln.cli.demo.stage import Stage
from kiln.cli.exit_codes import ExitCode
from kiln.compute.backends import DriverManager
from tests.unit.cli.shell import Shell, Terminal


class Fleet(Shell):
    def test_all_claims_of_the_demo_are_true(self):
        out = self.ok('demo', '--compute', '--fleet', '6', '--pace', '0.1')
        self.assertEqual(12, out.count('\nok  '), out)
        self.assertIn('closed -> open -> half-open -> closed', out)
        self.assertNotIn('\033', out)

    def test_a_cloud_that_never_breaks_fails_the_claims_of_a_recovery(self):
        options = cloud(2, 0.1)
        options.pop('KILN_COMPUTE_DEMO__FAULTS')
        ledger = Ledger()
        conf = kiln_conf.load([], [], environment=options)
        opened = DriverManager(conf).open('demo', clock=self.clock, listeners=[ledger])
        with opened as compute:
            stage = Stage(io.StringIO(), self.clock)
            Play(compute, ledger, stage, 2).run()
        self.assertFalse(stage.end())
        false = [claim for claim, true in stage.expectations if not true]
        self.assertIn('every caller was refused at once: 0, not 1000', false)
        self.assertIn('the circuit opened once and closed once: ', ' '.join(false))
        self.assertTrue(stage.expectations[0][1])

    def test_the_ledger_records_only_the_circuit_for_builds(self):
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
    def test_a_failed_image_build_ends_the_demo_with_its_status(self):
        code = self.run_bare('demo', '--swarm', 'nonsense')
        self.assertEqual((ExitCode.USAGE, ''), (code, self.err))
