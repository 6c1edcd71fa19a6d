"""Names, labels and metadata of containers."""

import re
import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.compute_drivers.docker import names
from kiln.models import BuildRequest

KEYS = st.from_regex(r'[A-Za-z0-9][A-Za-z0-9._:-]{0,47}', fullmatch=True)
OWNERS = st.from_regex(r'[A-Za-z0-9][A-Za-z0-9._-]{0,31}', fullmatch=True)


def request(**given):
    return BuildRequest(**{'build_key': 'k1', 'name': 'web', 'owner': 'site', **given})


class ContainerNames(unittest.TestCase):
    @given(OWNERS, KEYS)
    def test_every_key_yields_a_valid_container_name(self, owner, key):
        name = names.container_name(owner, key)
        self.assertRegex(name, r'\A[a-zA-Z0-9][a-zA-Z0-9_.-]+\Z')
        self.assertLessEqual(len(name), 63)

    @given(st.lists(st.tuples(OWNERS, KEYS), min_size=2, max_size=2, unique=True))
    def test_two_builds_never_share_a_name(self, two):
        self.assertNotEqual(*(names.container_name(*one) for one in two))

    def test_keys_that_differ_only_in_punctuation_have_different_names(self):
        self.assertNotEqual(names.container_name('o', 'a:b'), names.container_name('o', 'a-b'))

    def test_a_build_always_has_the_same_name(self):
        self.assertEqual('k1-bc046f54c48b', names.container_name('site', 'k1'))


class HostNames(unittest.TestCase):
    @given(st.text(min_size=1, max_size=255))
    def test_every_name_yields_a_valid_host_name(self, name):
        self.assertRegex(names.host_name(name), r'\A[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z')

    def test_a_long_name_is_cut_to_what_a_host_name_may_have(self):
        self.assertEqual('a' * 63, names.host_name('a' * 64))

    def test_a_host_name_resembles_the_name(self):
        self.assertEqual('web-1-of-us', names.host_name('Web_1.of-US'))


class Labels(unittest.TestCase):
    @given(st.dictionaries(st.text(min_size=1, max_size=40), st.text(max_size=40), max_size=5))
    def test_metadata_survives_a_round_trip(self, metadata):
        labels = names.labels_of(
            request(metadata=metadata), zone='z', unfinished=False, health=False
        )
        self.assertEqual(metadata, dict(names.metadata_of(labels)))
        # Podman splits a label at "=".
        self.assertFalse([label for label in labels if '=' in label])

    def test_labels_record_the_owner_and_unfinished_work(self):
        labels = names.labels_of(
            request(build_key='K1', name='Web', flavor='small', image_id='plain:1'),
            zone='z', unfinished=True, health=True,
        )  # fmt: skip
        self.assertEqual(
            {
                'kiln.owner': 'site', 'kiln.key': 'K1', 'kiln.name': 'Web', 'kiln.zone': 'z',
                'kiln.flavor': 'small', 'kiln.image-asked-for': 'plain:1',
                'kiln.unfinished': 'yes', 'kiln.health': 'yes',
            },
            labels,
        )  # fmt: skip

    def test_what_a_build_does_not_have_has_no_label(self):
        labels = names.labels_of(request(), zone='z', unfinished=False, health=False)
        self.assertEqual({'kiln.owner', 'kiln.key', 'kiln.name', 'kiln.zone'}, labels.keys())

    def test_the_keys_of_metadata_can_be_read_by_people(self):
        labels = names.labels_of(
            request(metadata={'for: web #1/a=b': 'x'}), zone='z', unfinished=False, health=False
        )
        self.assertEqual('x', labels['kiln.meta.for: web #1/a%3Db'])

    def test_labels_are_found_in_lists_and_inspects(self):
        self.assertEqual({'a': 'b'}, names.labels_in({'Labels': {'a': 'b'}}))
        self.assertEqual({'a': 'b'}, names.labels_in({'Config': {'Labels': {'a': 'b'}}}))
        # Podman's lists have no labels rather than an empty set of them.
        for none in ({'Labels': None}, {'Config': None}, {'Config': {'Labels': None}}):
            self.assertEqual({}, names.labels_in(none))


class Shapes(unittest.TestCase):
    def test_only_a_full_id_is_an_id(self):
        self.assertTrue(names.is_id('0' * 64))
        for text in ('', 'web-1', 'a' * 12, 'A' * 64, '../' + 'a' * 61, 'a' * 64 + '\n'):
            self.assertFalse(names.is_id(text))

    def test_no_name_can_change_the_path_of_a_request(self):
        for text in ('', '../x', 'a/../b', 'a b', 'a?b', '-a', 'a\n'):
            self.assertFalse(names.is_image(text), text)
            self.assertFalse(names.is_network(text), text)
        self.assertFalse(names.is_network('a/b'))
        for text in ('kiln/node:1', 'localhost:5000/a@sha256:' + 'a' * 64, 'a' * 64):
            self.assertTrue(names.is_image(text))
        self.assertTrue(re.fullmatch('.*', 'bridge') and names.is_network('my_net.1-a'))
