"""What the conformance kit cannot cause in Ironic: failed deploys, failed cleaning, the pool."""

import dataclasses

from kiln.compute_drivers.authoring.machine_pool import Standing
from kiln.exceptions import InstanceStateConflict, InsufficientCapacity, ResourceNotFoundError
from kiln.models import State
from tests.functional.ironic.one_driver import OneDriver
from tests.functional.ironic.site import IronicCase


class Driver(OneDriver, IronicCase):
    def machine(self, name):
        (found,) = [one for one in self.driver.machines() if one.name == name]
        return found

    def agent_answers(self, node):
        """Report as the agent of a node, from an address where none answers Ironic."""
        config = self.nodes.ask('GET', f'/lookup?node_uuid={node}')['config']
        self.nodes.ask(
            'POST', f'/heartbeat/{node}',
            json={
                'callback_url': 'https://127.0.0.1:9',
                'agent_version': '11.0.0',
                'agent_token': config['agent_token'],
            },
        )  # fmt: skip

    def test_a_failed_deploy_shows_its_reason_and_the_node_can_be_given_back(self):
        built = self.build(amphora_flavor=self.waiting)
        self.becomes(built, State.BUILDING)
        node = self.node_of(built)
        self.nodes.until(lambda: self.driver.status(built).task_state == 'wait call-back')
        self.agent_answers(node)
        self.becomes(built, State.ERROR)
        found = self.driver.get_amphora(amphora_id=built)
        self.assertIn('Connection to agent failed', found.fault)
        self.assertEqual((False, 'build_error'), (found.served, found.fault_code))
        (listed,) = self.driver.list_amphorae()
        self.assertEqual(found.fault, listed.fault)
        self.driver.delete(built)
        self.nodes.until(lambda: not self.claims())

    def test_a_class_whose_nodes_are_all_in_use_is_a_lack_of_capacity(self):
        self.nodes.until_free(self.waiting)
        for _ in range(2):
            self.build(amphora_flavor=self.waiting)
        with self.assertRaisesRegex(InsufficientCapacity, 'no available nodes match'):
            self.build(amphora_flavor=self.waiting)
        self.assertEqual(2, len(self.claims()))

    def test_the_pool_shows_each_node_and_the_amphora_on_it(self):
        built = self.build(name='web-1')
        self.becomes(built)
        (mine,) = [one for one in self.driver.machines() if one.amphora_id == built]
        self.assertEqual(
            (Standing.CLAIMED, 'web-1', 'active', (self.flavor,)),
            (mine.standing, mine.amphora_name, mine.phase, mine.flavors),
        )

    def test_a_node_is_put_into_maintenance_and_out_of_it(self):
        name = f'{self.flavor}-0'
        free = self.machine(name)
        self.addCleanup(self.driver.maintain, name, None)
        for _ in range(2):
            self.driver.maintain(name, 'new fans')
        kept = self.machine(name)
        self.assertEqual((Standing.MAINTENANCE, 'new fans'), (kept.standing, kept.reason))
        self.driver.maintain(name, None)
        self.assertEqual(free, dataclasses.replace(self.machine(name), phase=free.phase))

    def test_a_node_in_use_is_not_released(self):
        built = self.build()
        name = next(one.name for one in self.driver.machines() if one.amphora_id == built)
        with self.assertRaisesRegex(InstanceStateConflict, f'in use as {built}'):
            self.driver.release(name)

    def test_a_node_that_does_not_exist_is_not_found(self):
        for name in ('no-such-node', 'no/such node'):
            for act in (self.driver.release, lambda one: self.driver.maintain(one, 'x')):
                with self.assertRaises(ResourceNotFoundError) as caught:
                    act(name)
                self.assertEqual(name, caught.exception.resource_id)
