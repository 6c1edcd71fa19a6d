"""Programs of cluster drivers that run as another user; this suite needs root."""

import dataclasses
import os
import pathlib
import tempfile
import unittest

from kiln.cluster_drivers.discovery.directory import load_directory
from kiln.cluster_drivers.discovery.programs import Programs
from kiln.clusters.spec import MachineSpec
from kiln.programs.detached import Runs, RunState
from kiln.testing.clusters import samples
from tests.unit.cluster_drivers.command.folders import write_driver

#: A user of every Debian, who is in no group but one.
USER = 'daemon'
DONE = 'echo \'{"type": "result", "condition": "complete"}\''


class ProgramUsers(unittest.TestCase):
    def setUp(self):
        if os.geteuid() != 0:
            self.fail('needs root')
        self.root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        # The folder is open; one of its files is not.
        self.root.chmod(0o755)
        (self.root / 'closed').touch(0o600)
        self.said = self.root / 'said'
        self.said.mkdir()
        self.said.chmod(0o777)

    def driver(self, cases):
        folder = write_driver(self.root, cases)
        driver_class = load_directory(folder, Programs(user=USER))
        driver = driver_class.open()
        driver.runs_in, driver.variables = self.root / 'runs', {'AT': str(self.root)}
        self.cluster = samples.cluster(driver_class, MachineSpec(), 1)
        return driver

    def created(self, cases):
        """Let a program create a cluster, and return its run."""
        run = self.begun(self.driver(cases))
        self.addCleanup(run.kill)
        return run

    def begun(self, driver):
        """Ask for the cluster, and return the run that begins once that is kept."""
        context = samples.context()
        asked = driver.create_cluster(context, self.cluster, cluster_create_timeout=60.0)
        self.cluster = dataclasses.replace(self.cluster, driver_state=asked.driver_state)
        driver.update_cluster_status(context, self.cluster)
        return Runs(driver.runs_in, self.cluster.id).latest()

    def heard(self, cases):
        """Return what a program that creates a cluster writes to a file."""
        run = self.created(f'create) {{ {cases}; }} >"$AT/said/one" 2>&1; {DONE} ;;')
        run.wait()
        self.assertEqual(0, run.result['status'], run.errors())
        return (self.said / 'one').read_text().splitlines()

    def test_a_program_has_the_user_and_the_groups_of_the_option_only(self):
        said = self.heard("id -un; id -Gn; sed -n 's/CapEff:\t//p' /proc/self/status")
        self.assertEqual([USER, USER, '0000000000000000'], said)

    def test_a_program_reads_its_document_and_secrets_and_writes_to_its_home(self):
        said = self.heard(
            'grep -c kiln.command /dev/stdin; grep -c credentials <&3; touch "$HOME/mine" && '
            'cd "$HOME" && ls; stat -c "%U %a" .'
        )
        self.assertEqual(['1', '1', 'mine', f'{USER} 700'], said)

    def test_a_program_cannot_read_what_only_kiln_can(self):
        said = self.heard('cat "$AT/closed"; cat "$HOME/../job.json"; ls "$HOME/.."; true')
        self.assertEqual(3, len(said))
        for line in said:
            self.assertIn('Permission denied', line)

    def test_what_is_waited_for_runs_as_that_user_as_well(self):
        driver = self.driver(f'status) id -un >"$AT/said/one"; {DONE} ;;')
        driver.update_cluster_status(context=samples.context(), cluster=self.cluster)
        self.assertEqual(f'{USER}\n', (self.said / 'one').read_text())

    def test_a_program_is_ended_with_all_that_it_has_started(self):
        os.mkfifo(self.root / 'begun')
        (self.root / 'begun').chmod(0o666)
        run = self.created(
            'create) trap "" TERM; setsid sleep 600 & echo x >"$AT/begun"; '
            'while :; do sleep 60; done ;;'
        )
        (self.root / 'begun').read_text()
        run.kill()
        self.assertEqual((RunState.LOST, []), (run.state, run._orphans()))

    def test_a_folder_of_runs_that_the_user_cannot_reach_is_named(self):
        runs = self.root / 'elsewhere'
        runs.mkdir(0o700)
        driver = self.driver(f'create) {DONE} ;;')
        driver.runs_in = runs / 'runs'
        run = self.begun(driver)
        run.wait()
        self.assertIn(f'cannot reach {run.folder}/work: Permission denied', run.errors().decode())


if __name__ == '__main__':
    unittest.main()
