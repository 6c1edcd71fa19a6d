"""One cluster of containers on a real engine and machines on a simulated cloud."""

import collections
import dataclasses

from kiln.cluster_service import requests
from kiln.clusters.models import NodeState
from kiln.compute.backends import stack_settings
from kiln.compute.facade import Compute
from kiln.compute_drivers.docker.driver import DockerDriver
from kiln.testing.proxy import Answer
from tests.functional.docker.site import PLAIN, EngineCase
from tests.functional.real_time import PATIENCE_S, RealTime
from tests.unit.cluster_service.site import ConductedCase, declared
from tests.unit.engine.site import SETTINGS

PAGE = """
cluster: mixed
coe: nodes
nodegroups:
  - name: front
    count: FRONT
    image: debian-13
    compute_driver: noop
    flavor: small
  - name: work
    count: WORK
    image: IMAGE
    compute_driver: docker
    server_type: container
    flavor: tiny
    health: {unhealthy_after: 1}
"""


class Mixed(RealTime, EngineCase, ConductedCase):
    longest_s = PATIENCE_S
    settings = dataclasses.replace(SETTINGS, watch_s=0.5)

    def open_backend(self, name):
        if name != 'docker':
            return super().open_backend(name)
        options = self.options(networks=[self.network], circuit_open=1.0)
        driver = DockerDriver.open(options, name='docker', owner=self.owner)
        return Compute(driver, settings=stack_settings(options))

    def page(self, front=2, work=3):
        page = PAGE.replace('IMAGE', PLAIN)
        return page.replace('FRONT', str(front)).replace('WORK', str(work))

    def nodes(self, group=None):
        nodes = self.clusters.show('mixed').nodes
        return [node for node in nodes if group in (None, node.group)]

    def running(self):
        return self.containers(**{'kiln.meta.cluster': 'mixed'})

    def test_each_group_is_built_scaled_and_removed_on_its_backend(self):
        self.up(self.page())
        self.assertEqual((2, 3), (len(self.machines()), len(self.containers())))
        backends = collections.Counter((node.group, node.backend) for node in self.nodes())
        self.assertEqual({('front', 'noop'): 2, ('work', 'docker'): 3}, backends)
        self.up(self.page(front=3, work=2))
        self.assertEqual((3, 2), (len(self.machines()), len(self.containers())))
        self.done(requests.Delete(cluster='mixed'))
        self.assertEqual((0, 0), (len(self.machines()), len(self.containers())))

    def test_a_dead_container_is_replaced_and_no_other_node_changes(self):
        self.up(self.page())
        before = {node.id: node.compute_id for node in self.nodes()}
        victim = self.nodes('work')[1]
        self.bare.remove_container(victim.compute_id, force=True, v=True)
        self.until(
            lambda: (
                len([n for n in self.nodes('work') if n.state is NodeState.READY]) == 3
                and len(self.containers()) == 3
            )
        )
        after = {node.id: node.compute_id for node in self.nodes()}
        kept = {one: where for one, where in before.items() if one != victim.id}
        self.assertEqual(kept, {one: after.get(one) for one in kept})
        self.done(requests.Delete(cluster='mixed'))

    def test_a_failing_backend_does_not_delay_the_other(self):
        proposal = self.clusters.plan(declared(self.page()))
        self.proxy.fault(Answer(500))
        operation = self.clusters.apply(proposal)
        # The nodes of the other backend are ready while containers cannot be made.
        self.until(lambda: [n.state for n in self.nodes('front')] == [NodeState.READY] * 2)
        self.assertFalse(self.clusters.operation(operation.id).state.ended)
        self.assertEqual([], self.containers())
        self.heal()
        ended = self.ended(operation, timeout_s=PATIENCE_S)
        self.assertEqual('succeeded', ended.state)
        self.assertEqual(3, len(self.containers()))
        self.done(requests.Delete(cluster='mixed'))
