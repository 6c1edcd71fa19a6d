"""Tests of secrets: encrypted in the store, and in no message of kiln."""

from kiln.clusters.exceptions import ClusterNotFound, StoreError
from kiln.clusters.models import Secret
from tests.unit.db.case import ClusterCase
from tests.unit.db.fernet import as_before

HUSH = 'Tr0ub4dor-and-3-horses'


def secret(name='token', value=HUSH, cluster_id='c-web'):
    return Secret(cluster_id=cluster_id, name=name, value=value)


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
        with self.assertRaisesRegex(StoreError, 'kiln.keys: none of the keys fits'):
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


class Bound(ClusterCase):
    """Finding L4: a writer of the database gives one cluster the secret of another."""

    def setUp(self):
        super().setUp()
        self.create('shop')
        self.write(self.claim('c-shop'), secret=secret(cluster_id='c-shop'))
        self.write(self.lease, secret=[secret('token', 'of web'), secret('other')])

    def move(self, source, target):
        """Write the token of one secret over that of another."""
        (token,) = [row[2] for row in self.rows('SELECT * FROM secret') if row[:2] == source]
        self.change('UPDATE secret SET value = :to WHERE cluster_id = :id AND name = :name',
                    to=token, id=target[0], name=target[1])  # fmt: skip

    def refused(self, cluster_id, name, why):
        said = f'secret {name!r} of cluster {cluster_id} .*{why}.*who can write'
        with self.assertRaisesRegex(StoreError, said) as caught:
            self.store.secrets.read(cluster_id, name)
        self.assertNotIn(HUSH, str(caught.exception))

    def test_a_token_of_another_cluster_is_refused(self):
        self.move(('c-shop', 'token'), ('c-web', 'token'))
        self.refused('c-web', 'token', 'written for another cluster or name')
        self.assertEqual(HUSH, self.store.secrets.read('c-shop', 'token').value)

    def test_a_token_of_another_name_is_refused(self):
        self.move(('c-web', 'other'), ('c-web', 'token'))
        self.refused('c-web', 'token', 'written for another cluster or name')

    def test_a_rotation_stops_at_a_token_of_another_row(self):
        self.move(('c-shop', 'token'), ('c-web', 'token'))
        before = self.rows('SELECT value FROM secret')
        with self.assertRaisesRegex(StoreError, "secret 'token' of cluster c-web"):
            self.store.secrets.rotate()
        self.assertEqual(before, self.rows('SELECT value FROM secret'))

    def test_tokens_of_a_former_version_are_read_and_bound_by_a_rotation(self):
        former = as_before(self.folder / 'kiln.keys', 'of web')
        self.change('UPDATE secret SET value = :to WHERE name = :name', to=former, name='token')
        self.assertEqual('of web', self.store.secrets.read('c-web', 'token').value)
        self.assertEqual(3, self.store.secrets.rotate())
        self.assertEqual('of web', self.store.secrets.read('c-shop', 'token').value)
        self.move(('c-shop', 'token'), ('c-web', 'token'))
        self.refused('c-web', 'token', 'written for another')
        # From a backup, or from before the rotation.
        self.change('UPDATE secret SET value = :to WHERE name = :name', to=former, name='token')
        self.refused('c-web', 'token', 'bound to no cluster and name')

    def test_the_next_write_binds_a_secret_of_a_former_version(self):
        former = as_before(self.folder / 'kiln.keys', 'of web')
        self.change('UPDATE secret SET value = :to WHERE name = :name', to=former, name='token')
        self.write(self.lease, secret=secret())
        self.move(('c-web', 'token'), ('c-shop', 'token'))
        self.refused('c-shop', 'token', 'written for another')
