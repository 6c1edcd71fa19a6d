"""The facts that a command gets of its claim and its machine."""

import json
import unittest

from kiln.compute_drivers.appliance.claims.state_machine import Phase
from kiln.compute_drivers.appliance.inventory.machines import Verb
from kiln.compute_drivers.appliance.work.tasks import Timeouts, facts
from tests.unit.compute_drivers.appliance.samples import claim, machine


class Limits(unittest.TestCase):
    def test_each_kind_of_task_has_its_own_time(self):
        timeouts = Timeouts(
            claim_timeout_s=1.0, wipe_timeout_s=2.0, command_timeout_s=3.0, console_timeout_s=4.0,
            probe_timeout_s=5.0,
        )  # fmt: skip
        times = {verb: timeouts.of(verb) for verb in (*Verb, None)}
        self.assertEqual(
            {
                Verb.CLAIM: 1.0, Verb.REBUILD: 1.0, Verb.WIPE: 2.0, Verb.REBOOT: 3.0,
                Verb.CONSOLE: 4.0, None: 5.0,
            },
            times,
        )  # fmt: skip


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
