"""Tests of the codec: no value is lost, and nothing unknown is ignored."""

import dataclasses
import json
import math
import unittest
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kiln.clusters.models import Cause
from kiln.clusters.spec import (
    ClusterSpec,
    ClusterTemplate,
    Fallback,
    Health,
    MachineSpec,
    NodeGroupSpec,
    Place,
    Portion,
    Shape,
    Strategy,
    VictimRule,
    ZoneRule,
    Zones,
)
from kiln.db.tables.codec import CodecError, dumps, loads
from kiln.models import AmphoraType
from tests.unit.db import samples

words = st.text(max_size=8)
maybe = st.none() | words
several = st.lists(words, max_size=3).map(tuple)
counts = st.integers(min_value=0, max_value=10**6)
seconds = st.floats(min_value=0, allow_infinity=True, allow_nan=False)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)


def mapping(keys, values):
    return st.dictionaries(keys, values, max_size=3).map(MappingProxyType)


portions = st.builds(Portion, counts, st.booleans())
machines = st.builds(
    MachineSpec, compute_driver=maybe, server_type=st.none() | st.sampled_from(AmphoraType),
    image=maybe, flavor=maybe, keys=st.none() | several, networks=st.none() | several,
    sec_groups=st.none() | several, parameters=mapping(words, plain),
)  # fmt: skip
zones = st.builds(
    Zones, rule=st.sampled_from(ZoneRule), names=several, counts=mapping(words, counts)
)
shapes = st.builds(
    Shape, count=counts, flavors=mapping(words, counts), zones=zones,
    placements=mapping(st.builds(Place, maybe, maybe), counts),
)  # fmt: skip
groups = st.builds(
    NodeGroupSpec, name=words, shape=shapes, role=words, machine=machines, min_count=counts,
    max_count=st.none() | counts,
    strategy=st.builds(
        Strategy, max_surge=portions, max_unavailable=portions, batch=st.none() | counts,
        drain_timeout_s=st.none() | seconds,
    ),
    fallback=st.builds(Fallback, flavors=several, zones=several),
    health=st.builds(Health, startup_timeout_s=seconds, max_unhealthy=portions),
    deletion=st.lists(st.sampled_from(VictimRule), max_size=3).map(tuple),
)  # fmt: skip
specs = st.builds(
    ClusterSpec, name=words, template=maybe, coe=maybe, driver=maybe, machine=machines,
    groups=st.lists(groups, max_size=2).map(tuple), create_timeout_s=seconds,
)  # fmt: skip
templates = st.builds(
    ClusterTemplate, name=words, machine=machines, groups=st.lists(groups, max_size=1).map(tuple)
)


@dataclasses.dataclass(frozen=True)
class Bytes:
    value: bytes


@dataclasses.dataclass(frozen=True)
class Required:
    value: str
    other: str = 'default'


class Codec(unittest.TestCase):
    @given(specs | templates)
    def test_any_spec_is_decoded_unchanged(self, wanted):
        self.assertEqual(wanted, loads(type(wanted), dumps(wanted)))

    @given(plain)
    def test_plain_data_is_decoded_unchanged(self, data):
        self.assertEqual({'x': data}, loads(Mapping[str, Any], dumps({'x': data}, Mapping)))

    def test_a_cause_has_causes(self):
        self.assertEqual(samples.CAUSE, loads(Cause, dumps(samples.CAUSE)))

    def test_decoded_values_are_immutable(self):
        shape = loads(Shape, dumps(samples.MIXED[1].shape))
        with self.assertRaises(TypeError):
            shape.flavors['flavor_x'] = 0
        self.assertIsInstance(next(iter(shape.placements)), Place)

    def test_an_encoded_text_is_ascii(self):
        self.assertTrue(dumps(samples.CAUSE).isascii())

    def test_defaults_are_written_too(self):
        self.assertEqual({'amount': 3, 'percent': False}, json.loads(dumps(Portion(3))))

    def test_a_missing_field_gets_its_default(self):
        self.assertEqual(Required('x'), loads(Required, '{"value": "x"}'))
        with self.assertRaisesRegex(CodecError, 'Required is incomplete'):
            loads(Required, '{}')

    def test_a_field_of_a_later_version_is_refused(self):
        text = json.dumps({'value': 'x', 'zeal': 1, 'ardour': 2})
        with self.assertRaisesRegex(CodecError, 'Required has no ardour, zeal: a later version'):
            loads(Required, text)
        with self.assertRaisesRegex(CodecError, "'diagonal' is not a ZoneRule of this version"):
            loads(Zones, '{"rule": "diagonal"}')

    def test_a_value_of_another_type_is_refused(self):
        for kind, text in (
            (Portion, '{"amount": "3"}'), (Portion, '{"amount": true}'),
            (Portion, '{"amount": 1.5}'), (Portion, '[]'), (Portion, 'null'),
            (Required, '{"value": null}'),
            (Fallback, '{"zones": "az1"}'), (Zones, '{"counts": [["a", 1]]}'),
            (Shape, '{"count": 1, "placements": {"a": 1}}'),
            (Shape, '{"count": 1, "placements": [[1]]}'),
            (Shape, '{"count": 1, "placements": [{}]}'), (Portion, 'hunter2'), (Portion, ''),
        ):  # fmt: skip
            with self.subTest(text), self.assertRaises(CodecError) as caught:
                loads(kind, text)
            self.assertNotIn('hunter2', str(caught.exception))

    def test_a_value_that_json_does_not_have_is_refused(self):
        for value in (Bytes(b'x'), MachineSpec(parameters={'a': b'x'}),
                      MachineSpec(parameters={'a': {1: 2}}), MachineSpec(parameters={'a': {1, 2}}),
                      MachineSpec(image=7)):  # fmt: skip
            with self.subTest(value), self.assertRaises(CodecError):
                dumps(value)

    def test_an_undeclared_tuple_is_decoded_as_a_list(self):
        self.assertEqual({'a': [1, 2]}, loads(Mapping, dumps({'a': (1, 2)}, Mapping)))

    def test_infinity_is_a_valid_number(self):
        self.assertEqual(math.inf, loads(float, dumps(math.inf)))
