"""Tests of the key file: private, written atomically, read again when it changes."""

import pathlib
import stat
import tempfile
import unittest

from kiln.clusters.exceptions import StoreError
from kiln.clusters.models import Secret
from kiln.db.keys import KeyFile
from tests.unit.db.fernet import as_before
from tests.unit.plugins.credentials import given

SECRET = Secret(cluster_id='c-web', name='token', value='h\u00fcsh')


def read(keys, token):
    return keys.decrypt('c-web', 'token', token).value


class Keys(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.path = self.folder / 'sub' / 'kiln.keys'

    def made(self):
        keys = KeyFile(self.path, make=True)
        keys.encrypt(SECRET)
        return keys

    def words(self):
        return [line.split()[0] for line in self.path.read_text().splitlines()[1:]]

    def mode(self, path):
        return stat.S_IMODE(path.stat().st_mode)

    def refused(self, words, keys=None):
        with self.assertRaisesRegex(StoreError, words) as caught:
            (keys or KeyFile(self.path)).encrypt(SECRET)
        return str(caught.exception)

    def test_the_first_key_is_created_on_use_and_only_for_its_owner(self):
        keys = KeyFile(self.path, make=True)
        self.assertFalse(self.path.parent.exists())
        keys.encrypt(SECRET)
        self.assertEqual((0o600, 0o700), (self.mode(self.path), self.mode(self.path.parent)))
        self.assertEqual([self.path], list(self.path.parent.iterdir()))

    def test_one_process_reads_what_another_encrypted(self):
        token = self.made().encrypt(SECRET)
        self.assertNotIn('h\u00fcsh', token)
        self.assertEqual(SECRET, KeyFile(self.path).decrypt('c-web', 'token', token))
        with self.assertRaisesRegex(StoreError, f"secret 'token' of cluster c-web .*{self.path}"):
            KeyFile(self.path).decrypt('c-web', 'token', 'nonsense')

    def test_a_key_is_not_created_if_all_hosts_need_the_same(self):
        self.refused("create the first one with 'kiln db rotate-key'")
        keys = KeyFile(self.path)
        keys.advance()
        self.assertEqual(SECRET.value, read(keys, keys.encrypt(SECRET)))

    def test_a_prepared_key_decrypts_before_it_encrypts(self):
        keys = self.made()
        early = KeyFile(self.path)
        old = early.encrypt(SECRET)
        keys.prepare()
        keys.prepare()
        self.assertEqual(['current', 'next', 'tokens'], self.words())
        copied = self.path.read_text()
        keys.advance()
        new = keys.encrypt(SECRET)
        # A host with the former file can still read new secrets.
        elsewhere = self.folder / 'copy'
        elsewhere.write_text(copied)
        elsewhere.chmod(0o600)
        self.assertEqual([SECRET.value] * 2, [read(KeyFile(elsewhere), one) for one in (old, new)])
        self.assertEqual(['current', 'former', 'tokens'], self.words())

    def test_all_former_keys_but_the_last_are_forgotten(self):
        keys = self.made()
        tokens = []
        for _ in range(3):
            tokens.append(keys.encrypt(SECRET))
            keys.advance()
        self.assertEqual([SECRET.value] * 3, [read(keys, one) for one in tokens])
        keys.forget()
        self.assertEqual(SECRET.value, read(keys, tokens[2]))
        for token in tokens[:2]:
            with self.assertRaisesRegex(StoreError, 'none of the keys fits'):
                read(keys, token)

    def test_a_file_of_a_former_version_reads_its_tokens_until_the_rotation_is_over(self):
        keys = self.made()
        token = as_before(self.path, SECRET.value)
        keys.prepare()
        keys.advance()
        self.assertEqual(['current', 'former'], self.words())
        self.assertEqual(SECRET.value, read(keys, token))
        keys.forget()
        self.assertEqual(['current', 'former', 'tokens'], self.words())
        with self.assertRaisesRegex(StoreError, 'bound to no cluster and name'):
            read(keys, token)

    def test_keys_that_all_users_can_read_are_refused(self):
        self.made()
        self.path.chmod(0o644)
        self.refused('every user can read them')

    def test_keys_that_others_can_replace_are_refused(self):
        """Finding L3: keys in a folder of all users were used."""
        self.made()
        self.path.parent.chmod(0o777)
        self.refused('other users can change')

    def test_keys_that_systemd_gave_are_read_and_never_changed(self):
        token = self.made().encrypt(SECRET)
        path = given(self, kiln__keys=self.path.read_text()) / 'kiln.keys'
        keys = KeyFile(path)
        self.assertEqual(SECRET.value, read(keys, token))
        before = path.read_text()
        for change in keys.prepare, keys.advance, keys.forget:
            with self.assertRaisesRegex(StoreError, 'outside of it, and restart the service'):
                change()
        self.assertEqual(before, path.read_text())
        self.refused('outside of it', KeyFile(path.with_name('other'), make=True))

    def test_an_invalid_key_file_is_refused_and_not_quoted(self):
        self.made()
        good = self.path.read_text()
        key = good.splitlines()[1].split()[1]
        for bad in ('', 'current hunter2\n', f'{key}\n', f'other {key}\n', good + good,
                    good + f'next {key}\n' * 2, f'{good}tokens free\n', '\u00fc'):  # fmt: skip
            with self.subTest(bad):
                self.path.write_text(bad)
                said = self.refused('it is not a key file')
                self.assertNotIn('hunter2', said)
                self.assertNotIn(key, said)

    def test_a_place_that_cannot_be_written_is_named(self):
        blocked = self.folder / 'file'
        blocked.write_text('')
        self.refused('option .db. key_file', KeyFile(blocked / 'kiln.keys', make=True))
        folder = self.folder / 'folder'
        folder.mkdir()
        self.refused('Cannot read the keys', KeyFile(folder))
