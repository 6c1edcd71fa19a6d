"""The command that works on clusters until it is told to stop."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from kiln.cli.exit_codes import ExitCode
from kiln.cluster_models import Operation, OperationKind
from kiln.db.store import open_store
from tests.unit.cli.shell import Shell
from tests.unit.db import samples

ROOT = pathlib.Path(__file__).parents[3]
CONFIG = """\
[compute]
default_backend = noop
[db]
url = sqlite:///{folder}/kiln.db
[clusters]
work_source = {where}
"""


class Running(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.store = self.enterContext(open_store(f'sqlite:///{self.folder}/kiln.db'))

    def start(self, where='database'):
        config = self.folder / 'kiln.conf'
        config.write_text(CONFIG.format(folder=self.folder, where=where))
        process = subprocess.Popen(
            [sys.executable, '-m', 'kiln.cli', '--config-file', config, 'conductor'],
            cwd=ROOT, env=os.environ | {'PYTHONPATH': str(ROOT)}, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertIn('Working on clusters', process.stderr.readline())
        return process

    def end(self, process, how):
        process.send_signal(how)
        return process.wait(30)

    def test_it_works_until_it_is_told_to_stop_and_that_is_no_failure(self):
        for how in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(how):
                process = self.start()
                self.assertEqual(ExitCode.OK, self.end(process, how))
                self.assertEqual('kiln: Stopping.\n', process.stderr.read())

    def test_a_signal_that_another_thread_takes_ends_it_too(self):
        process = self.start()
        tasks = pathlib.Path(f'/proc/{process.pid}/task')
        # By then all of its threads have begun to wait; sooner it would prove nothing.
        time.sleep(1)
        other = max(int(task.name) for task in tasks.iterdir())
        # As the kernel may choose: Linux gives it to the thread that is named.
        os.kill(other, signal.SIGTERM)
        self.assertEqual(ExitCode.OK, process.wait(30))

    def test_it_takes_what_there_is_to_do_and_gives_it_up_at_its_end(self):
        cluster = samples.cluster()
        operation = Operation(id='op', cluster_id=cluster.id, kind=OperationKind.CREATE)
        self.store.clusters.create(cluster, operation)
        process = self.start()
        self.until(lambda: (lease := self.store.leases.get(cluster.id)) and lease.epoch)
        self.assertEqual(ExitCode.OK, self.end(process, signal.SIGTERM))
        self.assertEqual(0.0, self.store.leases.get(cluster.id).expires_at)

    def until(self, so):
        end = time.monotonic() + 30
        while not so():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)


class Refusing(Shell):
    def test_what_it_cannot_work_with_is_said_at_once(self):
        self.config.write_text('[clusters]\nwork_source = rabbit://me:hush@h/kiln\n'
                               f'[db]\nurl = sqlite:///{self.folder}/kiln.db\n')  # fmt: skip
        said = self.fails(ExitCode.USAGE, 'conductor')
        self.assertIn('Cannot use work_source: it is none of database, zookeeper:', said)
        self.assertNotIn('hush', said)

    def test_a_store_that_cannot_be_used_is_said_at_once(self):
        self.config.write_text('[db]\nurl = postgresql://me:hush@127.0.0.1:1/kiln\n')
        said = self.fails(ExitCode.UNAVAILABLE, 'conductor')
        self.assertIn('Cannot read the store at postgresql://127.0.0.1:1/kiln', said)
