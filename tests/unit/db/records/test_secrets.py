"""Tests of secrets: encrypted in the store, and in no message of kiln."""

from kiln.clusters.exceptions import ClusterNotFound, StoreError
from kiln.clusters.models import Secret
from tests.unit.db.case import ClusterCase

HUSH = 'Tr0ub4dor-and-3-horses'


def secret(name='token', value=HUSH):
    return Secret(cluster_id='c-web', name=name, value=value)


class Secrets(ClusterCase):
    def keys(self):
        return (self.folder / 'kiln.keys').read_text()

    def test_a_secret_is_readable_but_not_plain_in_the_database(self):
        self.write(self.lease, secret=secret())
        self.assertEqual(secret(), self.store.secrets.read('c-web', 'token'))
        self.assertNotIn(HUSH, str(self.rows('SELECT * FROM secret')))

    def test_the_value_is_in_no_representation(self):
        self.assertNotIn(HUSH, f'{secret()!r} {secret()}')

    def test_the_last_secret_of_a_name_is_kept(self):
        self.write(self.lease, secret=[secret('a'), secret('token', 'older')])
        self.write(self.lease, secret=[secret('token', 'old'), secret(), secret('b')])
        names = self.rows('SELECT name FROM secret ORDER BY name')
        self.assertEqual([('a',), ('b',), ('token',)], names)
        self.assertEqual(HUSH, self.store.secrets.read('c-web', 'token').value)

    def test_a_missing_secret_is_named(self):
        with self.assertRaisesRegex(ClusterNotFound, "'token' of cluster c-web"):
            self.store.secrets.read('c-web', 'token')

    def test_a_secret_needs_a_cluster_and_errors_do_not_quote_it(self):
        with self.assertRaises(StoreError) as caught, self.store.writing(self.lease) as batch:
            batch.bury()
            batch.secret(secret())
        chain = caught.exception
        while chain is not None:
            self.assertNotIn(HUSH, str(chain))
            chain = chain.__cause__

    def test_after_a_rotation_all_secrets_have_another_key(self):
        self.write(self.lease, secret=[secret('a'), secret('b', 'other')])
        before, keys = self.rows('SELECT value FROM secret'), self.keys()
        self.assertEqual(2, self.store.secrets.rotate())
        self.assertFalse(set(before) & set(self.rows('SELECT value FROM secret')))
        self.assertNotEqual(keys, self.keys())
        self.assertEqual('other', self.store.secrets.read('c-web', 'b').value)

    def test_keys_are_rotated_even_without_secrets(self):
        self.assertEqual(0, self.store.secrets.rotate())
        self.write(self.lease, secret=secret())
        self.assertEqual(1, self.store.secrets.rotate())

    def test_another_process_notices_the_new_key(self):
        other = self.open()
        for name in ('a', 'b'):
            with other.writing(self.lease) as batch:
                batch.secret(secret(name))
            self.store.secrets.rotate()
        for name in ('a', 'b'):
            self.assertEqual(HUSH, other.secrets.read('c-web', name).value)
            self.assertEqual(HUSH, self.store.secrets.read('c-web', name).value)

    def test_without_the_key_a_secret_is_lost_with_an_error(self):
        self.write(self.lease, secret=secret())
        (self.folder / 'kiln.keys').unlink()
        self.store.secrets.keys.advance()
        with self.assertRaisesRegex(StoreError, 'none of the keys in .*kiln.keys fits'):
            self.store.secrets.read('c-web', 'token')

    def test_a_rotation_with_an_unreadable_secret_changes_none(self):
        self.write(self.lease, secret=[secret('a'), secret('z')])
        (self.folder / 'kiln.keys').rename(self.folder / 'kept')
        self.store.secrets.keys.advance()
        self.write(self.lease, secret=secret('a', 'newer'))
        before = self.rows('SELECT name, value FROM secret ORDER BY name')
        with self.assertRaisesRegex(StoreError, "secret 'z'"):
            self.store.secrets.rotate()
        self.assertEqual(before, self.rows('SELECT name, value FROM secret ORDER BY name'))
        self.assertEqual('newer', self.store.secrets.read('c-web', 'a').value)
