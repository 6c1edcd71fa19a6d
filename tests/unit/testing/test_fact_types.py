"""Facts of values and the types that the contract declares."""

import dataclasses
import unittest
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kiln.models import Address, Amphora, Changes, ComputeStatus, DriverHealth, State
from kiln.testing.conformance.fact_types import fits, wrong_facts

AMPHORA = Amphora(
    id='a', name='web', state=State.ACTIVE, addresses=(Address(address='192.0.2.1'),),
    metadata=MappingProxyType({'purpose': 'kit'}), created_at=1.5, served=True,
)  # fmt: skip


class FactTypes(unittest.TestCase):
    def test_right_values_have_no_wrong_facts(self):
        status = AMPHORA.status(7)
        for value in (AMPHORA, status, Changes(statuses=(status,)), DriverHealth(healthy=True)):
            self.assertEqual({}, wrong_facts(value))

    def test_each_fact_of_another_type_is_named(self):
        for name, wrong in {
            'id': 7, 'state': 'active', 'addresses': ['192.0.2.1'], 'metadata': {'a': 1},
            'created_at': '2026', 'served': 1, 'task_state': False, 'raw': None,
        }.items():  # fmt: skip
            changed = dataclasses.replace(AMPHORA, **{name: wrong})
            self.assertEqual({name: wrong}, wrong_facts(changed))

    def test_an_element_of_another_type_is_wrong(self):
        self.assertEqual({'statuses'}, set(wrong_facts(Changes(statuses=(AMPHORA,)))))
        status = ComputeStatus(amphora_id='a', state=State.ACTIVE)
        self.assertFalse(fits((status, None), tuple[ComputeStatus, ...]))

    def test_a_truth_value_is_not_a_number_of_seconds(self):
        self.assertFalse(fits(True, float))
        self.assertTrue(fits(7, float))

    def test_anything_is_allowed_where_the_contract_says_so(self):
        self.assertTrue(fits({'any': object()}, Mapping[str, Any]))
        self.assertFalse(fits({7: 'any'}, Mapping[str, Any]))
