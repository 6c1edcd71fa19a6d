"""Reboots: which are refused, and how they run in the background."""

import json
import threading
import unittest

from kiln.compute_drivers.docker.driver import DockerDriver
from kiln.compute_drivers.docker.reboots import Reboots
from kiln.exceptions import InstanceStateConflict
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

    def test_a_process_does_not_wait_for_them_when_it_ends(self):
        threads, begun = [], threading.Event()

        def restart():
            threads.append(threading.current_thread())
            begun.set()

        Reboots().begin('c1', restart)
        self.assertTrue(begun.wait(60))
        self.assertTrue(threads[0].daemon)
        self.assertEqual('reboot-c1', threads[0].name)
