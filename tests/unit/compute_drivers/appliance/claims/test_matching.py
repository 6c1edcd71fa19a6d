"""Choice of a machine: it fits, is least recently used, and is deterministic."""

import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.compute_drivers.appliance.claims.matching import Record, choose
from kiln.compute_drivers.appliance.inventory.reading import parse
from kiln.exceptions import InsufficientCapacity, InvalidBuildRequest, Outcome
from kiln.models import AmphoraType
from tests.unit.compute_drivers.appliance.samples import pool, request

MIXED = """\
[defaults]
wipe = []
type = "bare_metal"
[machines.lb]
type = "hw_load_balancer"
addresses = ["192.0.2.9"]
[machines.small-1]
addresses = ["192.0.2.1"]
flavors = ["small"]
zone = "az1"
images = ["v1"]
[machines.small-2]
addresses = ["192.0.2.2"]
flavors = ["small"]
zone = "az2"
claim = ["/bin/claim"]
[machines.large]
addresses = ["192.0.2.3"]
flavors = ["large"]
zone = "az1"
"""


class Matching(unittest.TestCase):
    def chosen(self, text=MIXED, *, records=None, taken=(), now=0.0, **given):
        return choose(request(**given), parse(text, 'i'), records or {}, taken, now).name

    def refused(self, error=InsufficientCapacity, **given):
        with self.assertRaises(error) as caught:
            self.chosen(build_key='Key', **given)
        self.assertIs(Outcome.NOT_APPLIED, caught.exception.outcome)
        self.assertEqual('Key', caught.exception.build_key)
        return str(caught.exception)

    def test_the_chosen_machine_has_the_requested_type_flavor_zone_and_image(self):
        self.assertEqual('lb', self.chosen(amphora_type=AmphoraType.HW_LOAD_BALANCER))
        self.assertEqual('large', self.chosen(amphora_flavor='large'))
        self.assertEqual('small-2', self.chosen(amphora_flavor='small', availability_zone='az2'))
        self.assertEqual(
            'small-1', self.chosen(amphora_flavor='small', availability_zone='az1', image_id='v1')
        )
        self.assertEqual('small-2', self.chosen(amphora_flavor='small', image_id='v2'))

    def test_a_machine_without_a_list_accepts_anything(self):
        self.assertEqual('large', self.chosen(amphora_flavor='large', image_id='anything'))
        self.assertEqual('lb', self.chosen(amphora_type='hw_load_balancer', amphora_flavor='x'))

    def test_user_data_needs_a_machine_with_a_claim_command(self):
        for brought in ({'user_data': '#!'}, {'keys': ['k']}, {'config_drive_files': {'/a': 'b'}}):
            self.assertEqual('small-2', self.chosen(**brought))
        self.assertIn(
            'without a claim command', self.refused(user_data='#!', amphora_flavor='large')
        )

    def test_the_least_recently_used_machine_is_chosen_and_ties_go_by_name(self):
        records = {'m1': Record(used=7), 'm2': Record(used=3), 'm3': Record(used=5)}
        self.assertEqual('m2', self.chosen(pool(3), records=records))
        self.assertEqual('m4', self.chosen(pool(4), records=records))
        self.assertEqual('m1', self.chosen(pool(4)))

    def test_claimed_quarantined_and_maintained_machines_are_skipped(self):
        records = {'m2': Record(until=10.0), 'm3': Record(maintenance='a fan')}
        self.assertEqual('m4', self.chosen(pool(4), records=records, taken=['m1']))
        self.assertEqual('m2', self.chosen(pool(4), records=records, taken=['m1'], now=10.0))
        text = pool(1, each='maintenance = "a fan"\n')
        self.assertIn('1 in maintenance (m1)', self.refused(text=text))

    def test_a_refusal_names_the_request_and_why_each_machine_does_not_fit(self):
        self.assertEqual(
            "Cannot build 'web': none of 4 machines is free with type bare_metal, flavor small, "
            'zone az1: 1 claimed (small-1); 1 in another zone (small-2); 1 of another flavor '
            '(large); 1 of another type (lb).',
            self.refused(
                name='web', amphora_flavor='small', availability_zone='az1', taken=['small-1']
            ),
        )

    def test_the_most_frequent_reason_of_a_refusal_comes_first(self):
        said = self.refused(
            amphora_flavor='small', availability_zone='az9', taken=['small-1'],
            text=pool(3, each='flavors = ["small"]\nzone = "az9"\nmaintenance = "fans"\n')
            + '[machines.small-1]\naddresses = ["192.0.2.9"]\nflavors = ["small"]\nzone = "az9"\n',
        )  # fmt: skip
        self.assertIn('3 in maintenance (m1, m2, m3); 1 claimed (small-1)', said)

    def test_a_claimed_machine_that_does_not_fit_is_not_one_to_wait_for(self):
        said = self.refused(amphora_flavor='small', taken=['small-1', 'small-2', 'large', 'lb'])
        self.assertIn('2 claimed (small-1, small-2); 1 of another flavor (large)', said)
        self.assertIn('1 of another type (lb)', said)

    def test_a_machine_that_is_claimed_and_in_maintenance_is_told_as_claimed(self):
        records = {'m1': Record(maintenance='a fan')}
        said = self.refused(text=pool(1), records=records, taken=['m1'])
        self.assertIn(': 1 claimed (m1).', said)

    def test_a_refusal_is_short_for_any_number_of_machines(self):
        text = pool(99)
        said = self.refused(text=text, taken=[f'm{number}' for number in range(1, 100)])
        self.assertIn('99 claimed (m1, m10, m11, ...)', said)
        self.assertLess(len(said), 200)

    def test_a_refusal_names_the_image(self):
        said = self.refused(image_id='v1', taken=['small-1', 'small-2', 'large'])
        self.assertIn('with type bare_metal, image v1: 3 claimed', said)

    def test_an_empty_inventory_is_reported(self):
        self.assertIn('the inventory is empty', self.refused(text=''))

    def test_a_property_that_no_machine_has_is_an_invalid_request(self):
        text = pool(2, each='flavors = ["small"]\n')
        for wrong in ({'amphora_flavor': 'huge'}, {'availability_zone': 'az9'}):
            self.assertIn('no machine', self.refused(InvalidBuildRequest, text=text, **wrong))
        only = pool(1, each='images = ["v1"]\n')
        self.assertIn("'v2'", self.refused(InvalidBuildRequest, text=only, image_id='v2'))

    @given(
        st.dictionaries(st.integers(1, 9), st.integers(0, 5), max_size=9),
        st.sets(st.integers(1, 9), max_size=8),
    )
    def test_the_choice_is_deterministic_and_never_a_claimed_machine(self, used, taken):
        records = {f'm{number}': Record(used=count) for number, count in used.items()}
        names = [f'm{number}' for number in taken]
        chosen = self.chosen(pool(9), records=records, taken=names)
        self.assertNotIn(chosen, names)
        self.assertEqual(chosen, self.chosen(pool(9), records=records, taken=names))
        free = {f'm{number}' for number in range(1, 10)} - set(names)
        least = min(records.get(name, Record()).used for name in free)
        self.assertEqual(least, records.get(chosen, Record()).used)
