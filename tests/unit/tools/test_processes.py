"""Processes that outlive the command that started them."""

import gc
import os
import pathlib
import socket
import sys
import tempfile
import unittest
import warnings

from tools.devcloud.errors import CloudError, last_lines
from tools.devcloud.place import Place
from tools.devcloud.processes import Process, Supervisor, until
from tools.devcloud.status import uses

SLEEPER = 'import sys, time; print(sys.argv[1], flush=True); time.sleep(60)'


class SupervisorTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.place = Place(pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())), 1)
        for folder in (self.place.log, self.place.run):
            folder.mkdir()
        self.supervisor = Supervisor(self.place)
        self.addCleanup(self.supervisor.stop, 'sleeper')

    def sleeper(self, word='hello', **more):
        return Process('sleeper', (sys.executable, '-c', SLEEPER, word), **more)

    def wait_for(self, word):
        until(lambda: self.supervisor.said('sleeper', word), lambda: None, 120, word)

    def pid(self):
        return self.supervisor.find('sleeper').pid

    def test_what_runs_is_not_started_again(self):
        self.assertTrue(self.supervisor.start(self.sleeper()))
        first = self.pid()
        self.assertFalse(self.supervisor.start(self.sleeper()))
        self.assertEqual(first, self.pid())

    def test_a_process_outlives_its_supervisor_without_a_warning(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter('always')
            Supervisor(self.place).start(self.sleeper())
            gc.collect()
        self.assertEqual([], caught)
        self.assertFalse(self.supervisor.start(self.sleeper()))

    def test_a_changed_command_or_file_starts_it_anew(self):
        config = self.place.home / 'one.conf'
        config.write_text('a')
        self.supervisor.start(self.sleeper(config=(config,)))
        self.assertFalse(self.supervisor.start(self.sleeper(config=(config,))))
        config.write_text('b')
        self.assertTrue(self.supervisor.start(self.sleeper(config=(config,))))
        self.assertTrue(self.supervisor.start(self.sleeper('other', config=(config,))))

    def test_what_a_former_process_said_does_not_count(self):
        self.supervisor.start(self.sleeper('ready'))
        self.wait_for('ready')
        self.supervisor.stop('sleeper')
        self.supervisor.start(self.sleeper('again'))
        self.wait_for('again')
        self.assertFalse(self.supervisor.said('sleeper', 'ready'))

    def test_the_pid_of_somebody_else_is_never_touched(self):
        self.supervisor.start(self.sleeper())
        path = self.place.run / 'sleeper.pid'
        mine = path.read_text()
        path.write_text(mine.replace(str(self.pid()), str(os.getpid())))
        self.assertIsNone(self.supervisor.find('sleeper'))
        self.supervisor.stop('sleeper')  # must not end this test
        path.write_text(mine)

    def test_a_dead_process_is_told_with_the_end_of_its_log(self):
        self.supervisor.start(Process('sleeper', (sys.executable, '-c', 'raise SystemExit("ow")')))
        with self.assertRaisesRegex(CloudError, r'sleeper died(.|\n)*ow'):
            until(lambda: False, lambda: self.supervisor.death('sleeper'), 120, 'sleeper')
        self.assertEqual([None], [use.pid for use in uses(self.supervisor)])

    def test_a_taken_port_is_refused_before_the_start(self):
        with socket.create_server(('127.0.0.1', 0)) as server:
            port = server.getsockname()[1]
            with self.assertRaisesRegex(CloudError, f'port {port} is taken'):
                self.supervisor.start(self.sleeper(port=port))
        self.assertIsNone(self.supervisor.find('sleeper'))

    def test_the_status_tells_what_a_process_uses(self):
        self.supervisor.start(self.sleeper())
        self.wait_for('hello')
        [use] = uses(self.supervisor)
        self.assertEqual(('sleeper', self.pid()), (use.name, use.pid))
        self.assertGreater(use.memory_mb, 1)
        self.assertIn('MB', str(use))

    def test_nothing_waits_for_ever(self):
        with self.assertRaisesRegex(CloudError, 'not ready after 0 s'):
            until(lambda: False, lambda: None, 0, 'it')

    def test_what_is_not_ready_in_time_shows_the_end_of_its_log(self):
        self.supervisor.start(self.sleeper())
        self.wait_for('hello')
        with self.assertRaisesRegex(CloudError, r'not ready after 0 s; the end of .*\n.*hello'):
            until(lambda: False, lambda: None, 0, 'sleeper', self.supervisor.log('sleeper'))


class LogTest(unittest.TestCase):
    def test_the_end_of_a_log_is_what_is_shown(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, 'one.log')
            path.write_text('\n'.join(f'line {number}' for number in range(1000)))
            self.assertEqual(['line 998', 'line 999'], last_lines(path, 2))
