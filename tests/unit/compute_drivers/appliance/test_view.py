"""What callers see of a claim, and the operator of a machine."""

import unittest

from kiln.compute_drivers.appliance import view
from kiln.compute_drivers.appliance.claims.state_machine import Phase
from kiln.compute_drivers.appliance.inventory.machines import Inventory
from kiln.compute_drivers.appliance.inventory.reading import parse
from kiln.compute_drivers.authoring.machine_pool import Standing
from tests.unit.compute_drivers.appliance.samples import claim, machine


class AsAmphora(unittest.TestCase):
    def test_the_addresses_are_in_the_order_of_the_inventory(self):
        inventory = '[machines.m1]\ntype = "bare_metal"\nwipe = []\naddresses = ["{}", "{}"]\n'
        for order in (('192.0.2.1', '192.0.2.2'), ('192.0.2.2', '192.0.2.1')):
            one = parse(inventory.format(*order), 'i').machines['m1']
            shown = view.amphora(claim(), one, enrolled=True)
            self.assertEqual(order, tuple(address.address for address in shown.addresses))

    def test_its_raw_facts_are_those_of_the_claim(self):
        down = claim(Phase.DOWN, since=7.0, failures=2, probed_at=9.0)
        self.assertEqual(
            {
                'machine': 'm1', 'phase': 'down', 'since': 7.0, 'failures': 2, 'probed_at': 9.0,
                'enrolled': False,
            },
            view.amphora(down, machine(), enrolled=False).raw,
        )  # fmt: skip


class ForTheOperator(unittest.TestCase):
    def seen(self, one, inventory):
        (seen,) = view.pool(inventory, [one], {}, 5.0)
        return seen

    def test_a_failed_wipe_is_shown_with_its_reason_and_its_next_time(self):
        unwiped = claim(Phase.UNWIPED, fault='no power', due=60.0)
        seen = self.seen(unwiped, Inventory({'m1': machine()}))
        self.assertEqual(
            (Standing.UNWIPED, 'no power', 60.0), (seen.standing, seen.reason, seen.until)
        )

    def test_the_next_probe_of_a_machine_is_not_the_end_of_its_claim(self):
        self.assertIsNone(self.seen(claim(due=60.0), Inventory({'m1': machine()})).until)

    def test_the_fault_of_a_machine_comes_before_its_absence_from_the_inventory(self):
        seen = self.seen(claim(Phase.UNWIPED, fault='no power', due=60.0), Inventory({}))
        self.assertEqual('no power; it is no longer in the inventory', seen.reason)
