"""A cluster of bare-metal nodes on a pool: created, scaled, repaired and deleted."""

import os
import pathlib
import signal
import subprocess
import sys
import time

from tests.conformance.yard import PATIENCE, Yard
from tests.functional.real_time import RealTime
from tests.unit.cli.shell import Shell

PATIENCE_S = 300
ROOT = pathlib.Path(__file__).parents[3]
CONFIG = """\
[compute]
default_backend = metal
owner = us
[compute:metal]
driver = appliance
inventory = {folder}/machines.toml
state_dir = {folder}/state
watch_interval = 0.05
watch_max_interval = 0.2
{more}
[db]
url = sqlite:///{folder}/kiln.db
[clusters]
lease = 5
watch = 1
quiesce = 0
"""
PAGE = """\
cluster: metal
coe: nodes
server_type: bare_metal
nodegroups:
  - name: front
    count: {front}
    health: {{unhealthy_after: 1s, max_unhealthy: 100%}}
  - name: work
    count: 2
    zones: {{az1: 1, az2: 1}}
"""


class ClusterOnPool(RealTime, Shell):
    def setUp(self):
        super().setUp()
        self.yard = self.enterContext(Yard(self.folder, 6))
        (self.folder / 'machines.toml').write_text(self.yard.inventory())
        more = '\n'.join(f'{name} = {value}' for name, value in PATIENCE.items())
        self.config.write_text(CONFIG.format(folder=self.folder, more=more))
        self.page = self.folder / 'metal.yaml'

    def up(self, front):
        self.page.write_text(PAGE.format(front=front))
        self.ok('up', str(self.page), '--yes')

    def nodes(self):
        return self.json('node', 'list', 'metal')

    def machines(self, standing):
        listed = self.json('appliance', 'list')
        return {one['name'] for one in listed if one['standing'] == standing}

    def on(self):
        return {name for name in self.yard.names if self.yard.is_on(name)}

    def test_a_cluster_lives_on_enrolled_machines(self):
        self.up(2)
        self.assertEqual(4, len(self.nodes()))
        self.assertEqual((self.on(), 4), (self.machines('claimed'), len(self.on())))
        zones = {one['amphora_name']: one['zone'] for one in self.json('appliance', 'list')}
        self.assertEqual({'az1', 'az2'}, {
            zones[node['name']] for node in self.nodes() if node['group'] == 'work'
        })  # fmt: skip
        self.up(4)
        self.assertEqual(6, len(self.machines('claimed')))
        self.up(1)
        # A command that waits returns when the machine is released and wiped.
        self.assertEqual(3, len(self.machines('claimed')))
        self.assertEqual(self.on(), self.machines('claimed'))
        self.ok('cluster', 'delete', 'metal', '--yes')
        self.assertEqual((set(), 6), (self.on(), len(self.machines('free'))))

    def test_too_few_machines_are_reported_with_the_reason(self):
        self.page.write_text(PAGE.format(front=9))
        code = self.sh('up', str(self.page), '--timeout', '5')
        self.assertNotEqual(0, code)
        self.assertIn('none of 6 machines is free', self.out + self.err + self.ok('why', 'metal'))

    def test_a_replaced_node_gets_another_machine_and_its_own_is_wiped(self):
        self.up(2)
        node = next(one for one in self.nodes() if one['group'] == 'front')
        machine = next(
            one['name']
            for one in self.json('appliance', 'list')
            if one['amphora_name'] == node['name']
        )
        self.ok('node', 'replace', 'metal', node['name'], '--yes')
        give_up = time.monotonic() + PATIENCE_S
        while machine in self.machines('claimed') and time.monotonic() < give_up:
            time.sleep(0.1)
        self.assertIn(machine, self.machines('free'))
        self.assertFalse(self.yard.is_on(machine))
        self.assertEqual(4, len(self.machines('claimed')))

    def conductor(self):
        process = subprocess.Popen(
            [sys.executable, '-m', 'kiln.cli', '--config-file', self.config, 'conductor'],
            cwd=ROOT,
            env=os.environ | {'PYTHONPATH': str(ROOT)},
        )
        self.addCleanup(process.wait, 30)
        self.addCleanup(process.send_signal, signal.SIGTERM)

    def test_a_dead_machine_is_replaced_and_unused_until_it_is_wiped(self):
        self.up(2)
        node = next(one for one in self.nodes() if one['group'] == 'front')
        listed = self.json('appliance', 'list')
        dead = next(one['name'] for one in listed if one['amphora_name'] == node['name'])
        # A dead machine cannot be wiped.
        self.yard.program('wipe', f'test $KILN_MACHINE != {dead}')
        self.conductor()
        self.yard.turn(dead, False)
        give_up = time.monotonic() + PATIENCE_S
        while dead not in self.machines('unwiped') or len(self.machines('claimed')) < 4:
            self.assertLess(time.monotonic(), give_up, self.ok('appliance', 'list'))
            time.sleep(0.2)
        self.yard.program('wipe', 'true')
        while dead not in self.machines('free'):
            self.assertLess(time.monotonic(), give_up, self.ok('appliance', 'list'))
            time.sleep(0.2)
