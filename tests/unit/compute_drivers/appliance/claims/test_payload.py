"""Build data that a claim command gets are those of the build."""

import json
import unittest

from kiln.compute_drivers.appliance.claims import payload
from tests.unit.compute_drivers.appliance.samples import request


class Payload(unittest.TestCase):
    def test_user_data_keys_and_files_are_kept_as_they_are_and_in_order(self):
        build = request(
            build_key='k1', name='web', user_data=b'\xff#!', keys=['b', 'a'],
            config_drive_files={'/z': ('1', 0o600, 'root'), '/a': b'\x00', '/m': '3'},
        )  # fmt: skip
        kept = payload.packed(build)
        again = payload.unpacked(kept, build_key='k1', name='web', owner='us')
        for facts in ('build_key', 'name', 'owner', 'user_data', 'keys', 'files'):
            self.assertEqual(getattr(build, facts), getattr(again, facts), facts)
        self.assertEqual(list(payload.contents(build)), list(payload.contents(again)))

    def test_a_claim_command_gets_each_part_in_a_file_in_the_order_of_the_build(self):
        build = request(keys=['b', 'a'], config_drive_files={'/z': ('1', 0o600, 'web'), '/a': '2'})
        *parts, (name, listed) = payload.contents(build)
        self.assertEqual(
            [('authorized_keys', b'b\na\n'), ('file-0', b'1'), ('file-1', b'2')], parts
        )
        self.assertEqual('files.json', name)
        files = [list(one.values()) for one in json.loads(listed)]
        self.assertEqual(
            [['file-0', '/z', '0600', 'web'], ['file-1', '/a', '0644', build.files[1].owner]],
            files,
        )

    def test_a_build_without_user_data_has_none_after_it_was_kept(self):
        kept = payload.packed(request(keys=['a']))
        self.assertIsNone(payload.unpacked(kept, build_key='k1', name='web', owner='us').user_data)

    def test_there_is_no_list_of_files_without_a_file(self):
        self.assertEqual([('user_data', b'#!')], list(payload.contents(request(user_data=b'#!'))))

    def test_a_build_without_data_keeps_none(self):
        self.assertIsNone(payload.packed(request()))
