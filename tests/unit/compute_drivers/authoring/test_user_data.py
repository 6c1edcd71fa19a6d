"""Format of user data; functional tests cover its use by cloud-init."""

import base64
import email
import gzip
import json
import random
import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.compute_drivers.authoring.user_data import MAX_BYTES, compose, compose_text
from kiln.models import InjectedFile

KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB ops@east'
SCRIPT = b'#!/bin/sh\necho\n'


def file(path='/a', content=b'x', mode=0o644, owner='root'):
    return InjectedFile(path=path, content=content, mode=mode, owner=owner)


def parts(blob):
    """Return the parts of user data, as parsed by a mail program."""
    if blob.startswith(b'\x1f\x8b'):
        blob = gzip.decompress(blob)
    return [part for part in email.message_from_bytes(blob).walk() if not part.is_multipart()]


def config(blob):
    """Return kiln's own part."""
    text = parts(blob)[-1].get_payload(decode=True).decode()
    head, _, rest = text.partition('\n')
    assert head == '#cloud-config'
    return json.loads(rest)


class Compose(unittest.TestCase):
    def test_with_nothing_to_add_the_callers_user_data_is_unchanged(self):
        for user_data in (None, b'', SCRIPT, gzip.compress(SCRIPT), bytes(range(256))):
            self.assertIs(user_data, compose(user_data, [], ()))

    def test_files_become_entries_of_write_files(self):
        blob = compose(None, [file('/etc/key', b'secret', 0o600, 'haproxy')])
        entry = {
            'path': '/etc/key', 'encoding': 'b64', 'content': 'c2VjcmV0', 'permissions': '0600',
            'owner': 'haproxy', 'defer': True,
        }  # fmt: skip
        self.assertEqual({'write_files': [entry]}, config(blob))
        self.assertEqual(1, len(parts(blob)))

    def test_only_a_file_with_another_owner_is_deferred(self):
        (entry,) = config(compose(None, [file('/etc/key', b'x', 0o600, 'root:ssl')]))[
            'write_files'
        ]
        self.assertNotIn('defer', entry)

    def test_a_file_is_compressed_if_that_makes_it_smaller(self):
        content = b'listen 0.0.0.0:80\n' * 100
        (entry,) = config(compose(None, [file(content=content)]))['write_files']
        self.assertEqual('gz+b64', entry['encoding'])
        self.assertEqual(content, gzip.decompress(base64.b64decode(entry['content'])))
        self.assertLess(len(entry['content']), 200)

    def test_keys_work_without_files_and_files_without_keys(self):
        self.assertEqual({'ssh_authorized_keys': [KEY]}, config(compose(None, [], [KEY])))
        self.assertEqual(['write_files'], list(config(compose(None, [file()]))))

    def test_the_callers_part_is_first_and_kilns_part_states_the_merge_type(self):
        theirs, ours = parts(compose(SCRIPT, [file()], [KEY]))
        self.assertEqual(SCRIPT, theirs.get_payload(decode=True))
        self.assertEqual('text/plain', theirs.get_content_type())
        self.assertIsNone(theirs['Merge-Type'])
        self.assertEqual('text/cloud-config', ours.get_content_type())
        self.assertIn('list(append)', ours['Merge-Type'])

    def test_the_mime_version_is_where_cloud_init_searches_for_it(self):
        self.assertTrue(compose(SCRIPT, [file()]).startswith(b'MIME-Version: 1.0\n'))

    def test_empty_user_data_makes_no_part(self):
        self.assertEqual(1, len(parts(compose(b'', [file()]))))

    def test_compressed_user_data_is_unpacked_first(self):
        theirs, _ = parts(compose(gzip.compress(SCRIPT), [file()]))
        self.assertEqual(SCRIPT, theirs.get_payload(decode=True))

    def test_user_data_that_only_looks_compressed_is_unchanged(self):
        for user_data in (b'\x1f\x8bnothing', gzip.compress(SCRIPT)[:-5], b'\x1f\x8b'):
            theirs, _ = parts(compose(user_data, [file()]))
            self.assertEqual(user_data, theirs.get_payload(decode=True))

    def test_a_callers_mime_message_is_kept_whole(self):
        message = compose(SCRIPT, [file('/theirs')])
        blob = compose(message, [file('/ours')])
        self.assertIn(message, blob)
        self.assertEqual(3, len(parts(blob)))

    def test_the_same_build_gives_the_same_bytes(self):
        def build(content=b'x'):
            return compose(SCRIPT, [file(content=content)], [KEY])

        self.assertEqual(build(), build())
        self.assertNotEqual(build(), build(b'y'))

    def test_large_user_data_is_compressed_as_a_whole_and_small_is_not(self):
        # Sizes on both sides of the limit; the header of each part is not counted here.
        room = MAX_BYTES - len(compose(b'#!' + b'x' * 1000, [file()])) + 1000
        exactly = compose(b'#!' + b'x' * room, [file()])
        self.assertEqual(MAX_BYTES, len(exactly))
        self.assertTrue(exactly.startswith(b'MIME'))
        more = compose(b'#!' + b'x' * (room + 1), [file()])
        self.assertTrue(more.startswith(b'\x1f\x8b'))
        self.assertEqual(2, len(parts(more)))
        self.assertEqual(more, compose(b'#!' + b'x' * (room + 1), [file()]))

    @given(st.binary(max_size=300), st.binary(max_size=300), st.booleans())
    def test_all_contents_can_be_unpacked_again(self, user_data, content, packed):
        sent = gzip.compress(user_data) if packed else user_data
        blob = compose(sent, [file(content=content)], [KEY])
        (entry,) = config(blob)['write_files']
        found = base64.b64decode(entry['content'])
        self.assertEqual(content, gzip.decompress(found) if 'gz' in entry['encoding'] else found)
        if (
            user_data
            and b'mime-version:' not in user_data.lower()
            and user_data[:2] != b'\x1f\x8b'
        ):
            self.assertEqual(user_data, parts(blob)[0].get_payload(decode=True))


if __name__ == '__main__':
    unittest.main()


class Text(unittest.TestCase):
    """For a backend whose user data is text."""

    def test_text_that_fits_is_unchanged(self):
        for user_data in (None, b'', SCRIPT, '#!ü'.encode(), b'x' * MAX_BYTES):
            self.assertIs(user_data, compose_text(user_data, []))

    def test_small_content_is_composed_as_for_any_other_backend(self):
        files = [file('/etc/key', b'secret', 0o600)]
        self.assertEqual(compose(SCRIPT, files, [KEY]), compose_text(SCRIPT, files, [KEY]))

    def test_what_is_not_text_becomes_a_part_that_is(self):
        for user_data in (bytes(range(256)), gzip.compress(SCRIPT)):
            (part,) = parts(compose_text(user_data, []))
            content = part.get_payload(decode=True)
            self.assertIn(content.rstrip(), (user_data.rstrip(), SCRIPT.rstrip()))

    def test_a_large_script_is_packed_as_a_part_of_its_own(self):
        script = SCRIPT + b'# filler\n' * 10_000
        blob = compose_text(script, [file(content=b'x')], [KEY])
        self.assertLessEqual(len(blob), MAX_BYTES)
        packed, ours = parts(blob)
        self.assertEqual('application/gzip', packed.get_content_type())
        self.assertEqual(script, gzip.decompress(packed.get_payload(decode=True)))
        self.assertEqual('text/cloud-config', ours.get_content_type())

    def test_what_does_not_fit_even_so_is_left_to_the_caller(self):
        letters = random.Random(7)
        self.assertGreater(len(compose_text(letters.randbytes(MAX_BYTES), [])), MAX_BYTES)

    @given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode), st.booleans())
    def test_it_is_text_whatever_is_given(self, user_data, with_file):
        blob = compose_text(user_data, [file(content=user_data)] if with_file else [])
        if b'mime-version:' not in user_data.lower():
            blob.decode()
