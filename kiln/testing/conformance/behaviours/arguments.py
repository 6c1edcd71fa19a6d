"""Behaviours of argument checks: wrong arguments are refused, right ones are taken."""

from __future__ import annotations

import io
from typing import Any

from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.exceptions import InvalidBuildRequest, InvalidRequest, UserDataTooLarge
from kiln.models import AmphoraType, Limits
from kiln.testing.conformance.fixture import ConformanceFixture, takes

#: Maximum that the contract allows, even if a backend could take more.
_MOST_FILES = 5
_MOST_FILE_BYTES = 10 * 1024


class Arguments(ConformanceFixture, contract=(AmphoraComputeDriver.build, Limits)):
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
        self.assert_exists(amphora_id)


class Files(ConformanceFixture, contract=(AmphoraComputeDriver.build, Limits)):
    """Files and user data."""

    def test_no_more_files_are_allowed_than_the_contract_allows(self) -> None:
        self.assertLessEqual(self.driver.limits.max_files, _MOST_FILES, 'limits.max_files')
        self.assert_not_built(
            config_drive_files={f'/etc/file-{i}': 'x' for i in range(_MOST_FILES + 1)}
        )

    def test_no_larger_files_are_allowed_than_the_contract_allows(self) -> None:
        most = self.driver.limits.max_file_bytes
        self.assertLessEqual(most, _MOST_FILE_BYTES, 'limits.max_file_bytes')
        self.assert_not_built(config_drive_files={'/etc/large': b'x' * (_MOST_FILE_BYTES + 1)})

    def test_as_many_files_as_allowed_are_taken(self) -> None:
        self.builds_with(
            config_drive_files={f'/etc/file-{i}': 'x' for i in range(self.driver.limits.max_files)}
        )

    def test_a_file_of_the_greatest_size_is_taken(self) -> None:
        self.builds_with(
            config_drive_files={'/etc/large': b'x' * self.driver.limits.max_file_bytes}
        )

    def test_a_file_can_be_text(self) -> None:
        self.builds_with(config_drive_files={'/etc/motd': 'Grüße'})

    def test_a_file_can_be_bytes(self) -> None:
        self.builds_with(config_drive_files={'/etc/motd': bytes(range(256))})

    def test_a_file_can_be_an_open_file(self) -> None:
        self.builds_with(
            config_drive_files={
                '/etc/motd': io.BytesIO(b'Hello'),
                '/etc/issue': io.StringIO('Hello'),
            }
        )

    def test_a_file_can_have_a_mode_and_an_owner(self) -> None:
        self.builds_with(config_drive_files={'/etc/key.pem': (b'Hello', 0o600, 'root')})

    def test_a_file_can_be_empty(self) -> None:
        self.builds_with(config_drive_files={'/etc/empty': b''})

    def test_the_size_of_text_is_counted_in_bytes(self) -> None:
        self.assert_not_built(
            config_drive_files={'/etc/large': 'ü' * self.driver.limits.max_file_bytes}
        )

    def test_an_endless_file_is_refused(self) -> None:
        self.assert_not_built(config_drive_files={'/etc/large': Endless()})

    def test_a_path_that_is_not_absolute_is_refused(self) -> None:
        self.assert_not_built(config_drive_files={'etc/motd': 'x'})

    def test_a_path_with_parent_references_is_refused(self) -> None:
        self.assert_not_built(config_drive_files={'/etc/../motd': 'x'})

    def test_a_file_that_is_neither_text_nor_bytes_is_refused(self) -> None:
        self.assert_not_built(config_drive_files={'/etc/motd': 7})
        self.assert_not_built(config_drive_files={'/etc/motd': ('x', 'rw', 'root')})

    def test_user_data_can_be_text_or_bytes_or_an_open_file(self) -> None:
        for user_data in ('#!/bin/sh\n', b'\x1f\x8b\x00', io.BytesIO(b'#!/bin/sh\n')):
            self.builds_with(user_data=user_data)

    def test_user_data_of_the_greatest_size_is_taken(self) -> None:
        self.builds_with(user_data=b'#' * self.driver.limits.max_user_data_bytes)

    def test_larger_user_data_is_refused(self) -> None:
        too_large = b'#' * (self.driver.limits.max_user_data_bytes + 1)
        with self.assertRaises(UserDataTooLarge):
            self.build(user_data=too_large)

    def test_user_data_that_is_neither_text_nor_bytes_is_refused(self) -> None:
        with self.assertRaises(InvalidBuildRequest):
            self.build(user_data={'a': 'b'})

    def builds_with(self, **given: Any) -> None:
        """Build with an option, or check that it is refused if unsupported."""
        if not self.lacks_option(**given):
            self.assert_exists(self.build(**given))


class Endless:
    """An endless file, which fails when it is read without a size."""

    def read(self, size: int = -1) -> bytes:
        """Return as many bytes as requested."""
        if size < 0:
            raise MemoryError('an endless file was read without a size')
        return bytes(size)
