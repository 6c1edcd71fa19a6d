"""Reboots: which are refused, and how they run in the background."""

import json
import threading
import unittest

from kiln.compute_drivers.docker.driver import DockerDriver
from kiln.compute_drivers.docker.reboots import Reboots
from kiln.exceptions import InstanceStateConflict, ServiceUnavailable
from kiln.testing.conformance.interleaving import meetings
from tests.unit.compute_drivers.docker.scripted import VERSION, ScriptedCase, answer
from tests.unit.compute_drivers.docker.test_repeats import inspected
from tests.unit.compute_drivers.docker.test_settings import options


class Refused(ScriptedCase):
    def test_a_reboot_can_be_repeated_after_a_build_but_not_after_a_removal(self):
        for status, again in (('created', True), ('removing', False)):
            with self.subTest(status):
                found = inspected(status=status)
                url = self.serve(VERSION, answer(json.dumps(found).encode()))
                driver = DockerDriver.open(options(url=url), name='here', owner='site')
                self.addCleanup(driver.close)
                with self.assertRaises(InstanceStateConflict) as caught:
                    driver.reboot(found['Id'])
                self.assertIs(again, caught.exception.retryable)
                self.assertEqual(2, len(self.server.requests))

    def test_what_is_suspended_is_not_rebooted(self):
        found = inspected(status='paused')
        url = self.serve(VERSION, answer(json.dumps(found).encode()))
        driver = DockerDriver.open(options(url=url), name='here', owner='site')
        self.addCleanup(driver.close)
        with self.assertRaisesRegex(InstanceStateConflict, 'it is suspended; resume it first'):
            driver.reboot(found['Id'])


class InTheBackground(unittest.TestCase):
    def setUp(self):
        self.driver = DockerDriver.open(options(), name='here', owner='site')
        self.addCleanup(self.driver.close)

    def test_of_two_that_are_requested_at_once_one_is_made(self):
        made = []

        def prepare():
            reboots, begun, ends = Reboots(), [], threading.Event()
            made.append((begun, ends))

            def restart():
                begun.append('c1')
                ends.wait(60)

            return (lambda: reboots.begin('c1', restart),) * 2

        for meeting in meetings(prepare, self.driver):
            for _, ends in made:
                ends.set()
            for thread in threading.enumerate():
                if thread.name == 'reboot-c1':
                    thread.join(60)
            self.assertEqual(['c1'], made[-1][0], meeting.place)

    def reboot(self, *, fails=None):
        """Reboot, and return the thread of it; it runs until it is told to end."""
        self.reboots, self.ends = Reboots(), threading.Event()
        threads, begun = [], threading.Event()

        def restart():
            threads.append(threading.current_thread())
            begun.set()
            self.ends.wait(60)
            if fails is not None:
                raise fails

        self.addCleanup(self.ends.set)
        self.reboots.begin('c1', restart)
        self.assertTrue(begun.wait(60))
        return threads[0]

    def test_a_process_does_not_wait_for_them_when_it_ends(self):
        self.assertTrue(self.reboot().daemon)

    def test_each_has_a_thread_that_names_its_container(self):
        self.assertEqual('reboot-c1', self.reboot().name)

    def test_one_is_under_way_until_the_engine_has_answered(self):
        thread = self.reboot()
        self.assertIn('c1', self.reboots)
        self.assertNotIn('c2', self.reboots)
        self.ends.set()
        thread.join(60)
        self.assertNotIn('c1', self.reboots)

    def test_one_that_has_failed_is_logged_and_over(self):
        with self.assertLogs('kiln.compute_drivers.docker', 'WARNING') as logged:
            thread = self.reboot(fails=ServiceUnavailable('Cannot reboot c1: no.'))
            self.ends.set()
            thread.join(60)
        self.assertIn('Reboot of c1 failed: Cannot reboot c1: no.', logged.output[0])
        self.assertNotIn('c1', self.reboots)

    def test_a_defect_is_not_logged_as_a_reboot_that_failed(self):
        told = []
        self.addCleanup(setattr, threading, 'excepthook', threading.excepthook)
        threading.excepthook = told.append
        with self.assertNoLogs('kiln.compute_drivers.docker', 'WARNING'):
            thread = self.reboot(fails=ZeroDivisionError())
            self.ends.set()
            thread.join(60)
        self.assertIs(ZeroDivisionError, told[0].exc_type)
        self.assertNotIn('c1', self.reboots)
