"""The store of secrets that needs no service: files nobody else may read."""

import pathlib
import tempfile
import unittest

from kiln.cluster_drivers.secrets import FileSecrets
from kiln.clusters.exceptions import ClusterDriverError


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

    def test_a_secret_is_its_file_without_the_last_line_end(self):
        self.keep('db', 'pä ss\n\n'.encode())
        self.assertEqual('pä ss\n', self.secrets.get('db'))
        self.keep('db', b'new')
        self.assertEqual('new', self.secrets.get('db'))

    def test_what_others_may_read_is_no_secret(self):
        for mode in (0o604, 0o640, 0o620, 0o601):
            self.keep('db', b'hunter2', mode)
            found = self.refusal('db')
            self.assertIn('chmod 600', found)
            self.assertNotIn('hunter2', found)

    def test_a_name_that_is_none_is_refused_and_not_shown(self):
        for name in ('../db', '/etc/passwd', '', '.', 'hunter2!', 'a' * 129, 'a\n', 'a/b', 'a\0'):
            found = self.refusal(name)
            self.assertIn('cannot be the name', found)
            self.assertNotIn('hunter2', found)

    def test_what_cannot_be_read_says_why_and_shows_nothing(self):
        self.assertIn('does not exist', self.refusal('hunter2'))
        self.assertNotIn('hunter2', self.refusal('hunter2'))
        self.keep('bytes', b'hunter2\xff')
        self.keep('long', b'x' * (64 * 1024 + 1))
        for name in ('bytes', 'long'):
            self.assertIn('not a text of at most 64 KiB', self.refusal(name))
        (self.directory / 'folder').mkdir()
        self.assertIn('cannot be read', self.refusal('folder'))
