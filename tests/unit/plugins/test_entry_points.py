"""Entry points of packages: read once, and again after each change of the packages."""

import importlib
import os
import pathlib
import shutil
import sys
import tempfile
import unittest

from kiln.plugins.entry_points import entry_points, title

GROUP = 'kiln.tests'


class EntryPoints(unittest.TestCase):
    def setUp(self):
        self.site = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        sys.path.insert(0, str(self.site))
        self.addCleanup(sys.path.remove, str(self.site))
        self.changes = 0

    def changed(self):
        # As much later as a clock of files can tell.
        self.changes += 1
        os.utime(self.site, (self.changes, self.changes))
        importlib.invalidate_caches()

    def install(self, name):
        info = self.site / f'{name}-1.5.dist-info'
        info.mkdir()
        (info / 'METADATA').write_text(f'Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n')
        (info / 'entry_points.txt').write_text(f'[{GROUP}]\n{name} = somewhere\n')
        self.changed()
        return info

    def names(self):
        return sorted(one.name for one in entry_points(GROUP))

    def test_what_is_installed_or_removed_meanwhile_is_noticed(self):
        self.assertEqual([], self.names())
        first = self.install('acme')
        self.assertEqual(['acme'], self.names())
        self.install('boxes')
        self.assertEqual(['acme', 'boxes'], self.names())
        shutil.rmtree(first)
        self.changed()
        self.assertEqual(['boxes'], self.names())

    def test_a_folder_that_is_no_longer_a_place_of_packages_has_none(self):
        self.install('acme')
        self.assertEqual(['acme'], self.names())
        sys.path.remove(str(self.site))
        self.assertEqual([], self.names())
        sys.path.insert(0, str(self.site))

    def test_packages_that_have_not_changed_are_not_read_again(self):
        self.install('acme')
        (first,) = entry_points(GROUP)
        (again,) = entry_points(GROUP)
        self.assertIs(first, again)

    def test_a_package_is_called_by_its_name_and_version(self):
        self.install('acme')
        (found,) = entry_points(GROUP)
        self.assertEqual('acme 1.5', title(found.dist))
