"""Kills with -9 of a process that builds on the real Ironic, at each of its requests.

KILN_IRONIC_KILLS is the number of kills; a soak uses 30.
"""

import os
import uuid

from kiln.testing.proxy import Hang, LoseAnswer
from tests.functional.ironic.one_driver import OneDriver
from tests.functional.ironic.site import IronicCase

KILLS = int(os.environ.get('KILN_IRONIC_KILLS', '8'))
_ID = '[0-9a-f-]{36}'
#: The requests of a build, in their order.
REQUESTS = (
    ('POST', '/allocations'),
    ('GET', f'/nodes/{_ID}'),
    ('PATCH', f'/nodes/{_ID}'),
    ('PUT', f'/nodes/{_ID}/states/provision'),
)
#: A kill before Ironic has received a request, and a kill before its answer has arrived.
POINTS = [
    (request, fault)
    for fault in (Hang(), LoseAnswer(Hang()))
    for request in REQUESTS
]  # fmt: skip


class Kills(OneDriver, IronicCase):
    def gone(self):
        super().gone()
        self.assertEqual([], self.claims())

    def test_a_build_that_was_killed_is_finished_by_its_repetition_on_one_node(self):
        for at in range(KILLS):
            request, fault = POINTS[at % len(POINTS)]
            key = f'kill-{uuid.uuid4().hex[:8]}'
            with self.subTest(request=request, fault=fault):
                self.kill_at(request, fault, key)
                left = [one for one in self.claims() if one['extra']['kiln']['build_key'] == key]
                # Whatever has a node is listed.
                listed = {one.id for one in self.driver.list_amphorae()}
                self.assertLessEqual({one['uuid'] for one in left}, listed)
                built = self.build(build_key=key, name=key)
                self.becomes(built)
                self.assertEqual([built], [one['uuid'] for one in self.claims()])
                self.assertLessEqual({one['uuid'] for one in left}, {built})
                self.driver.delete(built)
                self.gone()

    def test_what_a_killed_build_has_left_is_found_and_deleted(self):
        for request, fault in POINTS[1:]:
            key = f'kill-{uuid.uuid4().hex[:8]}'
            with self.subTest(request=request, fault=fault):
                self.kill_at(request, fault, key)
                found = self.driver.find_build(key)
                self.assertIsNotNone(found)
                self.driver.delete(found.id)
                self.gone()
        in_use = self.nodes.of(self.flavor, '&associated=true')
        self.nodes.until(
            lambda: {one['provision_state'] for one in self.nodes.of(self.flavor)} == {'available'}
        )
        self.assertEqual([], in_use)
