"""The facts that a command gets of its claim and its machine."""

import json
import unittest

from kiln.compute_drivers.appliance.claims.state_machine import Phase
from kiln.compute_drivers.appliance.work.tasks import facts
from tests.unit.compute_drivers.appliance.samples import claim, machine


class Facts(unittest.TestCase):
    def test_a_command_gets_the_facts_of_its_claim_and_its_machine(self):
        one = claim(
            Phase.UNWIPED, id='a7', name='web', build_key='k7', owner='them', flavor='small',
            image_id='v1', hard=True, failures=2,
        )  # fmt: skip
        got = facts(one, machine('zone = "az1"\nlabels = {rack = "r12"}\n'))
        self.assertEqual({'rack': 'r12'}, json.loads(got.pop('KILN_LABELS')))
        self.assertEqual(
            {
                'KILN_MACHINE': 'm1', 'KILN_ADDRESS': '192.0.2.1', 'KILN_ADDRESSES': '192.0.2.1',
                'KILN_TYPE': 'bare_metal', 'KILN_ZONE': 'az1', 'KILN_AMPHORA_ID': 'a7',
                'KILN_AMPHORA_NAME': 'web', 'KILN_BUILD_KEY': 'k7', 'KILN_OWNER': 'them',
                'KILN_FLAVOR': 'small', 'KILN_IMAGE': 'v1', 'KILN_HARD': '1',
                'KILN_FAILURES': '2',
            },
            got,
        )  # fmt: skip

    def test_a_fact_that_is_unknown_is_not_set(self):
        unknown = {'KILN_FLAVOR', 'KILN_IMAGE', 'KILN_ZONE'}
        self.assertEqual(set(), unknown & facts(claim(), machine()).keys())
