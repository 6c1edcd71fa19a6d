"""Values of kiln's interfaces."""

import copy
import dataclasses
import pickle
import unittest

from kiln.models import Address, Amphora, BuildRequest, ComputeStatus, State

VALUES = (
    Amphora(id='id-1', name='web-1', state=State.ACTIVE),
    ComputeStatus(amphora_id='id-1', state=State.ACTIVE),
    BuildRequest(build_key='key-1', name='web-1', owner='site'),
)


class Reached(unittest.TestCase):
    def at(self, *addresses):
        found = tuple(Address(address=text, mac=mac) for text, mac in addresses)
        return Amphora(id='id-1', name='web-1', state=State.ACTIVE, addresses=found).address

    def test_the_address_is_that_of_the_first_port_and_prefers_ipv4(self):
        self.assertIsNone(self.at())
        self.assertEqual('10.0.0.2', self.at(('10.0.0.2', 'a'), ('10.0.0.3', 'b')))
        self.assertEqual('10.0.0.2', self.at(('fd00::2', 'a'), ('10.0.0.2', 'a')))
        self.assertEqual('fd00::2', self.at(('fd00::2', 'a'), ('10.0.0.3', 'b')))
        self.assertEqual('fd00::2', self.at(('fd00::2', None)))


class ValuesTest(unittest.TestCase):
    def test_a_value_with_a_frozen_mapping_survives_pickling(self):
        for value in VALUES:
            with self.subTest(type(value).__name__):
                self.assertEqual(pickle.loads(pickle.dumps(value)), value)

    def test_a_value_with_a_frozen_mapping_can_be_copied_and_converted_to_a_dict(self):
        for value in VALUES:
            with self.subTest(type(value).__name__):
                self.assertEqual(copy.deepcopy(value), value)
                self.assertEqual(type(value)(**dataclasses.asdict(value)), value)
