"""Octavia's worker hears from Nova itself, on the message bus, when amphorae are ready."""

import time

from tests.functional.nova.notify import notify
from tests.functional.octavia.site import OctaviaCase

#: Seconds after which Nova is asked all the same, in case a message was lost.
ASKED_S = 60


class Listening(OctaviaCase):
    @classmethod
    def prepare(cls):
        cls.options = {'compute:nova': {'notification_url': notify(cls.cloud)}}

    def test_load_balancers_are_built_without_looks_at_their_amphorae(self):
        began = time.monotonic()
        made = [self.create(f'told-{number}') for number in range(2)]
        self.all_settle(made, 'ACTIVE')
        self.assertEqual(2, self.proxy.count('POST', '/servers'))
        # One before the bus is heard, and one after.
        looks = self.proxy.count('GET', '/servers/detail')
        self.assertLessEqual(looks, 2 + (time.monotonic() - began) / ASKED_S)
        for identity in made:
            self.delete(identity)
        self.all_settle(made, None)
        self.assert_nothing_left()
        self.assertIn(b'Nova is listened to through', self.worker.log.read_bytes())
