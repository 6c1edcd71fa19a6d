"""Kinds of values in a cloud-config: what cloud-init takes, and what it does not."""

import unittest

from kiln.testing.clusters.cloud_config import loaded, problems

RIGHT = b"""\
#cloud-config
hostname: web-1
packages: [nginx, [git, '1:2'], {snap: [lxd]}]
bootcmd: [date]
runcmd:
  - echo hello
  - [sh, -c, '']
write_files:
  - path: /etc/a
  - {path: /etc/b, content: x, permissions: '0755', owner: 'root:adm'}
users: [default]
"""
WRONG = {
    'it is not a mapping': '[a]',
    'hostname is not a text': 'hostname: no',
    'packages is not a list': 'packages:',
    'packages[0] is not what': 'packages: [1]',
    'runcmd[1] is not what': 'runcmd: [date, [sh, -c, null]]',
    'write_files[0] is not what': 'write_files: [{path: /a, permissions: 0755}]',
}


class CloudConfigTest(unittest.TestCase):
    def test_what_cloud_init_takes_has_no_problems(self):
        self.assertEqual([], list(problems(loaded(RIGHT))))

    def test_each_value_of_another_kind_is_a_problem(self):
        for words, text in WRONG.items():
            (found,) = problems(loaded(f'#cloud-config\n{text}\n'.encode()))
            self.assertIn(words, found)

    def test_other_user_data_has_no_values(self):
        for user_data in (None, b'#!/bin/sh\n', b'{}'):
            self.assertEqual({}, loaded(user_data))
