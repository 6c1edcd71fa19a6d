"""Behaviours of argument checks: wrong arguments are refused, nothing is built."""

from __future__ import annotations

from typing import Any

from kiln.exceptions import InvalidBuildRequest, InvalidRequest
from kiln.models import AmphoraType
from kiln.testing.conformance.fixture import ConformanceFixture, takes


class Arguments(ConformanceFixture):
    """Arguments."""

    def test_an_unknown_type_is_refused(self) -> None:
        self.assert_not_built(amphora_type='abacus')

    def test_a_type_that_is_not_on_offer_is_refused(self) -> None:
        for kind in sorted(frozenset(AmphoraType) - self.driver.limits.amphora_types):
            self.assert_not_built(amphora_type=kind)

    def test_an_unsupported_option_is_refused(self) -> None:
        samples: dict[str, Any] = {
            'metadata': {'a': 'b'},
            'config_drive_files': {'/etc/motd': 'Hello'},
            'user_data': 'Hello',
        }
        lists = {'keys', 'sec_groups', 'network_ids', 'port_ids'}
        for option in sorted(self.driver.limits.refused_options):
            sample = ['some'] if option in lists else samples.get(option, 'some')
            self.assert_not_built(**{option: sample})

    def test_a_name_that_is_too_long_is_refused(self) -> None:
        self.assert_not_built(name='x' * (self.driver.limits.max_name_length + 1))

    def test_an_empty_name_is_refused(self) -> None:
        self.assert_not_built(name='')

    def test_a_name_that_cannot_be_printed_is_refused(self) -> None:
        self.assert_not_built(name=f'{self.prefix}\n')

    def test_a_build_key_of_the_wrong_form_is_refused(self) -> None:
        for key in ('', 'a/b', 'a,b', 'k' * 49):
            with self.assertRaises(InvalidBuildRequest):
                self.build(build_key=key)

    def test_one_string_in_place_of_a_list_is_refused(self) -> None:
        for argument in ('keys', 'sec_groups', 'network_ids', 'port_ids'):
            self.assert_not_built(**{argument: 'abc'})

    def test_a_list_that_names_something_twice_is_refused(self) -> None:
        self.assert_not_built(network_ids=['one', 'one'])

    @takes(metadata={'purpose': 'kit'})
    def test_metadata_that_is_not_a_mapping_of_strings_is_refused(self) -> None:
        for metadata in (['a'], {'a': 1}, {1: 'a'}):
            self.assert_not_built(metadata=metadata)

    @takes(metadata={'purpose': 'kit'})
    def test_metadata_under_a_reserved_key_is_refused(self) -> None:
        self.assert_not_built(metadata={'kiln:owner': 'somebody-else'})

    @takes(metadata={'purpose': 'kit'})
    def test_more_metadata_than_allowed_is_refused(self) -> None:
        items = range(self.driver.limits.max_metadata_items + 1)
        self.assert_not_built(metadata={f'item-{i}': 'x' for i in items})

    def test_a_timeout_that_is_not_a_positive_number_is_refused(self) -> None:
        for timeout in (0, -1, 'soon'):
            with self.assertRaises(InvalidRequest):
                self.build(timeout=timeout)
            with self.assertRaises(InvalidRequest):
                self.driver.delete(self.unknown_id(), timeout=timeout)  # type: ignore[arg-type]

    def test_an_empty_id_is_refused(self) -> None:
        for ask in (self.driver.status, self.driver.delete):
            with self.assertRaises(InvalidRequest):
                ask('')

    def test_an_id_that_is_not_a_string_is_refused(self) -> None:
        for ask in (self.driver.status, self.driver.delete):
            with self.assertRaises(InvalidRequest):
                ask(7)  # type: ignore[arg-type]

    def test_a_cursor_that_is_not_a_string_is_refused(self) -> None:
        with self.assertRaises(InvalidRequest):
            self.driver.changes(None)  # type: ignore[arg-type]

    def test_an_owner_of_the_wrong_form_is_refused(self) -> None:
        with self.assertRaises(InvalidRequest):
            self.driver.list_amphorae(owner='some body')

    def test_arguments_can_be_given_by_position_in_the_order_of_the_founding_note(self) -> None:
        given = self.arguments()
        amphora_id = self.driver.build(
            given['amphora_type'],
            given.get('amphora_flavor'),
            given.get('image_id'),
            given.get('keys'),
            given.get('sec_groups'),
            given.get('network_ids'),
            given.get('config_drive_files'),
            given.get('user_data'),
            name=given['name'],
            build_key=given['build_key'],
        )
        self.assertTrue(self.exists(amphora_id))
