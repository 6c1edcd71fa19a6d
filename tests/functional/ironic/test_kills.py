"""Processes that build and delete on the real Ironic are killed; nothing is lost or doubled."""

import os
import random
import subprocess
import sys
import time

from kiln.models import State
from tests.functional.ironic.site import IronicCase

KILLS = int(os.environ.get('KILN_IRONIC_KILLS', '3'))
SEED = int(os.environ.get('KILN_IRONIC_SEED', str(random.randrange(10**6))))
#: The longest that a process has until it is killed, once it is open.
LONGEST_S = 6.0


class Kills(IronicCase):
    def process(self, wanted, unwanted):
        command = [
            sys.executable, '-m', 'tests.functional.ironic.builder', self.owner,
            ','.join(wanted), ','.join(unwanted) or 'none',
        ]  # fmt: skip
        started = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, 'KILN_CLOUD_SHARED': '1', 'KILN_CLOUD_HOME': str(self.cloud.home)},
        )  # fmt: skip
        self.addCleanup(started.wait)
        self.addCleanup(started.kill)
        self.assertEqual('open\n', started.stdout.readline())
        return started

    def test_each_build_ends_as_wanted_whenever_its_process_is_killed(self):
        draw = random.Random(SEED)
        driver = self.open_driver()
        self.addCleanup(self.sweep, driver)
        keys = [f'k{nth}' for nth in range(4)]
        for nth in range(KILLS):
            wanted = [key for key in keys if draw.random() < 0.6] or keys[:1]
            unwanted = [key for key in keys if key not in wanted]
            with self.subTest(kill=nth, seed=SEED):
                killed = self.process(wanted, unwanted)
                time.sleep(draw.uniform(0.0, LONGEST_S))
                killed.kill()
                killed.wait()
                killed.stdout.close()
                killed.stdin.close()
                last = self.process(wanted, unwanted)
                self.assertEqual('done\n', last.stdout.readline())
                self.becomes(driver, wanted)
                last.stdin.close()
                last.wait(60)
                last.stdout.close()
                self.check(wanted)

    def becomes(self, driver, wanted):
        def states():
            return {one.build_key: one.state for one in driver.list_amphorae()}

        self.eventually(lambda: states() == dict.fromkeys(wanted, State.ACTIVE))

    def check(self, wanted):
        """Compare what Ironic itself has with what was wanted."""
        claims = self.claims()
        self.assertEqual(sorted(wanted), sorted(one['extra']['kiln']['key'] for one in claims))
        ours = {one['uuid'] for one in claims}
        query = {'resource_class': claims[0]['resource_class'], 'detail': 'true'}
        nodes = self.ask('GET', '/nodes', params=query).json()['nodes']
        held = [one['instance_uuid'] for one in nodes if one['instance_uuid']]
        self.assertEqual(ours, set(held) & ours)
        self.assertEqual(len(held), len(set(held)))
        for node in nodes:
            # A node without a claim is deployed for nobody.
            if node['instance_uuid'] is None:
                self.assertNotIn(node['provision_state'], ('active', 'deploying'))

    def sweep(self, driver):
        for one in driver.list_amphorae():
            driver.delete(one.id)
        self.eventually(lambda: not self.claims())
