"""Kills with -9 of a process that builds on the real Ironic, at each of its requests.

KILN_IRONIC_KILLS is the number of kills; a soak uses 30.
"""

import json
import os
import subprocess
import sys
import uuid

from kiln.models import AmphoraType, State
from kiln.testing.proxy import Hang, LoseAnswer
from tests.functional.cloud import ROOT
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


class Kills(IronicCase):
    def setUp(self):
        super().setUp()
        self.nodes.switch_on(self.flavor)
        self.driver = self.open_driver()
        self.addCleanup(self.clean_up)

    def clean_up(self):
        for amphora in self.driver.list_amphorae():
            self.driver.delete(amphora.id)
        self.gone()

    def kill_at(self, request, fault, key):
        """Begin a build in another process, and kill that at one of its requests."""
        rule = self.proxy.fault(fault, *request)
        self.proxy.forget()
        options = {
            'auth_type': 'none', 'baremetal_endpoint_override': self.proxy.url,
            'flavor': self.flavor, 'image': self.options().image,
        }  # fmt: skip
        if not hasattr(self, 'cloud'):
            auth = {}
        else:
            auth = {**self.cloud.auth('kiln-system'), 'auth_type': 'password'}
        given = {'options': {**options, **auth}, 'owner': self.owner, 'key': key}
        with subprocess.Popen(
            [sys.executable, '-m', 'tests.functional.ironic.one_build'],
            stdin=subprocess.PIPE, cwd=ROOT, text=True,
        ) as process:  # fmt: skip
            process.stdin.write(json.dumps(given))
            process.stdin.close()
            self.assertTrue(self.proxy.wait_for(1, *request, seconds=60), request)
            # Ironic has done all that it was asked for before the kill.
            (exchange,) = [one for one in self.proxy.requests if one.fault is fault]
            self.nodes.until(lambda: isinstance(fault, Hang) or exchange.server_status)
            process.kill()
        rule.remove()

    def gone(self):
        # A delete that had to wait for a step of Ironic goes on when somebody looks.
        self.nodes.until(lambda: not list(self.driver.list_amphorae()))
        self.assertEqual([], self.claims())

    def becomes_active(self, amphora_id):
        self.nodes.until(lambda: self.driver.status(amphora_id).state is State.ACTIVE)

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
                built = self.driver.build(AmphoraType.BARE_METAL, build_key=key, name=key)
                self.becomes_active(built)
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
