"""Notifications of the real Nova through the real RabbitMQ."""

import collections
import os
import re
import time

from kiln.compute.goals import Until
from kiln.exceptions import (
    AmphoraBuildError,
    DeleteTimeout,
    InsufficientCapacity,
    ServiceTimeout,
)
from tests.functional.nova.notify import mute, notify
from tests.functional.nova.site import ONE, NovaCase

SETTLE_S = 600
#: Seconds after which Nova is polled anyway, in case a message was lost.
ASKED_S = 60
MANY = 24 if os.environ.get('KILN_FULL') else 10
#: Seconds after which Nova is assumed to have lost a delete request.
LOST_S = 30
#: Seconds that a build takes while the broker is down for less. Nova waits a minute for each
#: reply that the broker has lost.
BUILD_S = 45


class ListeningCase(NovaCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.url = notify(cls.cloud)


class CountedCase(ListeningCase):
    def setUp(self):
        super().setUp()
        self.opened_at = time.monotonic()
        self.compute = self.open_compute(notification_url=self.url, build_timeout=SETTLE_S)
        # Versions, names and the first token are requested once, and not counted.
        (first,) = self.build(1)
        self.compute.delete(first, wait=True, timeout=SETTLE_S).result(SETTLE_S)
        self.proxy.forget()

    def begin(self, count, **metadata):
        return [
            self.compute.build(
                name=f'told-{number}', until=Until.ACTIVE, timeout=SETTLE_S, metadata=metadata
            )
            for number in range(count)
        ]

    def build(self, count, **metadata):
        return [build.result(SETTLE_S) for build in self.begin(count, **metadata)]

    def delete(self, amphora_ids):
        deletes = [self.compute.delete(one, wait=True, timeout=SETTLE_S) for one in amphora_ids]
        for delete in deletes:
            delete.result(SETTLE_S)

    def looked(self):
        """Return True if Nova had to be polled without a notification."""
        looked = any('changes-since' in one.target for one in self.proxy.requests)
        # On a busy machine all of this can take a minute.
        return looked and not self.silent() and time.monotonic() - self.opened_at < ASKED_S

    def silent(self):
        """Return True if Nova was too busy to report anything for some seconds; it is polled."""
        return bool(self.compute.driver._hearing.silences)

    def asked(self):
        """Return the number of requests of each kind since the last call."""
        found = collections.Counter(
            f'{one.method} {re.sub(ONE, "/servers/ID", one.path)}' for one in self.proxy.requests
        )
        self.proxy.forget()
        return found


class MuteNova(NovaCase):
    """kiln listens, and Nova's notifications are off until the last step."""

    def test_an_unheard_build_is_noticed_and_polled_until_nova_reports_one(self):
        url = mute(self.cloud)
        compute = self.open_compute(notification_url=url, build_timeout=SETTLE_S)
        self.assertIn('listening, nothing heard so far', compute.check().result(30).detail)
        began = time.monotonic()
        with self.assertLogs('kiln.compute_drivers.nova.notifications.listening', 'INFO') as logs:
            self.build(compute)
            polled = [one for one in self.proxy.requests if 'changes-since' in one.target]
            if time.monotonic() - began < ASKED_S:
                self.assertTrue(polled)
            self.assertEqual(1, len(logs.output), logs.output)
            self.assertIn('WARNING', logs.output[0])
            self.assertIn('polled, connected but', compute.check().result(30).detail)
            notify(self.cloud)
            self.build(compute)
        self.assertIn('again', logs.output[-1])
        self.assertIn('listening, last heard', compute.check().result(30).detail)

    def build(self, compute):
        built = compute.build(until=Until.ACTIVE, timeout=SETTLE_S).result(SETTLE_S)
        compute.delete(built, wait=True, timeout=SETTLE_S).result(SETTLE_S)


class OneRequest(CountedCase):
    def test_a_server_costs_a_create_a_delete_and_a_list_each_minute(self):
        built = self.build(MANY)
        asked = self.asked()
        self.assertEqual(MANY, asked.pop('POST /servers'))
        self.assertEqual({'ACTIVE'}, {server['status'] for server in self.servers()})
        self.assert_lists(asked)
        self.delete(built)
        asked = self.asked()
        self.assertEqual(MANY, asked.pop('DELETE /servers/ID'))
        self.assert_lists(asked)
        self.assertEqual([], self.servers())

    def assert_lists(self, asked):
        polls = (
            {'GET /servers', 'GET /servers/detail'} if self.silent() else {'GET /servers/detail'}
        )
        self.assertLessEqual(asked.keys(), polls)
        if not self.silent():
            minutes = (time.monotonic() - self.opened_at) // ASKED_S
            self.assertLessEqual(asked.total(), 1 + minutes)

    def test_a_delete_by_another_client_is_noticed(self):
        (built,) = self.build(1)
        gone = self.compute.watch(built, ['deleted'], timeout=SETTLE_S)
        self.admin.delete(f'/servers/{built}', endpoint_filter={'service_type': 'compute'})
        self.assertIsNotNone(gone.exception(SETTLE_S) or gone.result())
        self.assertLessEqual(self.asked().get('GET /servers/ID', 0), 1)


class Trouble(CountedCase):
    def test_a_failed_build_has_its_reason(self):
        (build,) = self.begin(1, **{'devcloud:spawn_abort': 'the disk is made of cheese'})
        self.assertIsInstance(build.exception(SETTLE_S), AmphoraBuildError)
        self.assertIn('the disk is made of cheese', str(build.exception()))
        self.assertFalse(self.looked())

    def test_a_build_without_a_valid_host_is_a_lack_of_capacity(self):
        build = self.compute.build(amphora_flavor='impossible', until=Until.ACTIVE)
        self.assertIsInstance(build.exception(SETTLE_S), InsufficientCapacity)
        self.assertFalse(self.looked())

    def test_a_build_that_fails_on_one_host_continues_on_another(self):
        # The first host fails it, and so do the next two: only then the build has failed.
        (build,) = self.begin(1, **{'devcloud:spawn_fail': 'as the host wills'})
        # A host with a late heartbeat is not tried.
        last = 'Exceeded maximum number of retries|No valid host'
        self.assertRegex(str(build.exception(SETTLE_S)), last)

    def test_no_change_is_lost_while_the_broker_is_down(self):
        doomed = self.build(3)
        builds = self.begin(4, **{'devcloud:spawn_delay': str(BUILD_S)})
        self.eventually(lambda: self.spawning() == 4)
        with self.assertLogs('kiln.compute_drivers.nova.notifications.bus', 'INFO') as logs:
            self.cloud.run('down', 'rabbit')
            deletes = [self.compute.delete(one, wait=True, timeout=LOST_S) for one in doomed]
            self.cloud.run('up')
            ended = [build.exception(SETTLE_S) for build in builds]
            for amphora_id, delete in zip(doomed, deletes, strict=True):
                self.gone_or_known_to_be_stuck(amphora_id, delete)
            self.eventually(lambda: len(logs.output) > 1)
        self.assertIn('so Nova is polled', logs.output[0])
        self.assertIn('Listening to notifications of Nova', logs.output[1])
        said = {b.result() for b, error in zip(builds, ended, strict=True) if not error}
        states = {server['id']: server['status'] for server in self.servers()}
        self.assertLessEqual({one for one, state in states.items() if state == 'ACTIVE'}, said)
        # Nova itself might not survive this in the middle of a build: it can reset a server
        # from ACTIVE if its own messages are lost meanwhile.
        self.assertLessEqual({states[one] for one in said}, {'ACTIVE', 'ERROR'})
        self.proxy.forget()
        self.build(3)
        self.assertEqual(3, self.asked()['POST /servers'])

    def gone_or_known_to_be_stuck(self, amphora_id, delete):
        """Repeat deletes: Nova can accept a delete and lose its own message with the broker."""
        if delete.exception(SETTLE_S) is None:
            return
        # If the broker was down for longer than a delete can take, Nova itself waits for it.
        self.assertIsInstance(delete.exception(), (DeleteTimeout, ServiceTimeout))
        tasks = [one['OS-EXT-STS:task_state'] for one in self.servers() if one['id'] == amphora_id]
        if set(tasks) - {None}:
            self.assertEqual(['deleting'], tasks)
            # Nova ignores repeated requests until an operator sets the state of the server.
            self.admin.post(
                f'/servers/{amphora_id}/action',
                endpoint_filter={'service_type': 'compute'},
                json={'os-resetState': {'state': 'active'}},
            )
        self.compute.delete(amphora_id, wait=True).result(SETTLE_S)

    def spawning(self):
        return sum(one['OS-EXT-STS:task_state'] == 'spawning' for one in self.servers())

    def eventually(self, so):
        end = time.monotonic() + SETTLE_S
        while not so():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.1)
