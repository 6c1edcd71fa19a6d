"""Nodes of Ironic as their operator sees them."""

import unittest

from kiln.compute_drivers.authoring.machine_pool import Standing
from kiln.compute_drivers.ironic.pool import machines, standing_of, way_back
from tests.unit.compute_drivers.ironic.test_translate import CLAIM, ID, NODE


def seen(**node):
    """Return a node that nobody has, with changes, as its operator sees it."""
    free = {**NODE, 'name': 'node-1', 'instance_uuid': None, 'provision_state': 'available'}
    (found,) = machines([{**free, 'resource_class': 'large', **node}], [CLAIM], 'rack')
    return found


class Standings(unittest.TestCase):
    def test_a_node_is_free_if_it_can_be_claimed(self):
        found = seen(traits=['CUSTOM_GPU'])
        self.assertEqual((Standing.FREE, None), (found.standing, found.reason))
        self.assertEqual(('large', 'CUSTOM_GPU'), found.flavors)
        self.assertEqual(('r1', ('192.0.2.7', '2001:db8::7')), (found.zone, found.addresses))

    def test_a_node_in_use_shows_its_amphora(self):
        found = seen(instance_uuid=ID, provision_state='active')
        self.assertEqual(
            (Standing.CLAIMED, ID, 'web-1', 'active'),
            (found.standing, found.amphora_id, found.amphora_name, found.phase),
        )

    def test_a_node_of_others_shows_no_amphora(self):
        found = seen(instance_uuid='of-nova', provision_state='active')
        self.assertEqual((Standing.CLAIMED, None), (found.standing, found.amphora_id))

    def test_a_node_whose_cleaning_failed_shows_why_whatever_its_maintenance(self):
        for maintenance in (False, True):
            found = seen(
                provision_state='clean failed', maintenance=maintenance, fault='clean failure',
                last_error='the agent timed out', maintenance_reason='Timeout',
            )  # fmt: skip
            self.assertEqual(Standing.UNWIPED, found.standing)
            self.assertEqual('the agent timed out', found.reason)

    def test_a_node_that_is_cleaned_is_not_free(self):
        for state in ('deleting', 'cleaning', 'clean wait'):
            self.assertIs(Standing.CLAIMED, standing_of({'provision_state': state}), state)

    def test_a_node_in_maintenance_shows_its_reason(self):
        found = seen(maintenance=True, maintenance_reason='new fans')
        self.assertEqual((Standing.MAINTENANCE, 'new fans'), (found.standing, found.reason))

    def test_a_node_that_was_never_provided_says_so(self):
        found = seen(provision_state='manageable')
        self.assertEqual(Standing.QUARANTINE, found.standing)
        self.assertEqual('it is manageable, and not available', found.reason)

    def test_nodes_are_listed_by_name(self):
        nodes = [{**NODE, 'name': name, 'uuid': f'u-{name}'} for name in ('b', None, 'a')]
        self.assertEqual(['a', 'b', 'u-None'], [one.name for one in machines(nodes, [], None)])


class WaysBack(unittest.TestCase):
    def test_a_node_comes_back_by_the_steps_of_its_state(self):
        for state, targets in (
            ('available', ()), ('clean failed', ('manage', 'provide')), ('error', ('deleted',)),
            ('manageable', ('provide',)),
        ):  # fmt: skip
            self.assertEqual(targets, way_back({'provision_state': state}))

    def test_a_node_in_use_or_at_work_is_left_alone(self):
        self.assertIsNone(way_back({'provision_state': 'active', 'instance_uuid': ID}))
        self.assertIsNone(way_back({'provision_state': 'cleaning'}))
