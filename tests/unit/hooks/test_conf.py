"""Where hooks are looked for."""

import pathlib
import unittest

from kiln import conf as kiln_conf
from kiln.conf import hooks


class Places(unittest.TestCase):
    def test_what_is_named_is_read_whether_it_is_there_or_not(self):
        self.assertEqual(pathlib.Path('/no/such'), hooks.directory_of('/no/such'))
        self.assertEqual(pathlib.Path('/no/such'), hooks.file_of('/no/such'))

    def test_what_is_not_named_is_read_only_if_it_is_there(self):
        for found in (hooks.directory_of(None), hooks.file_of(None)):
            self.assertTrue(found is None or found.exists())

    def test_the_environment_may_name_them(self):
        conf = kiln_conf.load([], [], environment={'KILN_HOOKS__FILE': '/srv/hooks.yaml'})
        self.assertEqual(('/srv/hooks.yaml', 16), (conf.hooks.file, conf.hooks.max_calls))
