"""Configured and default locations of hooks."""

import pathlib
import unittest

from kiln import conf as kiln_conf
from kiln.conf import hooks


class Places(unittest.TestCase):
    def test_a_configured_path_is_used_even_if_it_does_not_exist(self):
        self.assertEqual(pathlib.Path('/no/such'), hooks.directory_of('/no/such'))
        self.assertEqual(pathlib.Path('/no/such'), hooks.file_of('/no/such'))

    def test_a_default_path_is_used_only_if_it_exists(self):
        for found in (hooks.directory_of(None), hooks.file_of(None)):
            self.assertTrue(found is None or found.exists())

    def test_the_environment_can_configure_the_paths(self):
        conf = kiln_conf.load([], [], environment={'KILN_HOOKS__FILE': '/srv/hooks.yaml'})
        self.assertEqual(('/srv/hooks.yaml', 16), (conf.hooks.file, conf.hooks.max_calls))
