"""Stacks of the real Heat that exist, and become clusters: ``kiln cluster adopt-stack``."""

import dataclasses
import json
import subprocess
import time
import uuid

from kiln.cluster_drivers.heat.names import owner_of
from kiln.cluster_file.reading import read
from kiln.cluster_service.requests import AdoptExisting, Declare, Delete
from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.models import OperationState
from tests.functional.heat import killing, real_kills
from tests.functional.heat.bench import ask, auth, remove, servers
from tests.unit.test_layering import ROOT

MAGNUM = ROOT / 'doc/examples/cluster_drivers/magnum_on_heat_v1'
#: As clients of Heat call the files of a template.
PLACE = 'file:///usr/lib/magnum/templates'
FILE = """\
cluster: shop
driver: magnum_on_heat_v1
image: tiny
flavor: tiny
networks: [net1]
nodegroups:
  - {name: master, role: control, count: 1}
  - {name: worker, count: WORKERS}
"""
WAIT_S = 240.0


class StackCase(real_kills.OnRealHeat, killing.Conducted):
    """A stack that Magnum could have made, with two resource groups."""

    more = ''

    def setUp(self):
        super().setUp()
        with self.config.open('a') as config:
            config.write(f'driver_path = {MAGNUM.parent}\n{self.more}')
        self.site.close()
        self.site = self.open_site()
        self.stack = self.made(f'shop-{uuid.uuid4().hex[:8]}')

    def open_site(self):
        site = killing.configured_site(killing.kiln_conf.load([str(self.config)]))
        self.addCleanup(site.close)
        return site

    def made(self, name):
        """Return a stack that somebody has made with a client of Heat."""
        body = {'stack_name': name, **self.body(str)}
        id_ = ask('/stacks', 'POST', json=body)['stack']['id']
        stack = {'stack_name': name, 'id': id_}
        self.addCleanup(remove, stack)
        self.until(lambda: self.now(stack)['stack_status'] == 'CREATE_COMPLETE', 'a stack')
        return stack

    def body(self, changed):
        """Return what the stack is made of; a function changes the text of each template."""
        templates = MAGNUM / 'templates'
        text = (templates / 'kubecluster.yaml').read_text()
        self.assertIn('kubenode.yaml', text)
        nested = f'{PLACE}/kubenode.yaml'
        return {
            'template': changed(text.replace('kubenode.yaml', nested)),
            'files': {nested: changed((templates / 'kubenode.yaml').read_text())},
            'parameters': {
                'number_of_masters': 1, 'number_of_minions': 2, 'master_flavor': 'tiny',
                'minion_flavor': 'tiny', 'server_image': 'tiny', 'fixed_network': 'net1',
            },
            'timeout_mins': 5,
        }  # fmt: skip

    def now(self, stack):
        return ask(f'/stacks/{stack["stack_name"]}/{stack["id"]}')['stack']

    def until(self, true, what):
        end = time.monotonic() + WAIT_S
        while not true():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.2)

    def machines(self):
        """Return what must not change of each server of the stack, by its id."""
        return self.facts(*(one['physical_resource_id'] for one in servers(self.stack)))

    def facts(self, *there):
        """Return the same of some servers, as far as they exist."""
        found = ask('/servers/detail', service='compute')['servers']
        return {
            one['id']: (
                one['created'], one['status'], one['OS-EXT-STS:power_state'], one['name'],
                one['addresses'],
            )
            for one in found
            if one['id'] in there
        }  # fmt: skip


class Adoption(StackCase):
    """The stack goes on through Heat."""

    def spec(self, workers=2):
        (spec,) = read(FILE.replace('WORKERS', str(workers))).clusters
        return spec

    def plan(self, workers=2):
        request = AdoptExisting(spec=self.spec(workers), existing=self.stack['stack_name'])
        return self.site.clusters.plan(request)

    def done(self, operation):
        self.until(lambda: self.found(operation).state.ended, operation)
        ended = self.found(operation)
        self.assertIs(OperationState.SUCCEEDED, ended.state, ended)

    def test_a_stack_that_exists_becomes_a_cluster_and_no_server_is_touched(self):
        before = self.machines()
        self.assertEqual(3, len(before))
        proposal = self.plan()
        lost = [line for line in proposal.notices if 'lost' in line]
        self.assertEqual([], lost, proposal.notices)
        self.start()
        self.done(self.site.clusters.apply(proposal))
        now = self.now(self.stack)
        cluster = self.site.store.clusters.get('shop')
        self.assertEqual('UPDATE_COMPLETE', now['stack_status'])
        self.assertEqual(f'cluster {cluster.id} of site {killing.SITE}', owner_of(now['tags']))
        self.assertEqual(before, self.machines())
        self.assertEqual(2, len(cluster.outputs['worker_addresses']))
        self._is_refused_now()
        self.done(self.submit(Declare(spec=self.spec(3))))
        self.assertEqual(4, len(self.machines()))
        self.assertLessEqual(before.items(), self.machines().items())
        self.done(self.submit(Delete(cluster='shop')))
        self.assertTrue(
            self.now(self.stack)['stack_status'] == 'DELETE_COMPLETE', self.now(self.stack)
        )

    def _is_refused_now(self):
        """Fail unless no other cluster can have the stack."""
        spec = dataclasses.replace(self.spec(), name='other')
        with self.assertRaisesRegex(ClusterDriverError, 'it is that of cluster'):
            self.site.clusters.plan(AdoptExisting(spec=spec, existing=self.stack['id']))

    def test_the_plan_names_what_would_be_lost_and_a_part_of_a_stack_is_refused(self):
        before = self.machines()
        notices = self.plan(workers=1).notices
        self.assertTrue(any('Heat would delete nodes' in line for line in notices), notices)
        self.assertTrue(any('number_of_minions (2 -> 1)' in line for line in notices), notices)
        path = f'/stacks/{self.stack["stack_name"]}/{self.stack["id"]}/resources'
        (group,) = [
            one['physical_resource_id']
            for one in ask(path)['resources']
            if one['resource_name'] == 'kube_minions'
        ]
        with self.assertRaisesRegex(ClusterDriverError, 'a part of another stack'):
            self.site.clusters.plan(AdoptExisting(spec=self.spec(), existing=group))
        self.assertEqual(before, self.machines())
        self.assertEqual('CREATE_COMPLETE', self.now(self.stack)['stack_status'])

    def test_a_conductor_that_is_killed_anywhere_leaves_one_stack_that_becomes_the_cluster(self):
        before = self.machines()
        operation = self.site.clusters.apply(self.plan())
        for _ in range(3):
            self.start()
            pause = time.monotonic() + 1.5
            self.until(lambda end=pause: time.monotonic() > end, 'a moment')
            self.kill()
        self.start()
        self.done(operation)
        self.assertEqual(before, self.machines())


class Servers(StackCase):
    """Its servers become nodes on Nova, and Heat is left alone."""

    def setUp(self):
        lines = ''.join(f'{name} = {value}\n' for name, value in auth().items())
        self.more = f'[compute:nova]\nvalid_interfaces = public\n{lines}'
        super().setUp()
        self.config.write_text(
            self.config.read_text().replace('default_backend = noop', 'default_backend = nova')
        )

    def kiln(self, *words):
        """Return what ``kiln`` prints."""
        done = subprocess.run(
            self.command(*words), cwd=ROOT, capture_output=True, text=True, check=False
        )
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        self.told = done.stderr
        return done.stdout

    def test_the_servers_of_a_stack_become_nodes_and_none_is_touched(self):
        name, before = self.stack['stack_name'], self.machines()
        file = self.folder / 'shop.yaml'
        file.write_text(self.kiln('cluster', 'adopt-stack', name))
        (spec,) = read(file.read_text()).clusters
        self.assertEqual(
            {'kube-masters': 1, 'kube-minions': 2},
            {group.name: group.shape.count for group in spec.groups},
        )
        plan = self.kiln('cluster', 'adopt-stack', name, str(file), '--plan')
        self.assertIn('kube-minions: =2 that exist', plan)
        self.assertNotIn('note:', plan)
        self.assertEqual(before, self.machines())
        self.kiln('cluster', 'adopt-stack', name, str(file), '--yes')
        self.assertIn(f'kiln cluster forget-stack {spec.name} {name}', self.told)
        self.assertEqual(before, self.machines())
        nodes = json.loads(self.kiln('node', 'list', spec.name, '-f', 'json'))
        self.assertEqual(set(before), {one['compute_id'] for one in nodes})
        self.assertEqual({'ready'}, {one['state'] for one in nodes})
        self.assertIn('nothing to do', self.kiln('up', str(file)))
        self.assertEqual('CREATE_COMPLETE', self.now(self.stack)['stack_status'])
        self.kiln('cluster', 'forget-stack', spec.name, name)
        self.assertEqual('DELETE_COMPLETE', self.now(self.stack)['stack_status'])
        self.assertEqual(before, self.facts(*before))
        self.kiln('cluster', 'check', spec.name)
        self.kiln('cluster', 'delete', spec.name, '--yes')
        self.assertEqual({}, self.facts(*before))
