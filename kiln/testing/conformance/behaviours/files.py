"""Behaviours of injected files and user data: their forms and limits."""

from __future__ import annotations

import io
from typing import Any

from kiln.exceptions import InvalidBuildRequest, UserDataTooLarge
from kiln.testing.conformance.fixture import ConformanceFixture

#: Maximum that the contract allows, even if a backend could take more.
_MOST_FILES = 5
_MOST_FILE_BYTES = 10 * 1024


class Endless:
    """An endless file, which fails when it is read without a size."""

    def read(self, size: int = -1) -> bytes:
        """Return as many bytes as requested."""
        if size < 0:
            raise MemoryError('an endless file was read without a size')
        return bytes(size)


class Files(ConformanceFixture):
    """Files and user data."""

    def test_no_more_files_are_allowed_than_the_contract_allows(self) -> None:
        self.assertLessEqual(self.driver.limits.max_files, _MOST_FILES)
        self.assert_not_built(
            config_drive_files={f'/etc/file-{i}': 'x' for i in range(_MOST_FILES + 1)}
        )

    def test_no_larger_files_are_allowed_than_the_contract_allows(self) -> None:
        self.assertLessEqual(self.driver.limits.max_file_bytes, _MOST_FILE_BYTES)
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
        if self.driver.limits.refused_options.isdisjoint(given):
            self.assertTrue(self.exists(self.build(**given)))
        else:
            with self.assertRaises(InvalidBuildRequest):
                self.build(**given)
