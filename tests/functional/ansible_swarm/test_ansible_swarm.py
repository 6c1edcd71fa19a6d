"""A real Swarm by real Ansible, on machines that kiln builds on a real engine.

The machines are containers with systemd, cloud-init, sshd and an engine. Ansible comes from PyPI,
into an environment of its own, as it would at a site. With KILN_FULL the Swarm has three managers
and three workers; KILN_PROGRAM_KILLS is how often a conductor and a playbook are killed (1).
"""

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

import docker

from kiln.db.store import open_store
from kiln.programs.detached import Runs, RunState
from tests.functional.engines import engine, make_network
from tests.functional.swarm.site import ROOT, WAIT_S, conduct, kiln

DRIVER = ROOT / 'doc/examples/cluster_drivers/ansible_swarm_v1'
ANSIBLE = 'ansible-core==2.19.*'
FULL = bool(os.environ.get('KILN_FULL'))
MANAGERS, WORKERS = (3, 3) if FULL else (1, 2)
KILLS = int(os.environ.get('KILN_PROGRAM_KILLS', '1'))
CONF = """
[compute]
default_backend = containers
owner = {owner}
[compute:containers]
driver = docker
url = {url}
privileged = true
networks = {owner}
[db]
url = sqlite:///{folder}/kiln.db
[secrets]
directory = {folder}/secrets
[clusters]
driver_path = {folder}/drivers
run_path = {folder}/runs
lease = 2
quiesce = 0
"""
PAGE = """
cluster: web
driver: ansible_swarm_v1
server_type: container
image: kiln/swarm-node:latest
credentials: swarm-key
nodegroups:
  - {{name: managers, role: control, count: {managers}}}
  - {{name: workers, count: {workers}}}
"""


def run(*words):
    subprocess.run(words, check=True, capture_output=True)


class AnsibleSwarm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.bare = docker.DockerClient(base_url=engine().url, timeout=WAIT_S)
        cls.addClassCleanup(cls.bare.close)
        cls.owner = f't{uuid.uuid4().hex[:8]}'
        made = make_network(cls.bare.api, cls.owner)
        cls.addClassCleanup(cls.bare.api.remove_network, made)
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.conf = cls.folder / 'kiln.conf'
        cls.conf.write_text(CONF.format(owner=cls.owner, url=engine().url, folder=cls.folder))
        cls.addClassCleanup(cls.remove_what_is_left)
        secrets = cls.folder / 'secrets'
        secrets.mkdir(mode=0o700)
        run('ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', secrets / 'swarm-key')
        (secrets / 'swarm-key.pub').unlink()
        run(sys.executable, '-m', 'venv', cls.folder / 'ansible')
        run(cls.folder / 'ansible/bin/pip', 'install', '-q', ANSIBLE)
        cls.driver = cls.folder / 'drivers/ansible_swarm_v1'
        shutil.copytree(DRIVER, cls.driver)
        settings = {
            'kiln': [sys.executable, '-m', 'kiln.cli', '--config-file', str(cls.conf)],
            'ansible_playbook': str(cls.folder / 'ansible/bin/ansible-playbook'),
            'user': 'root',
        }
        (cls.driver / 'settings.json').write_text(json.dumps(settings))
        kiln(cls.conf, 'image', 'build', 'swarm-node', '--max-age', '30d', '--into', 'containers')
        cls.page = cls.folder / 'web.yaml'
        cls.page.write_text(PAGE.format(managers=MANAGERS, workers=WORKERS))

    @classmethod
    def remove_what_is_left(cls):
        for folder in cls.folder.glob('runs/*/'):
            if (last := Runs(folder.parent, folder.name).latest()) is not None:
                last.kill()
        for one in cls.machines():
            one.remove(force=True, v=True)

    def test_playbooks_build_scale_and_heal_a_swarm(self):
        # One cluster for all steps, because a cluster for each would take minutes.
        self.numbers = {
            'managers': {*range(1, MANAGERS + 1)}, 'workers': {*range(1, WORKERS + 1)}
        }  # fmt: skip
        # Numbers are given for ever.
        self.last = {'managers': MANAGERS, 'workers': WORKERS}
        self._what_is_wrong_is_refused_before_anything_is_built()
        self._check_mode_tells_what_would_be_built()
        kiln(self.conf, 'up', str(self.page), '--yes')
        self._the_swarm_has_the_machines_of_the_cluster()
        self._a_playbook_that_runs_again_changes_nothing()
        self._a_worker_in_the_middle_goes()
        self._a_machine_that_somebody_deleted_is_replaced()
        self._the_last_manager_is_not_removed()
        self._what_is_killed_loses_no_node(self.kill_kiln)
        self._what_is_killed_loses_no_node(self.kill_the_playbook)
        self._no_secret_is_told()
        kiln(self.conf, 'cluster', 'delete', 'web', '--yes')
        self.assertEqual([], self.machines())

    # ---- steps -----------------------------------------------------------------------

    def _what_is_wrong_is_refused_before_anything_is_built(self):
        wrong = self.folder / 'wrong.yaml'
        wrong.write_text(PAGE.format(managers=2, workers=0))
        with self.assertRaisesRegex(AssertionError, 'a Swarm has 1, 3, 5 or 7 managers'):
            kiln(self.conf, 'up', str(wrong), '--yes')
        self.assertEqual([], self.machines())

    def _check_mode_tells_what_would_be_built(self):
        # On a busy machine it can take longer than users wait for a plan.
        for _ in range(10):
            said = kiln(self.conf, 'plan', str(self.page))
            if 'has no answer within' not in said:
                break
        self.assertIn(f'web-workers-{WORKERS} is built', said)
        self.assertEqual([], self.machines())

    def _the_swarm_has_the_machines_of_the_cluster(self):
        expected = {
            f'web-{group}-{number}' for group, found in self.numbers.items() for number in found
        }
        self.assertEqual(dict.fromkeys(expected, 'Ready'), self.listed())
        self.assertEqual(expected, self.hosts().keys())
        shown = json.loads(kiln(self.conf, 'cluster', 'show', 'web', '-f', 'json'))['outputs']
        for group, found in self.numbers.items():
            self.assertEqual({f'web-{group}-{number}' for number in found}, shown[group].keys())

    def _a_playbook_that_runs_again_changes_nothing(self):
        before = self.ids()
        home = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        key = (self.folder / 'secrets/swarm-key').read_text()
        (home / 'secrets').write_text(json.dumps({'credentials': key, 'groups': {}}))
        again = subprocess.run(
            ['sh', '-c', 'exec "$0" update 3<"$1"', self.driver / 'program', home / 'secrets'],
            stdin=self.enterContext((self.last_run().folder / 'document.json').open()),
            env={**os.environ, 'HOME': str(home)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        self.assertEqual('', again.stderr)
        result = json.loads(again.stdout.splitlines()[-1])
        self.assertEqual((0, 'Nothing was to be done.'), (again.returncode, result.get('message')))
        self.assertEqual(before, self.ids())

    def _a_worker_in_the_middle_goes(self):
        self.scale(remove=sorted(self.numbers['workers'])[(WORKERS - 1) // 2])
        self._the_swarm_has_the_machines_of_the_cluster()
        self.scale()
        self._the_swarm_has_the_machines_of_the_cluster()

    def _a_machine_that_somebody_deleted_is_replaced(self):
        victim = min(self.numbers['workers'])
        self.hosts()[f'web-workers-{victim}'].remove(force=True, v=True)
        self.scale(remove=victim)
        self.scale()
        self._the_swarm_has_the_machines_of_the_cluster()

    def _the_last_manager_is_not_removed(self):
        if MANAGERS == 1:
            with self.assertRaisesRegex(AssertionError, 'no manager would stay'):
                kiln(self.conf, 'cluster', 'scale', 'web', 'managers=1', '--yes',
                     '--remove', 'web-managers-1')  # fmt: skip

    def _what_is_killed_loses_no_node(self, kill):
        dice = random.Random(KILLS)
        for _ in range(KILLS):
            for remove in (min(self.numbers['workers']), None):
                conductor = conduct(self.conf)
                try:
                    self.scale('workers', '--no-wait', remove=remove)
                    self.until(lambda: self.at_work() is not None, 'no playbook runs')
                    # The moment of a kill; the end is the same for each.
                    time.sleep(dice.uniform(0, 8))
                    conductor = kill(conductor)
                    self.until(self.at_rest, 'the operation does not end')
                finally:
                    conductor.terminate()
                    conductor.wait(WAIT_S)
                self._the_swarm_has_the_machines_of_the_cluster()

    def _no_secret_is_told(self):
        private = (self.folder / 'secrets/swarm-key').read_text().splitlines()[1]
        told = [path.read_bytes() for path in self.folder.glob('*.log')]
        told += [path.read_bytes() for path in self.folder.glob('kiln.db*')]
        for text in told:
            self.assertNotIn(private.encode(), text)
            self.assertNotIn(b'SWMTKN-', text)

    # ---- what is done ----------------------------------------------------------------

    def kill_kiln(self, conductor):
        conductor.send_signal(signal.SIGKILL)
        conductor.wait()
        return conduct(self.conf)

    def kill_the_playbook(self, conductor):
        if (found := self.at_work()) is not None:
            found.kill()
        return conductor

    def scale(self, group='workers', *options, remove=None):
        """Remove the node of a number, or add one; note which there are to be."""
        numbers = self.numbers[group]
        if remove is None:
            self.last[group] += 1
            numbers.add(self.last[group])
        else:
            numbers.remove(remove)
            options = ('--remove', f'web-{group}-{remove}', *options)
        kiln(self.conf, 'cluster', 'scale', 'web', f'{group}={len(numbers)}', '--yes', *options)

    # ---- what there is ---------------------------------------------------------------

    @classmethod
    def machines(cls):
        mine = {'label': f'kiln.owner={cls.owner}'}
        # The list must not fail if a container is removed meanwhile.
        return cls.bare.containers.list(all=True, filters=mine, ignore_removed=True)

    def hosts(self):
        """Return the machines by the names of their nodes."""
        return {one.attrs['Config']['Hostname']: one for one in self.machines()}

    def swarm(self):
        """Return what a manager says of each node, by its name."""
        for machine in self.machines():
            done = machine.exec_run(['docker', 'node', 'ls', '--format', '{{json .}}'])
            if done.exit_code == 0:
                lines = map(json.loads, done.output.decode().splitlines())
                return {one['Hostname']: one for one in lines}
        return {}

    def listed(self):
        return {name: one['Status'] for name, one in self.swarm().items()}

    def ids(self):
        return {name: one['ID'] for name, one in self.swarm().items()}

    def last_run(self):
        with open_store(f'sqlite:///{self.folder}/kiln.db') as store:
            return Runs(self.folder / 'runs', store.clusters.get('web').id).latest()

    def at_work(self):
        """Return the run of the program that goes on now; None if no program is at work."""
        last = self.last_run()
        return last if last is not None and last.state is RunState.RUNNING else None

    def at_rest(self):
        with open_store(f'sqlite:///{self.folder}/kiln.db') as store:
            return not store.operations.open(store.clusters.get('web').id)

    def until(self, so, told):
        end = time.monotonic() + WAIT_S
        while not so():
            self.assertLess(time.monotonic(), end, told)
            time.sleep(0.5)
