"""Notification of systemd, on a socket as systemd has it."""

import logging
import os
import pathlib
import signal
import socket
import tempfile
import unittest

from kiln.cli.exit_codes import ExitCode
from kiln.cli.site.service_notify import Notifier
from tests.unit.cli.processes import PATIENCE_S, Processes

WATCHDOG_US = '30000'


class Supervised(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.path = str(self.folder / 'notify')
        self.socket = self.enterContext(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        self.socket.bind(self.path)
        self.socket.settimeout(PATIENCE_S)

    def heard(self):
        """Return the next message, waiting for it."""
        return self.socket.recv(4096).decode().splitlines()

    def heard_until(self, line):
        """Return the messages up to the first that has a line."""
        messages = [self.heard()]
        while line not in messages[-1]:
            messages.append(self.heard())
        return messages


class Notifying(Supervised):
    def notifier(self, **more):
        self.environment = {'NOTIFY_SOCKET': self.path, 'OTHER': 'kept', **more}
        return Notifier(self.environment)

    def test_a_service_is_ready_reports_its_status_and_stops(self):
        with self.notifier().running(lambda: 'Working', lambda: ''):
            self.assertEqual(['READY=1', 'STATUS=Working'], self.heard())
        self.assertEqual(['STOPPING=1', 'STATUS=Releasing its clusters'], self.heard())

    def test_the_watchdog_is_fed_while_nothing_is_wrong(self):
        wrong = ['']
        notifier = self.notifier(WATCHDOG_USEC=WATCHDOG_US, WATCHDOG_PID=str(os.getpid()))
        with notifier.running(lambda: 'Working', lambda: wrong[0]):
            self.assertEqual(['READY=1', 'STATUS=Working', 'WATCHDOG=1'], self.heard())
            for _ in range(3):
                self.assertEqual(['STATUS=Working', 'WATCHDOG=1'], self.heard())
            with self.assertLogs(level=logging.ERROR) as logged:
                wrong[0] = 'It stands still.'
                self.heard_until('STATUS=It stands still.')
                self.assertEqual(['STATUS=It stands still.'], self.heard())
            self.assertIn('It stands still. systemd restarts it', logged.output[0])
            self.assertIn('systemd restarts it', logged.output[2])
            wrong[0] = ''
            self.assertIn('WATCHDOG=1', self.heard_until('STATUS=Working')[-1])

    def test_where_the_threads_are_is_logged_each_time_it_stands_still(self):
        wrong = ['It stands still.']
        notifier = self.notifier(WATCHDOG_USEC=WATCHDOG_US)
        with (
            self.assertLogs(level=logging.ERROR) as logged,
            notifier.running(lambda: 'Working', lambda: wrong[0]),
        ):
            for _ in range(3):
                self.heard_until('STATUS=It stands still.')
            wrong[0] = ''
            self.heard_until('STATUS=Working')
            wrong[0] = 'Again.'
            self.heard_until('STATUS=Again.')
        stacks = [line for line in logged.output if 'Its threads:\n' in line]
        self.assertEqual(2, len(stacks))
        here = 'in test_where_the_threads_are_is_logged_each_time_it_stands_still'
        self.assertIn('MainThread:\n', stacks[1])
        self.assertIn(here, stacks[1])

    def test_the_watchdog_of_another_process_is_not_fed(self):
        notifier = self.notifier(WATCHDOG_USEC=WATCHDOG_US, WATCHDOG_PID='1')
        self.assertIsNone(notifier.watchdog_s)

    def test_no_child_process_gets_the_variables(self):
        self.notifier(WATCHDOG_USEC=WATCHDOG_US, WATCHDOG_PID='1')
        self.assertEqual({'OTHER': 'kept'}, self.environment)

    def test_a_socket_without_a_file_can_be_used(self):
        name = f'kiln-test-{os.getpid()}'
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as abstract:
            abstract.bind(f'\0{name}')
            Notifier({'NOTIFY_SOCKET': f'@{name}'}).send('READY=1')
            self.assertEqual(b'READY=1', abstract.recv(100))

    def test_a_supervisor_that_is_gone_stops_nothing(self):
        notifier = Notifier({'NOTIFY_SOCKET': str(self.folder / 'gone')})
        with self.assertLogs(level=logging.WARNING) as logged:
            notifier.send('READY=1')
        self.assertIn('Cannot notify systemd', logged.output[0])

    def test_without_systemd_nothing_is_sent(self):
        notifier = Notifier({'WATCHDOG_USEC': WATCHDOG_US})
        with notifier.running(lambda: self.fail(), lambda: self.fail()):
            notifier.send('READY=1')


class ConductorOfSystemd(Supervised, Processes):
    def test_a_conductor_reports_when_it_works_and_when_it_stops(self):
        config = self.folder / 'kiln.conf'
        config.write_text(f'[db]\nurl = sqlite:///{self.folder}/kiln.db\n')
        process = self.start(
            '--config-file', str(config), 'conductor',
            NOTIFY_SOCKET=self.path, WATCHDOG_USEC=WATCHDOG_US,
        )  # fmt: skip
        self.assertIn('READY=1', self.heard())
        messages = self.heard_until('STATUS=Working on 0 clusters')
        self.assertTrue(all('WATCHDOG=1' in one for one in messages), messages)
        process.send_signal(signal.SIGTERM)
        self.heard_until('STOPPING=1')
        self.assertEqual(ExitCode.OK, process.wait(PATIENCE_S))

    def test_a_conductor_that_the_watchdog_ends_shows_where_its_threads_are(self):
        config = self.folder / 'kiln.conf'
        config.write_text(f'[db]\nurl = sqlite:///{self.folder}/kiln.db\n')
        process = self.start(
            '--config-file', str(config), 'conductor',
            NOTIFY_SOCKET=self.path, WATCHDOG_USEC=WATCHDOG_US,
        )  # fmt: skip
        self.heard()
        process.send_signal(signal.SIGABRT)
        # Python writes the stacks of threads that run meanwhile: half of one can be missing, or
        # Python itself crash over it. One thread only waits, from the start: for signals.
        ended, said = -process.wait(PATIENCE_S), process.stderr.read()
        self.assertIn(ended, (signal.SIGABRT, signal.SIGSEGV))
        self.assertIn('Aborted\n\nThread 0x', said)
        if ended == signal.SIGABRT:
            self.assertIn('interrupts.py", line', said)
            self.assertIn('in _watch\n', said)
