"""What callers see of a claim, and the operator of a machine."""

import dataclasses
import unittest

from kiln.compute_drivers.appliance import view
from kiln.compute_drivers.appliance.claims.matching import Record
from kiln.compute_drivers.appliance.claims.state_machine import Phase
from kiln.compute_drivers.appliance.inventory.machines import Inventory
from kiln.compute_drivers.appliance.inventory.reading import parse
from kiln.compute_drivers.authoring.machine_pool import EnrolledMachine, Standing
from kiln.models import Address, Amphora, AmphoraType, State
from tests.unit.compute_drivers.appliance.samples import claim, machine


class AsAmphora(unittest.TestCase):
    def test_it_has_every_fact_of_its_claim_and_of_its_machine(self):
        given = {
            'flavor': 'big', 'image_id': 'i1', 'zone': 'z1', 'metadata': {'a': 'b'},
            'created_at': 3.0, 'fault': 'no power', 'epoch': 2,
        }  # fmt: skip
        shown = view.amphora(claim(Phase.REBOOTING, **given), machine(), enrolled=True)
        raw = {'machine': 'm1', 'phase': 'rebooting', 'since': 0.0, 'failures': 0}
        self.assertEqual(
            Amphora(
                id='a1',
                name='one',
                state=State.ACTIVE,
                amphora_type=AmphoraType.BARE_METAL,
                build_key='k1',
                owner='us',
                flavor='big',
                image_id='i1',
                availability_zone='z1',
                addresses=(Address(address='192.0.2.1'),),
                metadata={'a': 'b'},
                created_at=3.0,
                fault='no power',
                task_state='rebooting',
                served=True,
                raw=raw | {'probed_at': None, 'enrolled': True},
            ),
            shown,
        )

    def test_it_has_served_once_it_was_up(self):
        for phase, epoch, served in (
            (Phase.CLAIMING, 1, False), (Phase.STARTING, 1, False), (Phase.FAILED, 1, False),
            (Phase.UP, 1, True), (Phase.DOWN, 1, True), (Phase.REBUILDING, 2, True),
        ):  # fmt: skip
            shown = view.amphora(claim(phase, epoch=epoch), machine(), enrolled=True)
            self.assertIs(served, shown.served, phase)

    def test_only_one_that_never_came_up_has_failed_as_a_build(self):
        for phase, epoch, code in (
            (Phase.FAILED, 1, 'build_error'), (Phase.FAILED, 2, None), (Phase.UP, 1, None),
        ):  # fmt: skip
            shown = view.amphora(claim(phase, epoch=epoch), machine(), enrolled=True)
            self.assertEqual(code, shown.fault_code, (phase, epoch))

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
    def test_a_claimed_machine_is_shown_with_all_that_is_known_of_it(self):
        one = claim(zone='z1', amphora_type=AmphoraType.HW_LOAD_BALANCER)
        known = machine('flavors = ["big"]\nzone = "z2"\n')
        claimed = EnrolledMachine(
            name='m1',
            standing=Standing.CLAIMED,
            amphora_type=AmphoraType.HW_LOAD_BALANCER,
            addresses=('192.0.2.1',),
            flavors=('big',),
            zone='z2',
            amphora_id='a1',
            amphora_name='one',
            phase='up',
            reason=None,
            until=None,
            enrolled=True,
        )
        self.assertEqual(claimed, self.seen(one, Inventory({'m1': known})))
        gone = {
            'addresses': (), 'flavors': (), 'zone': 'z1', 'enrolled': False,
            'reason': 'it is no longer in the inventory',
        }  # fmt: skip
        self.assertEqual(dataclasses.replace(claimed, **gone), self.seen(one, Inventory({})))
        free = {
            'standing': Standing.FREE, 'amphora_type': AmphoraType.BARE_METAL,
            'amphora_id': None, 'amphora_name': None, 'phase': None,
        }  # fmt: skip
        records = {'m1': Record(reason='it was slow', until=4.0)}
        (seen,) = view.pool(Inventory({'m1': known}), [], records, 5.0)
        self.assertEqual(dataclasses.replace(claimed, **free), seen)

    def test_what_keeps_a_machine_out_of_use_is_shown(self):
        for text, record, standing, reason, until in (
            ('', Record(maintenance='fans', reason='x', until=9.0), 'maintenance', 'fans', None),
            ('maintenance = "fans"', Record(maintenance='x'), 'maintenance', 'fans', None),
            ('', Record(failures=1, reason='no power', until=9.0), 'quarantine', 'no power', 9.0),
        ):
            (seen,) = view.pool(Inventory({'m1': machine(text)}), [], {'m1': record}, 5.0)
            self.assertEqual((standing, reason, until), (seen.standing, seen.reason, seen.until))

    def test_a_claimed_machine_in_maintenance_has_the_reason_of_that(self):
        one = claim(Phase.UNWIPED, fault='no power', due=60.0)
        (seen,) = view.pool(Inventory({}), [one], {'m1': Record(maintenance='fans')}, 5.0)
        self.assertEqual(
            (Standing.MAINTENANCE, 'fans; it is no longer in the inventory', None),
            (seen.standing, seen.reason, seen.until),
        )

    def test_machines_are_shown_by_name(self):
        pool = view.pool(Inventory({'m1': machine()}), [claim(machine='a1')], {}, 5.0)
        self.assertEqual(['a1', 'm1'], [one.name for one in pool])

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
