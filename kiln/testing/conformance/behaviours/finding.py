"""Behaviours of lookups of one instance, by name, id or build key."""

from __future__ import annotations

from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.exceptions import (
    AmbiguousInstanceError,
    BuildConflict,
    InstanceNotFoundError,
    InvalidRequest,
)
from kiln.models import Amphora
from kiln.testing.conformance.fixture import ConformanceFixture


class Finding(
    ConformanceFixture,
    contract=(AmphoraComputeDriver.get_amphora, AmphoraComputeDriver.find_build),
):
    """Finding."""

    def test_an_instance_is_found_by_its_id(self) -> None:
        amphora_id = self.build()
        self.assertEqual(self.driver.get_amphora(amphora_id=amphora_id).id, amphora_id)

    def test_an_instance_is_found_by_its_name(self) -> None:
        name = self.new_key()
        self.build()
        amphora_id = self.build(name=name)
        self.assertEqual(self.driver.get_amphora(name).id, amphora_id)

    def test_an_instance_is_found_by_name_and_id_together(self) -> None:
        name = self.new_key()
        amphora_id = self.build(name=name)
        self.assertEqual(self.driver.get_amphora(name, amphora_id).id, amphora_id)

    def test_a_name_that_does_not_belong_to_the_id_is_not_found(self) -> None:
        name = self.new_key()
        self.build(name=name)
        with self.assertRaises(InstanceNotFoundError):
            self.driver.get_amphora(name, self.build())

    def test_an_unknown_name_is_not_found(self) -> None:
        self.build()
        with self.assertRaises(InstanceNotFoundError):
            self.driver.get_amphora(self.new_key())

    def test_a_part_of_a_name_is_not_found(self) -> None:
        name = self.new_key()
        self.build(name=name)
        with self.assertRaises(InstanceNotFoundError):
            self.driver.get_amphora(name[:-1])

    def test_names_that_differ_only_in_capitals_are_different(self) -> None:
        key = self.new_key()
        small, capital = f'{key}-name', f'{key}-Name'
        first = self.build(name=small)
        with self.assertRaises(InstanceNotFoundError):
            self.driver.get_amphora(capital)
        try:
            second = self.build(name=capital)
        except BuildConflict:
            # A backend with unique names can refuse a name of another case.
            return
        self.assertEqual(self.driver.get_amphora(small).id, first)
        self.assertEqual(self.driver.get_amphora(capital).id, second)

    def test_an_unknown_id_is_not_found(self) -> None:
        unknown = self.unknown_id()
        with self.assertRaises(InstanceNotFoundError) as caught:
            self.driver.get_amphora(amphora_id=unknown)
        self.assertEqual(caught.exception.amphora_id, unknown, 'amphora_id of the error')

    def test_a_name_that_several_instances_have_is_ambiguous(self) -> None:
        name = self.new_key()
        twins = [self.build(name=name)]
        try:
            twins.append(self.build(name=name))
        except BuildConflict:
            # A backend with unique names never has an ambiguous name.
            self.assertEqual(self.driver.get_amphora(name).id, twins[0])
            return
        with self.assertRaises(AmbiguousInstanceError) as caught:
            self.driver.get_amphora(name)
        for amphora_id in twins:
            self.assertIn(amphora_id, str(caught.exception), 'the text of the error')

    def test_a_lookup_without_criteria_is_refused(self) -> None:
        with self.assertRaises(InvalidRequest):
            self.driver.get_amphora()

    def test_a_build_is_found_by_its_key(self) -> None:
        key = self.new_key()
        self.build()
        amphora_id = self.build(build_key=key, name=self.new_key())
        self.assertEqual(self.found_build(key).id, amphora_id)

    def test_an_unknown_key_finds_nothing(self) -> None:
        self.build()
        self.assertIsNone(self.driver.find_build(self.new_key()))

    def test_a_key_does_not_find_an_instance_of_another_owner(self) -> None:
        key = self.new_key()
        self.build_for_other(build_key=key)
        self.assertIsNone(self.driver.find_build(key))

    def test_a_name_does_not_find_an_instance_of_another_owner(self) -> None:
        name = self.new_key()
        self.build_for_other(name=name)
        with self.assertRaises(InstanceNotFoundError):
            self.driver.get_amphora(name)

    def test_an_instance_is_described_alike_wherever_it_is_found(self) -> None:
        key = self.new_key()
        amphora_id = self.build_active(build_key=key, name=key)
        by_id = self.driver.get_amphora(amphora_id=amphora_id)
        # No fact of it changes with time.
        self.pass_time(0.1)
        listed = next(one for one in self.driver.list_amphorae() if one.id == amphora_id)
        again = self.driver.get_amphora(amphora_id=amphora_id)
        for found in (again, self.driver.get_amphora(key), self.found_build(key), listed):
            self.assertEqual(found, by_id)

    def found_build(self, key: str) -> Amphora:
        """Return the amphora that was built with a key."""
        found = self.driver.find_build(key)
        if found is None:
            self.broken(f'find_build() finds the amphora built with key {key}', 'None')
        return found
