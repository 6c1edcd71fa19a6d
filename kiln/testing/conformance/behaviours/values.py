"""Behaviours of returned values: frozen, plain data, owned by the caller."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pickle
from collections.abc import Mapping
from typing import Any

from kiln.compute_drivers import validation
from kiln.models import Address, Amphora, Changes, ComputeStatus, DriverHealth
from kiln.testing.conformance.fact_types import wrong_facts
from kiln.testing.conformance.fixture import ConformanceFixture, takes
from kiln.testing.conformance.wording import shown

_MARK = 'was here'


class Values(ConformanceFixture, contract=(Amphora, ComputeStatus)):
    """Values."""

    def test_an_instance_is_an_amphora_of_the_contract(self) -> None:
        self.assertIs(type(self.described()), Amphora)

    def test_a_status_is_a_value_of_the_contract(self) -> None:
        self.assertIs(type(self.driver.status(self.build())), ComputeStatus)

    def test_changes_are_values_of_the_contract(self) -> None:
        self.build()
        changes = self.driver.changes()
        self.assertIs(type(changes), Changes)
        self.assertEqual({type(status) for status in changes.statuses}, {ComputeStatus})

    def test_a_list_consists_of_values_of_the_contract(self) -> None:
        self.build()
        self.assertEqual({type(one) for one in self.driver.list_amphorae()}, {Amphora})

    def test_each_fact_has_the_type_of_the_contract(self) -> None:
        key = self.new_key()
        amphora_id = self.build_active(build_key=key, name=key)
        listed = [one for one in self.driver.list_amphorae() if one.id == amphora_id]
        statuses = self.driver.statuses([amphora_id]).values()
        changes = self.driver.changes()
        values = [*self.both(amphora_id), self.driver.get_amphora(key), self.driver.check()]
        for value in (*values, *listed, *statuses, changes, *changes.statuses):
            for fact, seen in wrong_facts(value).items():
                self.broken(
                    f'{type(value).__name__}.{fact} has the type of the contract', shown(seen)
                )

    def test_values_cannot_be_changed(self) -> None:
        amphora_id = self.build()
        for value in (self.driver.get_amphora(amphora_id=amphora_id), self.driver.changes()):
            with self.assertRaises(dataclasses.FrozenInstanceError):
                setattr(value, dataclasses.fields(value)[0].name, None)

    def test_a_returned_id_can_be_passed_back(self) -> None:
        amphora_id = self.build()
        self.assertEqual(validation.check_text('amphora_id', amphora_id), amphora_id)

    def test_raw_answers_are_plain_data(self) -> None:
        for value in self.both(self.build()):
            plain(value.raw)

    @takes(metadata={'purpose': 'kit'})
    def test_all_facts_of_an_instance_but_the_raw_ones_are_plain_data(self) -> None:
        for value in self.both(self.build(metadata={'purpose': 'kit'})):
            facts = plain(dataclasses.replace(value, raw={}))
            self.assertEqual(json.loads(json.dumps(facts)), facts)

    @takes(metadata={'purpose': 'kit'})
    def test_values_can_be_sent_to_another_process(self) -> None:
        for value in self.both(self.build(metadata={'purpose': 'kit'})):
            self.assertEqual(pickle.loads(pickle.dumps(value)), value)  # noqa: S301  # made here

    @takes(metadata={'purpose': 'kit'})
    def test_changing_a_returned_value_changes_nothing_in_the_backend(self) -> None:
        amphora_id = self.build_active(metadata={'purpose': 'kit'})
        answer = self.driver.get_amphora(amphora_id=amphora_id)
        metadata = dict(answer.metadata)
        for mapping in (answer.metadata, answer.raw):
            spoil(mapping)
        again = self.driver.get_amphora(amphora_id=amphora_id)
        self.assertEqual(dict(again.metadata), metadata, 'metadata as before')
        # Its facts can be others by now, such as the time of a probe.
        self.assertFalse(is_spoilt(again.raw), 'raw has what was written into an earlier one')

    @takes(metadata={'purpose': 'kit'})
    def test_changing_an_argument_later_changes_nothing_in_the_backend(self) -> None:
        metadata = {'purpose': 'kit'}
        amphora_id = self.build(metadata=metadata)
        metadata['purpose'] = 'spoilt'
        kept = self.driver.get_amphora(amphora_id=amphora_id).metadata
        self.assertNotEqual(kept.get('purpose'), 'spoilt')

    def test_addresses_are_values_of_the_contract(self) -> None:
        addresses = self.driver.get_amphora(amphora_id=self.build_active()).addresses
        self.assertIsInstance(addresses, tuple)
        types = {type(address) for address in addresses}
        self.assertEqual(types - {Address}, set(), 'types other than Address')

    def test_a_health_check_reports_the_backend_healthy(self) -> None:
        health = self.driver.check()
        self.assertIs(type(health), DriverHealth)
        self.assertTrue(health.healthy, 'healthy')
        self.assertGreaterEqual(health.latency_s, 0.0, 'latency_s')

    def test_a_health_check_changes_nothing(self) -> None:
        built = self.build_active()
        before = {one.id for one in self.driver.list_amphorae()}
        self.driver.check()
        self.assertEqual({one.id for one in self.driver.list_amphorae()} - before, set())
        self.assert_exists(built)


def plain(value: Any) -> Any:
    """Return a value as JSON types; fail if it is not plain data."""
    if dataclasses.is_dataclass(value):
        return {one.name: plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        if wrong := [key for key in value if not isinstance(key, str)]:
            raise TypeError(f'The key {wrong[0]!r} is not a string.')
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, frozenset | set):
        return sorted(plain(one) for one in value)
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f'{value!r} is a {type(value).__name__}, which is not plain data.')


def spoil(mapping: Mapping[str, Any]) -> None:
    """Change a mapping and its nested values wherever they are mutable."""
    with contextlib.suppress(TypeError, AttributeError):
        mapping['kit'] = _MARK  # type: ignore[index]
    for value in mapping.values():
        if isinstance(value, dict):
            spoil(value)
        if isinstance(value, list):
            value.append(_MARK)


def is_spoilt(value: Any) -> bool:
    """Return True if a value has something that spoil() wrote."""
    if isinstance(value, Mapping):
        return value.get('kit') == _MARK or any(map(is_spoilt, value.values()))
    return isinstance(value, list) and _MARK in value
