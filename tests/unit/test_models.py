"""The values that cross kiln's interfaces."""

import copy
import dataclasses
import pickle
import unittest

from kiln.models import Amphora, BuildRequest, ComputeStatus, State

VALUES = (
    Amphora(id='id-1', name='web-1', state=State.ACTIVE),
    ComputeStatus(amphora_id='id-1', state=State.ACTIVE),
    BuildRequest(build_key='key-1', name='web-1', owner='site'),
)


class ValuesTest(unittest.TestCase):
    def test_a_value_that_holds_a_frozen_mapping_survives_pickling(self):
        for value in VALUES:
            with self.subTest(type(value).__name__):
                self.assertEqual(pickle.loads(pickle.dumps(value)), value)

    def test_a_value_that_holds_a_frozen_mapping_can_be_copied_and_taken_apart(self):
        for value in VALUES:
            with self.subTest(type(value).__name__):
                self.assertEqual(copy.deepcopy(value), value)
                self.assertEqual(type(value)(**dataclasses.asdict(value)), value)
