"""One driver of a test on Ironic: its amphorae, and kills of a process that builds beside it."""

import json
import subprocess
import sys

from kiln.models import AmphoraType, State
from kiln.testing.proxy import Hang
from tests.functional.cloud import ROOT


class OneDriver:
    """One driver, whose amphorae are deleted after each test; in front of an IronicCase."""

    def setUp(self):
        super().setUp()
        self.nodes.switch_on(self.flavor)
        self.driver = self.open_driver()
        self.addCleanup(self.clean_up)

    def clean_up(self):
        for amphora in self.driver.list_amphorae():
            self.driver.delete(amphora.id)
        self.gone()

    def gone(self):
        # A delete that had to wait for a step of Ironic goes on when somebody looks.
        self.nodes.until(lambda: not list(self.driver.list_amphorae()))

    def build(self, **given):
        return self.driver.build(AmphoraType.BARE_METAL, **given)

    def becomes(self, amphora_id, state=State.ACTIVE):
        self.nodes.until(lambda: self.driver.status(amphora_id).state is state)

    def node_of(self, amphora_id):
        return self.nodes.ask('GET', f'/allocations/{amphora_id}')['node_uuid']

    def kill_at(self, request, fault, key, *, proxy=None, **arguments):
        """Begin a build in another process, and kill that at one of its requests."""
        proxy = proxy or self.proxy
        rule = proxy.fault(fault, *request)
        proxy.forget()
        given = {
            'options': self.plain_options(), 'owner': self.owner, 'key': key,
            'arguments': arguments,
        }  # fmt: skip
        with subprocess.Popen(
            [sys.executable, '-m', 'tests.functional.ironic.one_build'],
            stdin=subprocess.PIPE, cwd=ROOT, text=True,
        ) as process:  # fmt: skip
            process.stdin.write(json.dumps(given))
            process.stdin.close()
            self.assertTrue(proxy.wait_for(1, *request, seconds=120), request)
            # The server has done all that it was asked for before the kill.
            (exchange,) = [one for one in proxy.requests if one.fault is fault]
            self.nodes.until(lambda: isinstance(fault, Hang) or exchange.server_status)
            process.kill()
        rule.remove()
