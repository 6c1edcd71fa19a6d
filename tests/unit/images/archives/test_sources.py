"""Lines of sources.list, and Release files."""

import re
import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.images.archives.sources import (
    Release,
    Source,
    host_sources,
    snapshot_sources,
    usual_sources,
)
from kiln.images.exceptions import MirrorUnavailable

WORDS = st.from_regex(re.compile(r'[a-z][a-z0-9/-]{0,8}', re.ASCII), fullmatch=True)
SOURCES = st.builds(
    Source,
    st.sampled_from(['http://d/debian', 'https://m.example:8080/a/b', 'file:/srv/debian']),
    WORDS,
    st.lists(WORDS, min_size=1, max_size=3).map(tuple),
    st.dictionaries(
        st.sampled_from(['arch', 'signed-by', 'check-valid-until']),
        st.sampled_from(['no', '/usr/share/keyrings/k.gpg', 'amd64']),
        max_size=2,
    ),
)


class Sources(unittest.TestCase):
    @given(SOURCES)
    def test_a_written_source_reads_as_the_same(self, source):
        self.assertEqual(source, Source.read(str(source), 'any'))

    @given(st.text(max_size=40))
    def test_any_text_is_an_archive_or_refused_with_advice(self, text):
        try:
            source = Source.read(text, 'bookworm')
        except ValueError as exc:
            self.assertRegex(str(exc), 'write a URL|auth.conf')
        else:
            self.assertEqual(source, Source.read(str(source), 'bookworm'))

    def test_a_url_stands_for_the_suite_that_is_built(self):
        source = Source.read(' http://d/debian/ ', 'trixie')
        self.assertEqual('deb http://d/debian trixie main', str(source))
        self.assertEqual('http://d/debian/dists/trixie/InRelease', source.release_url)

    def test_spaces_in_a_line_are_ignored(self):
        source = Source.read('deb  [ arch=amd64  trusted=yes ]  http://d  s  main  contrib', 'x')
        self.assertEqual('deb [arch=amd64 trusted=yes] http://d s main contrib', str(source))

    def test_a_password_in_a_url_is_refused(self):
        for text in ('http://u:hush@d/debian', 'deb http://hush@d s main'):
            with self.subTest(text), self.assertRaises(ValueError) as caught:
                Source.read(text, 'bookworm')
            self.assertIn('auth.conf', str(caught.exception))
            self.assertNotIn('hush', str(caught.exception))

    def test_an_incomplete_line_is_refused(self):
        for text in (
            '',
            'deb http://d bookworm',
            'deb-src http://d s main',
            'deb [x] http://d s m',
        ):
            with self.subTest(text), self.assertRaises(ValueError):
                Source.read(text, 'bookworm')

    def test_a_release_includes_its_updates(self):
        self.assertEqual(
            ['bookworm', 'bookworm-updates', 'bookworm-security'],
            [one.suite for one in usual_sources('bookworm')],
        )
        self.assertEqual(['sid'], [one.suite for one in usual_sources('sid')])

    def test_a_snapshot_can_have_expired(self):
        for source in snapshot_sources('bookworm', '20250520T000000Z'):
            self.assertIn('/20250520T000000Z', source.uri)
            self.assertEqual({'check-valid-until': 'no'}, source.options)
            self.assertIn(f'[check-valid-until=no] {source.uri} bookworm', str(source))

    def test_only_the_suite_and_its_updates_are_taken_from_a_host(self):
        said = (
            'http://d/debian/\tbookworm\tmain\n'
            'http://d/debian/\tbookworm\tmain\n'
            'http://d/debian/\tbookworm\tcontrib\n'
            'http://d/debian/\tbookworm-backports\tmain\n'
            'http://s/debian-security\tbookworm-security\tmain\n'
            'https://packages.example\tcloud-sdk-bookworm\tmain\n'
            'broken\n'
        )
        self.assertEqual(
            [
                'deb http://d/debian bookworm main contrib',
                'deb http://s/debian-security bookworm-security main',
            ],
            [str(one) for one in host_sources(said, 'bookworm')],
        )
        self.assertEqual((), host_sources(said, 'trixie'))


class Releases(unittest.TestCase):
    def test_the_date_and_the_digest_are_read(self):
        one = Release.read('Origin: Debian\nDate: Fri, 20 Nov 2026 02:11:10 UTC\n', 'u')
        two = Release.read('Origin: Other\nDate: Thu, 19 Nov 2026 02:11:10 UTC\n', 'u')
        self.assertEqual(86400, one.at - two.at)
        self.assertNotEqual(one.digest, two.digest)

    def test_a_text_without_a_date_is_refused(self):
        with self.assertRaises(MirrorUnavailable) as caught:
            Release.read('Date: soon', 'http://d/InRelease')
        self.assertIn('http://d/InRelease', str(caught.exception))
