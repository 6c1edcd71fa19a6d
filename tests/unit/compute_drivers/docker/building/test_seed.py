"""Files and seed copied into a container before it starts."""

import io
import json
import tarfile
import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.compute_drivers.docker.building import seed
from kiln.models import BuildRequest, InjectedFile

PATHS = st.from_regex(r'(/[a-z][a-z0-9.]{0,5}){1,4}', fullmatch=True)


def request(**given):
    return BuildRequest(**{'build_key': 'k1', 'name': 'web_1', 'owner': 'site', **given})


def file(path, **given):
    return InjectedFile(**{'path': path, 'content': b'x', **given})


def unpacked(packed):
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        return {
            member.name: (member, tar.extractfile(member).read() if member.isfile() else None)
            for member in tar
        }


class Kinds(unittest.TestCase):
    def test_the_image_decides_if_the_option_does_not(self):
        labels = {'kiln.seed': 'nocloud'}
        self.assertEqual('nocloud', seed.kind_of('auto', labels))
        self.assertEqual('files', seed.kind_of('auto', {}))
        self.assertEqual('files', seed.kind_of('files', labels))
        self.assertEqual('none', seed.kind_of('none', labels))

    def test_files_stay_files_and_user_data_becomes_a_file(self):
        given = request(files=(file('/etc/a'),), user_data=b'#!/bin/sh')
        files = {one.path: one for one in seed.files_of(given, 'files')}
        self.assertEqual({'/etc/a', '/var/lib/kiln/user-data'}, set(files))
        self.assertEqual(b'#!/bin/sh', files['/var/lib/kiln/user-data'].content)
        self.assertEqual(0o600, files['/var/lib/kiln/user-data'].mode)

    def test_a_seed_contains_user_data_files_keys_and_host_name(self):
        given = request(
            build_key='K-1', files=(file('/etc/a'),), user_data=b'#cloud-config\nhostname: web',
            keys=('ssh-ed25519 AAAA me',),
        )  # fmt: skip
        made = seed.files_of(given, 'nocloud')
        self.assertEqual({0o600}, {one.mode for one in made})
        files = {one.path: one.content for one in made}
        folder = '/var/lib/cloud/seed/nocloud'
        self.assertEqual({f'{folder}/user-data', f'{folder}/meta-data'}, set(files))
        self.assertEqual(
            {'instance-id': 'K-1', 'local-hostname': 'web-1'},
            json.loads(files[f'{folder}/meta-data']),
        )
        self.assertIn(b'hostname: web', files[f'{folder}/user-data'])
        self.assertIn(b'ssh_authorized_keys', files[f'{folder}/user-data'])
        self.assertIn(b'/etc/a', files[f'{folder}/user-data'])

    def test_the_host_name_in_a_seed_is_made_of_the_whole_name(self):
        meta, _ = seed.files_of(request(name='Wéb'), 'nocloud')
        self.assertEqual('w-b', json.loads(meta.content)['local-hostname'])

    def test_a_seed_without_user_data_is_valid(self):
        (user_data,) = [
            one.content for one in seed.files_of(request(), 'nocloud') if 'user' in one.path
        ]
        self.assertTrue(user_data.startswith(b'#cloud-config\n'))


class Archives(unittest.TestCase):
    def test_files_keep_mode_owner_and_content(self):
        packed = seed.archive(
            [file('/etc/key.pem', mode=0o600, owner='web')], [], {'web': (33, 44)}, 1000.5
        )
        member, content = unpacked(packed)['etc/key.pem']
        self.assertEqual(
            (0o600, 33, 44, 1000), (member.mode, member.uid, member.gid, member.mtime)
        )
        self.assertEqual(b'x', content)

    def test_an_archive_ends_where_its_readers_stop(self):
        packed = seed.archive([file('/a')], [], {'root': (0, 0)}, 0)
        headers, content, end = 2 * tarfile.BLOCKSIZE, tarfile.BLOCKSIZE, 2 * tarfile.BLOCKSIZE
        self.assertEqual(headers + content + end, len(packed))
        self.assertEqual(tarfile.NUL * end, packed[-end:])

    def test_files_stay_in_their_order(self):
        packed = seed.archive([file('/b'), file('/a')], [], {'root': (0, 0)}, 0)
        self.assertEqual(['b', 'a'], list(unpacked(packed))[:-1])

    def test_the_completion_mark_comes_last(self):
        packed = seed.archive([file('/a')], ['/etc'], {'root': (0, 0)}, 0)
        self.assertEqual(['etc', 'a', 'var/lib/kiln/complete'], list(unpacked(packed)))

    def test_an_archive_has_a_folder_before_those_within_it(self):
        folders = ['/srv', '/srv/a', '/srv/a/b']
        packed = seed.archive([], folders, {}, 0)
        members = [member for member, _ in unpacked(packed).values()][:-1]
        self.assertEqual(['srv', 'srv/a', 'srv/a/b'], [member.name for member in members])
        for member in members:
            self.assertEqual((True, 0o755), (member.isdir(), member.mode))

    @given(st.lists(PATHS, unique=True, max_size=4))
    def test_every_folder_precedes_its_content(self, paths):
        folders = seed.folders_of([file(path) for path in paths])
        seen = {'/'}
        for folder in folders:
            self.assertIn(folder.rpartition('/')[0] or '/', seen)
            seen.add(folder)
        for path in paths:
            self.assertIn(path.rpartition('/')[0] or '/', seen)
        self.assertIn('/var/lib/kiln', seen)

    def test_a_file_under_an_in_memory_file_system_is_reported_as_hidden(self):
        files = [file('/etc/a'), file('/run/lock/b'), file('/run/c')]
        self.assertEqual('/run/lock/b', seed.hidden(files, ['/run']))
        self.assertIsNone(seed.hidden(files, ['/ru', '/run/lock/b/c']))


class Accounts(unittest.TestCase):
    def setUp(self):
        self.accounts = seed.Accounts(
            'root:x:0:0::/:\nweb:x:33:44:::\nbad:x:y:1\nworse:x:1:y\n', 'www:x:50:\n'
        )

    def test_owners_are_found_by_name_and_by_number(self):
        for owner, ids in (
            ('root', (0, 0)), ('web', (33, 44)), ('web:www', (33, 50)), ('web:7', (33, 7)),
            ('5', (5, 5)), ('5:6', (5, 6)), ('5:www', (5, 50)),
        ):  # fmt: skip
            self.assertEqual(ids, self.accounts.ids(owner), owner)

    def test_the_first_of_two_accounts_with_the_same_name_counts(self):
        accounts = seed.Accounts('web:x:33:44:::\nweb:x:1:2:::\n', 'www:x:50:\nwww:x:3:\n')
        self.assertEqual((33, 50), accounts.ids('web:www'))

    def test_root_has_its_ids_in_an_image_without_accounts(self):
        for owner in ('root', 'root:root', '0:0'):
            self.assertEqual((0, 0), seed.ROOT.ids(owner))

    def test_owners_missing_in_the_image_are_not_found(self):
        for owner in ('nobody', 'bad', 'worse', 'web:nogroup', ''):
            self.assertIsNone(self.accounts.ids(owner), owner)

    @given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=8))
    def test_no_file_of_an_image_can_break_the_lookup(self, passwd, group, owner):
        ids = seed.Accounts(passwd, group).ids(owner)
        self.assertTrue(ids is None or len(ids) == 2)
