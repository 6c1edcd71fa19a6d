"""Delays of backends, as a waiting command prints them."""

import os
import unittest

from kiln.cli.output.delays import PATIENCE_S, Delays
from kiln.clock import Deadline, clock_time
from kiln.exceptions import ServiceTimeout, ServiceUnavailable
from kiln.foreign.waiting import Wait
from kiln.wrappers.operations.errand import no_answer_so_far
from tests.self_moving_clock import MovingTime
from tests.unit.cli.shell import Shell


class Printing(MovingTime, unittest.TestCase):
    def setUp(self):
        self.clock = self.open_clock()
        self.said = []
        self.delays = Delays(self.said.append, self.clock)
        self.addCleanup(self.delays.close)

    def test_each_reason_of_each_backend_is_printed_once(self):
        for backend, error in (
            ('east', ServiceUnavailable('a is down')),
            ('east', ServiceUnavailable('b is down')),
            ('east', ServiceTimeout('no answer')),
            ('west', ServiceUnavailable('a is down')),
        ):
            self.delays.delayed(backend, error)
        self.assertEqual([], self.said)
        self.until(lambda: len(self.said) == 3)
        self.clock.advance(60)
        self.assertEqual(
            ['east delays this: a is down', 'east delays this: no answer',
             'west delays this: a is down'],
            self.said,
        )  # fmt: skip

    def test_a_silence_is_printed_at_once_since_it_has_lasted_for_seconds(self):
        begun = self.clock.monotonic()
        self.delays.delayed('east', no_answer_so_far('east', 'Cannot list', Wait()))
        self.until(lambda: self.said)
        self.assertLess(self.clock.monotonic() - begun, PATIENCE_S)

    def test_nothing_is_printed_while_it_is_muted(self):
        with self.delays.muted():
            self.delays.delayed('east', ServiceUnavailable('down'))
        self.delays.delayed('east', ServiceUnavailable('down now'))
        self.until(lambda: self.said)
        self.assertEqual(['east delays this: down now'], self.said)

    def test_the_time_until_which_a_command_tries_is_printed_with_the_reason(self):
        self.delays.limited_by(Deadline.after(61, self.clock))
        self.delays.delayed('east', ServiceUnavailable('a is down.'))
        ends = clock_time(self.clock.time() + 61)
        self.until(lambda: self.said)
        self.assertEqual([f'east delays this: a is down. It is tried until {ends}.'], self.said)

    def test_nothing_is_printed_once_the_command_has_ended(self):
        self.delays.delayed('east', ServiceUnavailable('down'))
        self.delays.close()
        self.clock.advance(60)
        self.assertEqual([], self.said)


class Commands(Shell):
    east = 'faults = list:hang_before=20:times=1'

    def test_a_command_that_waits_for_its_backend_says_so_on_stderr(self):
        self.ok('compute', 'list')
        self.assertIn('kiln: east delays this: ', self.err)
        self.assertIn('has not answered for over 3 s', self.err)
        self.assertRegex(self.err, r'It is tried until \d\d:\d\d:\d\dZ\.')

    def test_a_quiet_command_does_not(self):
        self.ok('-q', 'compute', 'list')
        self.assertEqual('', self.err)

    def test_machines_that_end_with_the_command_are_announced(self):
        code = self.run_bare('--config-file', os.devnull, 'compute', 'build')
        self.assertEqual(0, code, self.err)
        self.assertIn('its machines end with this command', self.err)
        self.ok('compute', 'build')
        self.assertNotIn('its machines end', self.err)
