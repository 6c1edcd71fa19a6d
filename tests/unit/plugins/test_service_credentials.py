"""Credentials of a service: found by name, and private although a mask shows a group."""

import os
import pathlib
import tempfile
import unittest
from unittest import mock

from kiln.plugins.foreign_files import is_private, unsafe_because
from kiln.plugins.service_credentials import credential, is_credential
from tests.unit.plugins.credentials import given


class Credentials(unittest.TestCase):
    def test_a_credential_is_found_by_its_name(self):
        directory = given(self, kiln__keys='key')
        self.assertEqual(directory / 'kiln.keys', credential('kiln.keys'))
        self.assertIsNone(credential('other'))
        self.assertTrue(is_credential(directory / 'kiln.keys'))
        self.assertFalse(is_credential(pathlib.Path(__file__)))

    def test_a_process_without_credentials_finds_none(self):
        # The environment is the real one, and put back afterwards.
        with mock.patch.dict(os.environ):
            os.environ.pop('CREDENTIALS_DIRECTORY', None)
            self.assertIsNone(credential('kiln.keys'))
            self.assertFalse(is_credential(pathlib.Path(__file__)))

    def test_a_credential_is_private_with_the_mask_of_its_access_list(self):
        path = given(self, token='hush') / 'token'
        self.assertEqual('', unsafe_because(path, private=True))
        for mode in 0o444, 0o460, 0o441:
            path.chmod(mode)
            self.assertFalse(is_private(path), oct(mode))

    def test_the_same_mode_elsewhere_is_not_private(self):
        given(self, token='hush')
        with tempfile.NamedTemporaryFile() as file:
            os.fchmod(file.fileno(), 0o440)
            self.assertFalse(is_private(pathlib.Path(file.name)))
