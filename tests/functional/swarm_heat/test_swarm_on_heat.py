"""A real Swarm as a stack of the real Heat, by a template and mappings alone.

Heat, Nova, Neutron, Glance and Keystone are real, and so are the systemd, the cloud-init and the
engines of the machines. Only the hypervisor is simulated: see bodies.py of swarm_nova.
With KILN_FULL the Swarm has three managers and three workers, and more processes are killed.
"""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

import docker

from kiln.db.store import open_store
from tests.functional.cloud import ROOT, clean_cloud
from tests.functional.engines import engine, make_network
from tests.functional.heat.bench import ask, auth, credentials, forget_project
from tests.functional.swarm.site import WAIT_S, kiln
from tests.functional.swarm_nova.bodies import Bodies, Cloud, Wire
from tests.functional.swarm_nova.site import EAST

BODY = 'kiln/swarm-node:latest'
FULL = bool(os.environ.get('KILN_FULL'))
MANAGERS, WORKERS = (3, 3) if FULL else (1, 2)
#: Seconds after the request of a change, at which a process is killed.
MOMENTS_S = (0.3, 1.0, 2.0, 4.0, 8.0) if FULL else (1.5,)
CONF = """
[compute]
default_backend = containers
owner = {owner}
[compute:containers]
driver = docker
url = {url}
[db]
url = sqlite:///{folder}/kiln.db
[secrets]
directory = {folder}/secrets
credentials = heat
[clusters]
driver_path = {root}/doc/examples/cluster_drivers
lease = 5
quiesce = 1
"""
PAGE = """
cluster: web
driver: swarm_on_heat_v1
server_type: vm
image: {image}
flavor: tiny
networks: [{network}]
parameters: {{forget_after: 10}}
nodegroups:
  - {{name: managers, role: control, count: {managers}}}
  - {{name: workers, count: {workers}}}
"""


def conduct(conf):
    """Start a conductor that takes a stack for left alone after seconds; the caller ends it."""
    words = [sys.executable, '-m', 'tests.functional.heat.conductor', '--config-file', str(conf)]
    return subprocess.Popen(
        [*words, 'conductor'], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


NOVA_PAGE = """
cluster: nova
driver: swarm_debian_v1
server_type: vm
compute_driver: east
image: {image}
flavor: tiny
nodegroups:
  - {{name: managers, role: control, count: {managers}}}
  - {{name: workers, count: {workers}}}
"""


class SwarmOnHeat(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.bare = docker.DockerClient(base_url=engine().url, timeout=WAIT_S)
        cls.addClassCleanup(cls.bare.close)
        cls.owner = f't{uuid.uuid4().hex[:8]}'
        made = make_network(cls.bare.api, cls.owner)
        cls.addClassCleanup(cls.bare.api.remove_network, made)
        cls.site = clean_cloud('heat')
        forget_project()
        cls.cloud = Cloud(cls.site.session())
        image = f'debian-{cls.owner}'
        cls.cloud.add_image(image, os_distro='debian')
        wire = Wire(cls.cloud, cls.bare, cls.owner)
        cls.wire_id = wire.id
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.conf = cls.folder / 'kiln.conf'
        cls.conf.write_text(
            CONF.format(owner=cls.owner, url=engine().url, folder=cls.folder, root=ROOT)
            + EAST.format(network=wire.id, **auth())
        )
        secrets = cls.folder / 'secrets'
        secrets.mkdir(mode=0o700)
        (secrets / 'heat').write_text(credentials())
        (secrets / 'heat').chmod(0o600)
        kiln(cls.conf, 'image', 'build', 'swarm-node', '--max-age', '30d', '--into', 'containers')
        cls.bodies = cls.enterClassContext(Bodies(cls.cloud, cls.bare, wire, BODY))
        facts = {'image': image, 'network': wire.id, 'managers': MANAGERS, 'workers': WORKERS}
        for name, page in (('web', PAGE), ('nova', NOVA_PAGE)):
            (cls.folder / f'{name}.yaml').write_text(page.format(**facts))

    def test_a_template_and_mappings_build_scale_and_heal_a_swarm(self):
        # One cluster for all steps, because a cluster for each would take minutes.
        begun = time.monotonic()
        self.up('web')
        self.numbers = {
            'managers': {*range(1, MANAGERS + 1)}, 'workers': {*range(1, WORKERS + 1)}
        }  # fmt: skip
        # Numbers are given for ever.
        self.last = {'managers': MANAGERS, 'workers': WORKERS}
        self._the_swarm_has_the_nodes_of_the_stack()
        took_s = time.monotonic() - begun
        self._a_worker_in_the_middle_goes()
        self._a_server_that_somebody_deleted_is_replaced()
        if FULL:
            self._a_manager_is_replaced()
        self._what_is_killed_loses_no_node(self._kill_kiln)
        self._what_is_killed_loses_no_node(self._restart_heat)
        self._nothing_is_left_of_a_cluster_that_is_deleted('web')
        if FULL:
            begun = time.monotonic()
            self.up('nova')
            on_nova_s = time.monotonic() - begun
            print(f'\na Swarm on Heat in {took_s:.0f} s, on Nova in {on_nova_s:.0f} s')
            self._nothing_is_left_of_a_cluster_that_is_deleted('nova')

    # ---- steps -----------------------------------------------------------------------

    def _the_swarm_has_the_nodes_of_the_stack(self):
        expected = {
            f'web-{group}-{number}' for group, found in self.numbers.items() for number in found
        }
        self.until(lambda: self.listed() == dict.fromkeys(expected, 'Ready'), self.listed)
        self.assertEqual(expected, {one['name'] for one in self.cloud.servers().values()})
        self.assertEqual(len(expected), len(self.bodies.machines()))
        self.assertEqual(len(expected), len(self.cloud.ports(network_id=self.wire_id)))
        shown = json.loads(kiln(self.conf, 'cluster', 'show', 'web', '-f', 'json'))['outputs']
        for group, found in self.numbers.items():
            self.assertEqual({f'{group}-{number}' for number in found}, shown[group].keys())

    def _a_worker_in_the_middle_goes(self):
        before = self.cloud.servers().keys()
        self.scale(remove=sorted(self.numbers['workers'])[(WORKERS - 1) // 2])
        self._the_swarm_has_the_nodes_of_the_stack()
        self.assertEqual(1, len(before - self.cloud.servers().keys()))
        self.scale()
        self._the_swarm_has_the_nodes_of_the_stack()

    def _a_server_that_somebody_deleted_is_replaced(self):
        victim = min(self.numbers['workers'])
        (server_id,) = [
            one['id'] for one in self.cloud.servers().values()
            if one['name'] == f'web-workers-{victim}'
        ]  # fmt: skip
        self.cloud.delete_server(server_id)
        self.scale(remove=victim)
        self.scale()
        self._the_swarm_has_the_nodes_of_the_stack()

    def _a_manager_is_replaced(self):
        self.scale('managers', remove=min(self.numbers['managers']))
        self._the_swarm_has_the_nodes_of_the_stack()
        self.scale('managers')
        self._the_swarm_has_the_nodes_of_the_stack()

    def _what_is_killed_loses_no_node(self, kill):
        for moment in MOMENTS_S:
            for remove in (min(self.numbers['workers']), None):
                conductor = conduct(self.conf)
                try:
                    self.scale('workers', '--no-wait', remove=remove)
                    time.sleep(moment)
                    conductor = kill(conductor)
                    self.until(self.at_rest, 'the operation does not end')
                finally:
                    conductor.terminate()
                    conductor.wait(WAIT_S)
                self._the_swarm_has_the_nodes_of_the_stack()

    def _kill_kiln(self, conductor):
        conductor.send_signal(signal.SIGKILL)
        conductor.wait()
        return conduct(self.conf)

    def _restart_heat(self, conductor):
        self.site.run('down', 'heat-engine')
        self.site.run('up')
        return conductor

    def _nothing_is_left_of_a_cluster_that_is_deleted(self, name):
        kiln(self.conf, 'cluster', 'delete', name, '--yes')
        self.assertEqual([], ask('/stacks')['stacks'])
        self.assertEqual({}, self.cloud.servers())
        self.assertEqual([], self.cloud.ports(network_id=self.wire_id))
        self.until(lambda: not self.bodies.machines(), 'a machine runs, and has no server')

    # ---- what there is ---------------------------------------------------------------

    def up(self, name):
        kiln(self.conf, 'up', str(self.folder / f'{name}.yaml'), '--yes')

    def scale(self, group='workers', *options, remove=None):
        """Remove the node of a number, or add one; note which there are to be."""
        numbers = self.numbers[group]
        if remove is None:
            self.last[group] += 1
            numbers.add(self.last[group])
        else:
            numbers.remove(remove)
            options = ('--remove', f'{group}-{remove}', *options)
        kiln(self.conf, 'cluster', 'scale', 'web', f'{group}={len(numbers)}', '--yes', *options)

    def at_rest(self):
        with contextlib.closing(open_store(f'sqlite:///{self.folder}/kiln.db')) as store:
            return not store.operations.open(store.clusters.get('web').id)

    def listed(self):
        """Return the status of each node of the Swarm by its name, as a manager has it."""
        for machine in self.bodies.machines().values():
            # A machine that boots has no engine, a worker knows of no nodes, and any can go.
            with contextlib.suppress(docker.errors.APIError):
                done = machine.exec_run(['docker', 'node', 'ls', '--format', '{{json .}}'])
                if done.exit_code == 0:
                    lines = map(json.loads, done.output.decode().splitlines())
                    return {one['Hostname']: one['Status'] for one in lines}
        return {}

    def until(self, so, told):
        end = time.monotonic() + WAIT_S
        while not so():
            self.assertIsNone(self.bodies.error)
            self.assertLess(time.monotonic(), end, told() if callable(told) else told)
            time.sleep(0.5)
