"""A connected bus on which nothing is reported: noticed, logged once, and polled around."""

import unittest

from kiln.compute_drivers.nova.notifications.hearing import QUIET_S, Hearing
from kiln.models import State
from kiln.testing.clock import VirtualClock
from tests.unit.compute_drivers.nova.bus import until
from tests.unit.compute_drivers.nova.notifications.test_listening import (
    DETAIL,
    GONE,
    TAGS,
    ListeningCase,
    server,
)

LOG = 'kiln.compute_drivers.nova.notifications.listening'


class Hearings(unittest.TestCase):
    def setUp(self):
        self.clock = VirtualClock()
        self.hearing = Hearing(self.clock)
        self.hearing.up()

    def send(self, *server_ids):
        for server_id in server_ids:
            self.hearing.sent(server_id, self.clock.monotonic())

    def test_without_builds_it_is_never_quiet(self):
        self.clock.advance(3600)
        self.assertFalse(self.hearing.quiet())

    def test_it_is_quiet_some_time_after_a_build_without_any_report(self):
        self.send('a')
        self.clock.advance(QUIET_S - 0.1)
        self.assertFalse(self.hearing.quiet())
        self.clock.advance(0.1)
        self.assertTrue(self.hearing.quiet())

    def test_reports_about_other_builds_of_the_site_make_it_wait_longer(self):
        self.send('a', 'b')
        self.clock.advance(QUIET_S - 0.1)
        self.hearing.heard('a', ours=True)
        self.clock.advance(QUIET_S - 0.1)
        self.assertFalse(self.hearing.quiet())
        self.clock.advance(0.1)
        self.assertTrue(self.hearing.quiet())
        self.hearing.heard('b', ours=True)
        self.assertFalse(self.hearing.quiet())

    def test_each_silence_is_counted_once(self):
        for number in range(3):
            self.send(f'{number}')
            self.clock.advance(QUIET_S)
            self.assertTrue(self.hearing.quiet() and self.hearing.quiet())
            self.assertEqual(number + 1, self.hearing.silences)
            self.hearing.heard(f'{number}', ours=True)
            self.assertFalse(self.hearing.quiet())

    def test_reports_about_other_sites_do_not(self):
        self.send('a')
        self.clock.advance(QUIET_S)
        self.hearing.heard('other', ours=False)
        self.assertTrue(self.hearing.quiet())

    def test_a_build_that_is_done_without_a_report_proves_once_that_it_is_deaf(self):
        self.send('a', 'b')
        self.clock.advance(QUIET_S)
        self.assertEqual('b', self.hearing.shown(['b', 'c']))
        self.assertTrue(self.hearing.deaf)
        self.assertIsNone(self.hearing.shown(['a']))
        # From now on, no build has to wait.
        self.send('c')
        self.assertTrue(self.hearing.quiet())

    def test_a_build_that_is_done_before_its_report_can_have_come_proves_nothing(self):
        self.send('a')
        self.clock.advance(QUIET_S - 0.1)
        self.assertIsNone(self.hearing.shown(['a']))
        self.clock.advance(QUIET_S)
        self.assertFalse(self.hearing.quiet())

    def test_a_report_about_the_site_ends_a_deafness(self):
        self.send('a')
        self.clock.advance(QUIET_S)
        self.hearing.shown(['a'])
        self.assertFalse(self.hearing.heard('other', ours=False))
        self.assertTrue(self.hearing.quiet())
        self.assertTrue(self.hearing.heard('b', ours=True))
        self.assertFalse(self.hearing.quiet())
        self.assertFalse(self.hearing.heard('b', ours=True))

    def test_builds_that_are_gone_are_not_waited_for(self):
        self.send('a')
        self.clock.advance(QUIET_S)
        self.hearing.forget(['a'])
        self.assertFalse(self.hearing.quiet())

    def test_a_build_from_before_the_connection_is_waited_for_but_proves_nothing(self):
        self.hearing.down()
        self.send('a')
        self.clock.advance(QUIET_S)
        self.assertFalse(self.hearing.quiet())
        self.hearing.up()
        self.clock.advance(QUIET_S - 0.1)
        self.assertFalse(self.hearing.quiet())
        self.clock.advance(0.1)
        self.assertTrue(self.hearing.quiet())
        self.assertIsNone(self.hearing.shown(['a']))

    def test_the_time_of_the_last_report_is_known(self):
        self.assertIsNone(self.hearing.last_heard_s())
        self.hearing.heard('other', ours=False)
        self.clock.advance(7)
        self.assertEqual(7, self.hearing.last_heard_s())


class MuteNova(ListeningCase):
    """Nova builds servers, and reports none of them."""

    def setUp(self):
        super().setUp()
        self.connect()
        self.cursor = self.driver.changes().cursor
        self.build('a')
        self.asked()

    def done(self, *server_ids):
        servers = [server(one, 'active') for one in server_ids]
        self.cloud.answers |= {DETAIL: {'servers': servers}} | {
            f'GET /servers/{one["id"]}': {'server': one} for one in servers
        }

    def how(self):
        self.cloud.answers |= {'GET /servers': {'servers': []}}
        return self.driver.check().detail

    def test_nova_is_polled_as_soon_as_the_build_should_have_been_reported(self):
        self.clock.advance(QUIET_S - 0.1)
        self.assertEqual([State.PENDING], self.changed(self.cursor))
        self.assertEqual([], self.asked())
        self.clock.advance(0.1)
        self.cloud.answers[DETAIL] = {'servers': [server('a', 'building', 'spawning')]}
        with self.assertNoLogs(LOG, 'WARNING'):
            self.assertEqual([State.BUILDING], self.changed(self.cursor))
        self.assertEqual([DETAIL], self.asked())

    def test_a_warning_is_logged_once_and_further_builds_are_polled_at_once(self):
        self.clock.advance(QUIET_S)
        self.done('a')
        with self.assertLogs(LOG, 'WARNING') as logs:
            self.assertEqual([State.ACTIVE], self.changed(self.cursor))
            self.build('b')
            self.done('a', 'b')
            self.assertEqual({'b': State.ACTIVE}, self.states('b'))
        (line,) = logs.output
        self.assertIn('amphora a of backend east', line)
        self.assertIn('messagingv2', line)
        self.assertIn('polled, connected but Nova reports no builds', self.how())

    def test_a_list_of_built_servers_is_a_proof_too(self):
        self.clock.advance(QUIET_S)
        self.cloud.answers['GET /servers'] = {'servers': [{'id': 'a'}]}
        with self.assertLogs(LOG, 'WARNING'):
            self.assertEqual({'a'}, self.driver.reached(State.ACTIVE, self.cursor))

    def test_once_nova_reports_a_build_it_is_listened_to_again(self):
        self.clock.advance(QUIET_S)
        self.done('a')
        with self.assertLogs(LOG, 'INFO') as logs:
            cursor = self.driver.changes(self.cursor).cursor
            self.build('b')
            self.tell('instance.create.end', 'b', tags=TAGS)
            until(lambda: len(logs.output) == 2)
        self.assertIn('again', logs.output[-1])
        self.asked()
        changes = self.driver.changes(cursor)
        self.assertEqual(['b'], [status.amphora_id for status in changes.statuses])
        self.assertEqual({'b': State.ACTIVE}, self.states('b'))
        self.assertEqual([], self.asked())
        self.assertIn('listening, last heard 0 s ago', self.how())

    def test_a_build_that_is_deleted_meanwhile_needs_no_report(self):
        self.cloud.answers |= {'DELETE /servers/a': (204, {}, ''), 'GET /servers/a': GONE}
        self.driver.delete('a')
        self.asked()
        self.clock.advance(QUIET_S)
        self.assertEqual([State.PENDING], self.changed(self.cursor))
        self.assertEqual([], self.asked())

    def test_a_failed_build_needs_no_report(self):
        self.clock.advance(QUIET_S)
        self.cloud.answers[DETAIL] = {'servers': [server('a', 'error')]}
        with self.assertNoLogs(LOG, 'WARNING'):
            cursor = self.driver.changes(self.cursor).cursor
        self.asked()
        self.driver.changes(cursor)
        self.assertEqual([], self.asked())


if __name__ == '__main__':
    unittest.main()
