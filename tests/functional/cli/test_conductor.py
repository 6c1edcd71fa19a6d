"""Tests of ``kiln conductor`` as a process that is stopped by signals."""

import os
import pathlib
import signal
import tempfile

from kiln.cli.exit_codes import ExitCode
from kiln.clusters.models import Operation, OperationKind
from kiln.db.store import open_store
from tests.unit.cli.processes import PATIENCE_S, Processes
from tests.unit.db import samples

CONFIG = """\
[compute]
default_backend = noop
[db]
url = sqlite:///{folder}/kiln.db
"""


class Running(Processes):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.store = self.enterContext(open_store(f'sqlite:///{self.folder}/kiln.db'))

    def conduct(self, more='', interrupt=signal.SIG_DFL):
        config = self.folder / 'kiln.conf'
        config.write_text(CONFIG.format(folder=self.folder) + more)
        process = self.start('--config-file', str(config), 'conductor', interrupt=interrupt)
        self.said = process.stderr.readline()
        self.assertIn('Working on clusters', self.said)
        return process

    def test_a_conductor_works_until_a_signal_and_exits_with_status_0(self):
        for how in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(how):
                process = self.conduct()
                self.assertIn('SIGTERM or Ctrl-C ends it', self.said)
                process.send_signal(how)
                self.assertEqual(ExitCode.OK, process.wait(PATIENCE_S))
                self.assertEqual('kiln: Stopping.\n', process.stderr.read())

    def test_a_problem_is_in_what_a_conductor_prints_without_an_option_for_it(self):
        # Its driver has another version than the one that is installed.
        cluster = samples.cluster()
        operation = Operation(id='op', cluster_id=cluster.id, kind=OperationKind.CREATE)
        self.store.clusters.create(cluster, operation)
        process = self.conduct('[DEFAULT]\ndebug = false\n')
        self.assertIn('Cannot work on cluster c-web here', process.stderr.readline())
        process.send_signal(signal.SIGTERM)
        self.assertEqual(ExitCode.OK, process.wait(PATIENCE_S))

    def test_a_conductor_logs_where_its_configuration_says(self):
        log = self.folder / 'log'
        process = self.conduct(f'[DEFAULT]\nlog_file = {log}\n')
        process.send_signal(signal.SIGTERM)
        self.assertEqual(ExitCode.OK, process.wait(PATIENCE_S))
        self.assertEqual('kiln: Stopping.\n', process.stderr.read())
        self.assertTrue(log.exists())

    def test_a_conductor_started_without_ctrl_c_prints_that_sigterm_ends_it(self):
        process = self.conduct(interrupt=signal.SIG_IGN)
        self.assertIn('; SIGTERM ends it', self.said)
        self.assertTrue(self.ignores(process, signal.SIGINT))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(ExitCode.OK, process.wait(PATIENCE_S))

    def test_a_signal_on_another_thread_ends_a_conductor(self):
        process = self.conduct()
        tasks = pathlib.Path(f'/proc/{process.pid}/task')
        # After the other threads have started and the main thread waits; else it proves nothing.
        main = tasks / str(process.pid) / 'stat'
        self.until(lambda: len(list(tasks.iterdir())) > 1)
        self.until(lambda: main.read_text().rpartition(')')[2].split()[0] == 'S')
        other = max(int(task.name) for task in tasks.iterdir())
        # The kernel can choose any thread; here the signal is sent to a given thread.
        os.kill(other, signal.SIGTERM)
        self.assertEqual(ExitCode.OK, process.wait(PATIENCE_S))

    def test_a_conductor_claims_clusters_with_work_and_releases_them_at_its_end(self):
        cluster = samples.cluster()
        operation = Operation(id='op', cluster_id=cluster.id, kind=OperationKind.CREATE)
        self.store.clusters.create(cluster, operation)
        process = self.conduct()
        self.until(lambda: (lease := self.store.leases.get(cluster.id)) and lease.epoch)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(ExitCode.OK, process.wait(PATIENCE_S))
        self.assertEqual(0.0, self.store.leases.get(cluster.id).expires_at)
