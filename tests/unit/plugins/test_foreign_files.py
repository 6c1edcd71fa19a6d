"""Files of others: no link leads out of a folder, and nobody else can change what kiln uses."""

import contextlib
import os
import pathlib
import tempfile
import types
import unittest
import unittest.mock

from kiln.plugins.foreign_files import read_beneath, unsafe_because


@contextlib.contextmanager
def of_group(*, name='jo', members=(), others=(), first=True):
    """Let this process be user jo, and its files of a group; only root could make both."""
    user, group = os.geteuid(), os.getegid()
    jo = types.SimpleNamespace(pw_name='jo', pw_uid=user, pw_gid=group if first else group + 1)
    users = [jo, *(types.SimpleNamespace(pw_uid=user + 1, pw_gid=group) for _ in others)]
    found = types.SimpleNamespace(gr_name=name, gr_mem=list(members))
    named = {'return_value': found} if name else {'side_effect': KeyError}
    with (
        unittest.mock.patch('grp.getgrgid', **named),
        unittest.mock.patch('pwd.getpwuid', return_value=jo),
        unittest.mock.patch('pwd.getpwall', return_value=users),
    ):
        yield


class Folder(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())).resolve()
        self.keys = self.folder / 'kiln.keys'
        self.keys.write_text('key')
        self.root = self.folder / 'root'
        self.inner = self.root / 'inner'
        self.inner.mkdir(parents=True)
        (self.inner / 'file').write_text('text')
        for one in self.root, self.inner:
            one.chmod(0o755)
        for one in self.keys, self.inner / 'file':
            one.chmod(0o600)


class Reading(Folder):
    def read(self, name, most_bytes=10):
        return read_beneath(self.root, name, most_bytes=most_bytes)

    def refused(self, name, why, **limits):
        with self.assertRaisesRegex(ValueError, why):
            self.read(name, **limits)

    def test_a_file_beneath_the_folder_is_read(self):
        self.assertEqual(b'text', self.read('inner/file', most_bytes=4))

    def test_links_are_not_followed_in_any_part_of_the_name(self):
        (self.root / 'keys').symlink_to(self.keys)
        (self.root / 'up').symlink_to(self.folder)
        (self.root / 'near').symlink_to(self.inner)
        for name in 'keys', 'up/kiln.keys', 'near/file':
            self.refused(name, 'is a link')

    def test_names_that_lead_elsewhere_are_refused(self):
        for name in '../kiln.keys', str(self.keys), '':
            self.refused(name, 'elsewhere')

    def test_what_is_no_file_or_too_long_is_refused(self):
        os.mkfifo(self.root / 'pipe')
        self.refused('pipe', 'regular')
        self.refused('inner', 'regular')
        self.refused('inner/file', 'more than 3 bytes', most_bytes=3)

    def test_no_file_stays_open(self):
        before = len(os.listdir('/proc/self/fd'))
        self.read('inner/file')
        self.refused('inner/file', 'more', most_bytes=1)
        self.assertEqual(before, len(os.listdir('/proc/self/fd')))


class Judging(Folder):
    """Finding L3: a file was judged without the folders in which it can be replaced."""

    def judged(self, **how):
        return unsafe_because(self.inner / 'file', **how)

    def test_a_file_of_this_user_is_safe_also_in_a_folder_for_temporary_files(self):
        self.assertEqual('', self.judged())
        self.root.chmod(0o1777)
        self.assertEqual('', self.judged(private=True))

    def test_each_folder_above_counts(self):
        for one in self.inner / 'file', self.inner, self.root:
            with self.subTest(one.name):
                former = one.stat().st_mode
                one.chmod(0o757)
                self.assertIn(f'other users can change {one};', self.judged())
                one.chmod(former)

    def test_the_group_of_the_owner_alone_can_write(self):
        (self.inner / 'file').chmod(0o664)
        self.root.chmod(0o775)
        with of_group():
            self.assertEqual('', self.judged())

    def test_any_other_group_counts_as_others(self):
        (self.inner / 'file').chmod(0o664)
        for case, group in (
            ('a shared group', {'name': 'users'}),
            ('another member', {'members': ['jo', 'ann']}),
            ('the first group of somebody else', {'others': ['ann']}),
            ('a second group of the owner', {'first': False}),
            ('a group without a name', {'name': None}),
        ):
            with self.subTest(case), of_group(**group):
                self.assertIn('other users can change', self.judged())

    def test_a_sticky_bit_saves_no_file(self):
        (self.inner / 'file').chmod(0o1666)
        self.assertIn('other users', self.judged())

    def test_the_folders_behind_a_link_count(self):
        self.root.chmod(0o777)
        link = self.folder / 'link'
        link.symlink_to(self.inner / 'file')
        self.assertIn('other users', unsafe_because(link))

    def test_a_private_file_is_read_by_nobody_else(self):
        (self.inner / 'file').chmod(0o640)
        self.assertEqual('', self.judged())
        self.assertIn('can read', self.judged(private=True))

    @unittest.skipIf(os.geteuid(), 'only root can give files away')
    def test_files_and_folders_of_another_user_are_refused(self):
        for one in self.inner / 'file', self.root:
            os.chown(one, 12345, -1)
            self.assertIn(f'{one} belongs to another user', self.judged())
            os.chown(one, 0, -1)
