"""File secrets: a store of secrets in files that only their owner can access."""

import pathlib
import tempfile
import unittest

from kiln.cluster_drivers.secrets import FileSecrets, given_secrets
from kiln.clusters.exceptions import ClusterDriverError
from tests.unit.plugins.credentials import given


class Files(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.secrets = FileSecrets(self.directory)

    def keep(self, name, content, mode=0o600):
        (self.directory / name).write_bytes(content)
        (self.directory / name).chmod(mode)

    def refusal(self, name):
        with self.assertRaises(ClusterDriverError) as caught:
            self.secrets.get(name)
        self.assertIsNone(caught.exception.__cause__)
        return str(caught.exception)

    def test_a_secret_is_its_file_without_the_last_newline(self):
        self.keep('db', 'pä ss\n\n'.encode())
        self.assertEqual('pä ss\n', self.secrets.get('db'))
        self.keep('db', b'new')
        self.assertEqual('new', self.secrets.get('db'))

    def test_a_file_that_others_can_access_is_refused(self):
        for mode in (0o604, 0o640, 0o620, 0o601):
            self.keep('db', b'hunter2', mode)
            found = self.refusal('db')
            self.assertIn('chmod 600', found)
            self.assertNotIn('hunter2', found)

    def test_a_secret_in_a_folder_that_others_can_change_is_refused(self):
        self.keep('a', b'x')
        self.directory.chmod(0o777)
        self.assertIn('changed by other users', self.refusal('a'))

    def test_an_invalid_name_is_refused_and_not_shown(self):
        for name in ('../db', '/etc/passwd', '', '.', 'hunter2!', 'a' * 129, 'a\n', 'a/b', 'a\0'):
            found = self.refusal(name)
            self.assertIn('cannot be the name', found)
            self.assertNotIn('hunter2', found)

    def test_an_unreadable_secret_is_refused_with_the_reason_and_not_shown(self):
        self.assertIn('does not exist', self.refusal('hunter2'))
        self.assertNotIn('hunter2', self.refusal('hunter2'))
        self.keep('bytes', b'hunter2\xff')
        self.keep('long', b'x' * (64 * 1024 + 1))
        for name in ('bytes', 'long'):
            self.assertIn('not a text of at most 64 KiB', self.refusal(name))
        (self.directory / 'folder').mkdir()
        self.assertIn('cannot be read', self.refusal('folder'))


class Given(unittest.TestCase):
    def test_secrets_that_systemd_gave_are_found_by_their_names(self):
        given(self, secrets_db='pass\n', kiln__keys='key')
        secrets = given_secrets()
        self.assertEqual('pass', secrets.get('db'))
        # The other credentials of the service are not for machines.
        for name in ('kiln.keys', '../kiln.keys'):
            with self.assertRaises(ClusterDriverError):
                secrets.get(name)

    def test_a_service_without_secrets_has_none_of_systemd(self):
        given(self, kiln__keys='key')
        self.assertIsNone(given_secrets())
