"""A real Swarm whose nodes are servers of the real Nova, during changes and failures.

Nova, Neutron, Glance and Keystone are real, and so are the systemd, the cloud-init and the
engines of the machines. Only the hypervisor is simulated: see bodies.py. With KILN_FULL the
Swarm has three managers and three workers, and more changes and failures are tested.
"""

import json

from tests.functional.swarm.site import WAIT_S, conduct, kiln
from tests.functional.swarm_nova.site import FULL, NovaSwarmSite


class SwarmOnNova(NovaSwarmSite):
    def test_the_cluster_file_of_containers_builds_scales_and_heals_servers(self):
        # One cluster for all steps, because a cluster for each would take minutes.
        self.assert_agreed()
        self._every_node_is_as_wanted()
        self._a_worker_in_the_middle_goes()
        self._a_server_is_replaced_after(self.cloud.delete_server)
        if FULL:
            self._a_worker_boots_again_and_is_the_same_node()
            self._a_server_is_replaced_after(self.cloud.stop_server)
        self._nothing_is_left_of_a_cluster_that_is_deleted()

    def workers_there(self):
        return sorted(name for name, one in self.nodes().items() if one.group == 'workers')

    def _every_node_is_as_wanted(self):
        servers = self.cloud.servers()
        for node in self.nodes().values():
            server = servers[node.compute_id]
            addresses = {one['addr'] for one in server['addresses'][self.owner]}
            said = json.loads(self.asked('node', 'inspect', node.name))[0]
            self.assertEqual(2, len(addresses), 'one of each kind')
            self.assertIn(node.address, addresses)
            self.assertEqual(node.address, said['Status']['Addr'])
            labels = said['Spec']['Labels']
            self.assertEqual((node.id, node.group), (labels['kiln.node'], labels['kiln.group']))
            self.assertEqual(node.place.zone, labels.get('kiln.zone'))
            if node.place.zone:
                self.assertEqual(node.place.zone, server['OS-EXT-AZ:availability_zone'])

    def _a_worker_in_the_middle_goes(self):
        victim = self.workers_there()[(self.workers - 1) // 2]
        kiln(self.conf, 'node', 'remove', 'web', victim, '--yes')
        self.assertNotIn(victim, self.nodes())
        self.assert_agreed(workers=self.workers - 1)

    def _a_worker_boots_again_and_is_the_same_node(self):
        before, (worker, *_) = self.nodes(), self.workers_there()
        booted = self._booted(worker)
        kiln(self.conf, 'node', 'reboot', 'web', worker, '--yes')
        self.assertNotEqual(booted, self._booted(worker))
        self.assertEqual(before.keys(), self.nodes().keys())
        self.assert_agreed(workers=self.workers - 1)

    def _booted(self, name):
        container = self.container_of(self.nodes()[name])
        return container.attrs['State']['StartedAt']

    def _a_server_is_replaced_after(self, what_somebody_does):
        victim, *_ = self.workers_there()
        conductor = conduct(self.conf)
        try:
            what_somebody_does(self.nodes()[victim].compute_id)
            self.until(lambda: victim not in self.nodes() and self._whole(), 'no other came')
        finally:
            conductor.terminate()
            conductor.wait(WAIT_S)
        self.assert_agreed(workers=self.workers - 1)

    def _whole(self):
        return len(self.nodes()) == self.managers + self.workers - 1 and self.at_rest()

    def _nothing_is_left_of_a_cluster_that_is_deleted(self):
        kiln(self.conf, 'cluster', 'delete', 'web', '--yes')
        self.assertEqual({}, self.cloud.servers())
        self.assertEqual([], self.cloud.ports(network_id=self.wire.id))
        self.until(lambda: not self.containers(), 'a machine runs, and has no server')
        self.assertEqual([], self.bare.volumes.list(filters={'dangling': True}))
