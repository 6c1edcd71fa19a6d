import dataclasses
import json
import shlex
import stat
import subprocess
import tarfile
import tempfile
import unittest
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.x509.oid import NameOID

from kiln.cluster_drivers.swarm_debian_v1 import api, leaving
from kiln.cluster_drivers.swarm_debian_v1.docker_context import write_context
from kiln.cluster_drivers.swarm_debian_v1.driver import Driver
from kiln.cluster_drivers.swarm_debian_v1.monitor import SwarmMonitor
from kiln.cluster_drivers.swarm_debian_v1.pki import Papers, identity
from kiln.cluster_drivers.swarm_debian_v1.scale import SwarmScaleManager
from kiln.cluster_drivers.values import Context, PlannedChange, PlannedGroup, ReadyState
from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.models import NodeState, OperationKind
from kiln.clusters.spec import NodeGroupSpec, Place, Portion, Shape, Strategy

from .case import SwarmCase, a_cluster, a_node
from .sim import task

DRIVER = Driver.open()


def context(*nodes):
    return Context(nodes=nodes, join_key=lambda: b'k' * 32)


class Bootstrap(unittest.TestCase):
    def given(self, node=None, **parameters):
        return DRIVER.bootstrap(context(), a_cluster(**parameters), node or a_node(1))

    def test_bootstrap_data_is_constant_within_an_attempt_and_new_for_the_next(self):
        self.assertEqual(self.given(), self.given())
        self.assertNotEqual(self.given().files, self.given(a_node(1, attempt=2)).files)

    def test_only_root_can_read_the_private_key_and_no_join_token_is_sent(self):
        given = self.given()
        secret = [file for file in given.files if b'PRIVATE KEY' in file.content]
        self.assertEqual([('/etc/kiln-swarm/authority.pem', 0o600, 'root')],
                         [(one.path, one.mode, one.owner) for one in secret])  # fmt: skip
        self.assertIsNone(given.join_token)
        self.assertNotIn(b'PRIVATE', given.user_data)
        self.assertNotIn('PRIVATE', repr(given))

    def test_daemon_json_requires_tls_and_has_labels_mirrors_and_log_options(self):
        files = {file.path: file.content for file in self.given(
            registry_mirrors=['https://mirror'], log_max_files=5).files}  # fmt: skip
        told = json.loads(files['/etc/docker/daemon.json'])
        self.assertTrue(told['tlsverify'])
        self.assertEqual(['kiln.node=n-1', 'kiln.cluster=c-1'], told['labels'])
        self.assertEqual(['https://mirror'], told['registry-mirrors'])
        self.assertEqual('5', told['log-opts']['max-file'])

    def test_user_data_is_a_cloud_config_for_any_value(self):
        given = self.given(labels={'a': 'it\'s "b"\n'}, install=False)
        told = yaml.safe_load(given.user_data)
        self.assertEqual([['/etc/kiln-swarm/start']], told['runcmd'])
        self.assertIn('[ false != true ]', told['write_files'][1]['content'])

    def test_an_engine_listens_on_both_families_and_on_ipv4_where_the_kernel_has_no_ipv6(self):
        unit = yaml.safe_load(self.given().user_data)['write_files'][0]['content']
        # As systemd reads it: a line continues after a backslash, and $$ is a dollar.
        whole = unit.replace('\\\n', ' ').replace('$$', '$')
        (line,) = (one for one in whole.splitlines() if one.startswith('ExecStart=/'))
        shell, flag, script = shlex.split(line.removeprefix('ExecStart='))
        script = script.replace('exec /usr/sbin/dockerd', 'echo')
        for kernel, listens in (('/', '[::]'), ('/no/such/file', '0.0.0.0')):
            with self.subTest(listens):
                asked = script.replace('/proc/net/if_inet6', kernel)
                said = subprocess.run([shell, flag, asked], capture_output=True, text=True)
                self.assertEqual(f'-H fd:// -H tcp://{listens}:2376\n', said.stdout)


class PlanValidation(unittest.TestCase):
    def problems(self, cluster, *groups, nodes=(), kind=OperationKind.UPDATE):
        plan = PlannedChange(kind=kind, groups=groups)
        return [one.message for one in DRIVER.validate(context(*nodes), cluster, plan)]

    def test_a_swarm_needs_an_odd_number_of_managers(self):
        for count, said in ((0, 'needs managers'), (1, ''), (2, 'odd'), (3, ''), (4, 'odd')):
            found = self.problems(a_cluster(managers=count))
            self.assertEqual(bool(said), bool(found), count)
            self.assertIn(said, ''.join(found))

    def test_a_strategy_that_loses_the_majority_is_refused(self):
        def of(missing):
            strategy = Strategy(max_unavailable=Portion(missing))
            group = NodeGroupSpec(
                name='managers', role='control', shape=Shape(count=3), strategy=strategy
            )
            cluster = a_cluster()
            return dataclasses.replace(
                cluster, spec=dataclasses.replace(cluster.spec, groups=(group,))
            )

        self.assertEqual([], self.problems(of(1)))
        self.assertIn('majority', self.problems(of(2))[0])

    def test_the_only_manager_cannot_be_reset_but_workers_can(self):
        manager, worker = a_node(1, 'managers'), a_node(2)
        reset = PlannedGroup(name='managers', reset=(manager,))
        said = self.problems(a_cluster(managers=1), reset, kind=OperationKind.REBOOT)
        self.assertIn('for a reboot', said[0])
        self.assertEqual([], self.problems(a_cluster(managers=3), reset))
        self.assertEqual([], self.problems(a_cluster(1), PlannedGroup(name='w', reset=(worker,))))

    def test_working_managers_cannot_be_removed_while_the_others_are_dead(self):
        nodes = [a_node(n, 'managers', state=NodeState.READY) for n in (1, 2, 3)]
        dead = [dataclasses.replace(one, state=NodeState.UNHEALTHY) for one in nodes[1:]]
        going = PlannedGroup(name='managers', removed=(nodes[0],), added=(Place(),))
        self.assertEqual([], self.problems(a_cluster(), going, nodes=nodes))
        self.assertIn('quorum', self.problems(a_cluster(), going, nodes=[nodes[0], *dead])[0])
        healing = PlannedGroup(name='managers', removed=tuple(dead), added=(Place(), Place()))
        self.assertEqual([], self.problems(a_cluster(), healing, nodes=[nodes[0], *dead]))


class UnreachableEngines(unittest.TestCase):
    """No engine answers at the addresses of these nodes."""

    def test_a_node_whose_engine_does_not_answer_is_not_ready(self):
        node = a_node(1, 'managers', address='127.0.0.1')
        found = DRIVER.is_ready(context(node), a_cluster(), node)
        self.assertIs(ReadyState.NOT_YET, found.state)
        self.assertIn('does not answer', found.reason)

    def test_a_node_is_not_drained_while_no_manager_answers(self):
        node = a_node(1, 'managers', address='127.0.0.1')
        found = DRIVER.drain(context(node), a_cluster(), node)
        self.assertFalse(found.done)
        self.assertIn('No manager', found.reason)

    def test_a_cleanup_that_reaches_no_manager_is_retryable(self):
        node = a_node(1, 'managers', address='127.0.0.1')
        with self.assertRaises(ClusterDriverError) as caught:
            DRIVER.post_update_cluster(context(node), a_cluster(), None)
        self.assertTrue(caught.exception.retryable)


class OnSimulatedEngines(SwarmCase):
    def test_the_monitor_counts_nodes_and_tasks_and_adds_up_reservations(self):
        _, workers = self.whole(1, 1)
        peer_id = self.sim.of(workers[0]).peer_id
        self.sim.tasks['web'] = [task(peer_id, cpus=1), task(peer_id, 'shutdown')]
        found = SwarmMonitor(None, self.cluster, self.view()).pull()
        self.assertEqual(
            {'nodes': 2, 'nodes_ready': 2, 'managers_reachable': 1, 'services': 1,
             'tasks_running': 1, 'cpu_reserved': 0.25, 'memory_reserved': 0.05},
            found,
        )  # fmt: skip

    def test_001_22_failed_workers_are_removed_first_then_the_least_loaded(self):
        _, workers = self.whole(1, 3)
        busy, idle, dead = (self.nodes[one.id] for one in workers)
        dead = self.change(dead, state=NodeState.FAILED)
        self.sim.tasks['web'] = [task(self.sim.of(busy).peer_id)]
        scale = SwarmScaleManager(None, self.cluster, self.view())
        self.assertEqual([dead, idle, busy], scale.order(None, [busy, idle, dead]))
        self.assertEqual((dead, idle), scale.victims(None, [busy, idle, dead], 2))

    def test_001_22_the_leader_is_the_last_manager_to_be_removed(self):
        managers, _ = self.whole(3, 0)
        nodes = [self.nodes[one.id] for one in managers]
        scale = SwarmScaleManager(None, self.cluster, self.view())
        self.assertEqual([nodes[1], nodes[2], nodes[0]], scale.order(None, nodes))

    def test_nodes_of_a_swarm_that_does_not_answer_keep_their_order(self):
        node = self.born(1)
        scale = SwarmScaleManager(None, self.cluster, self.view())
        self.assertEqual([node], scale.order(None, [node]))

    def test_the_entry_of_a_deleted_node_stays_until_its_engine_is_down(self):
        _, workers = self.whole()
        gone = self.nodes.pop(workers[0].id)
        with self.view().manager() as manager:
            left = leaving.reap(self.view(), manager, manager.peers())
            self.assertEqual([gone.id], [one.node_id for one in left])
            self.sim.destroy(gone)
            self.assertEqual([], leaving.reap(self.view(), manager, manager.peers()))
        self.assertNotIn(gone.id, self.listed())

    def test_an_entry_that_cannot_be_removed_is_returned_until_it_can(self):
        managers, _ = self.whole()
        self.gone(managers[2])
        remove = self.sim._remove
        self.sim._remove = self.sim._refuse
        with self.view().manager() as manager:
            left = leaving.reap(self.view(), manager, manager.peers())
            self.assertEqual(['n-3'], [one.node_id for one in left])
            self.sim._remove = remove
            self.assertEqual([], leaving.reap(self.view(), manager, manager.peers()))


class DockerContexts(unittest.TestCase):
    def test_only_the_owner_can_read_a_docker_context_and_it_is_complete(self):
        with tempfile.TemporaryDirectory() as folder:
            where = Path(folder, 'new')
            for _ in range(2):
                file = write_context(
                    where, 'web', 'tcp://10.0.0.1:2376', b'ca', Papers(b'c', b'k')
                )
            self.assertEqual(0o700, stat.S_IMODE(where.stat().st_mode))
            self.assertEqual(
                {0o600}, {stat.S_IMODE(one.stat().st_mode) for one in where.iterdir()}
            )
            with tarfile.open(file) as tar:
                self.assertEqual(
                    {
                        'meta.json',
                        'tls/docker/ca.pem',
                        'tls/docker/cert.pem',
                        'tls/docker/key.pem',
                    },
                    set(tar.getnames()),
                )
                said = json.load(tar.extractfile('meta.json'))
        self.assertEqual('tcp://10.0.0.1:2376', said['Endpoints']['docker']['Host'])

    def test_001_5_the_verb_context_writes_a_docker_context_of_a_manager(self):
        node = a_node(1, 'managers')
        with tempfile.TemporaryDirectory() as folder:
            said = api.docker_context(
                context(node, a_node(2)), a_cluster(), {'to': folder, 'name': 'me', 'days': 3}
            )
            self.assertEqual('tcp://10.0.0.1:2376', said['endpoint'])
            self.assertTrue(Path(folder, 'key.pem').exists())
            trusted = x509.load_pem_x509_certificates(Path(folder, 'ca.pem').read_bytes())
            names = [one.subject.get_attributes_for_oid(NameOID.COMMON_NAME) for one in trusted]
        # Not the authority of the cluster, which signs for each node.
        self.assertEqual([identity(node)], [one.value for (one,) in names])
        with self.assertRaises(ClusterDriverError):
            api.docker_context(context(), a_cluster(), {'to': folder, 'name': 'me', 'days': 3})

    def test_an_ipv6_address_is_in_brackets_before_a_port(self):
        node = a_node(1, 'managers', address='fd00::1', state=NodeState.READY)
        outputs = DRIVER.template_definition.get_outputs(context(node), a_cluster())
        self.assertEqual(['tcp://[fd00::1]:2376'], outputs['api'])
        with tempfile.TemporaryDirectory() as folder:
            said = api.docker_context(
                context(node), a_cluster(), {'to': folder, 'name': 'me', 'days': 3}
            )
        self.assertEqual('tcp://[fd00::1]:2376', said['endpoint'])

    def test_a_recovery_from_an_unknown_manager_is_refused(self):
        with self.assertRaisesRegex(ClusterDriverError, 'has no manager nobody'):
            api.recover(context(), a_cluster(), {'node': 'nobody'})
