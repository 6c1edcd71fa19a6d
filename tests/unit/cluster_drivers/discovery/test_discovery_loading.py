"""Loading of drivers for new and for existing clusters, and their digests."""

import dataclasses
import inspect

from kiln.cluster_drivers.records import DriverState
from kiln.cluster_drivers.selection.selection import pin_of
from kiln.clusters.exceptions import ClusterDriverUnknown, ClusterDriverUnusable
from tests.unit.cluster_drivers.installed import PYTHON, VERSION, Installed

NEIGHBOURS = {
    'version_py': VERSION,
    'template_def_py': "WORDS = 'template of {version}'\n",
    'driver_py': """
        from . import template_def

        class Driver:
            provides = [('vm', 'ubuntu', 'kubernetes')]
            words = template_def.WORDS
        """,
}


class Loading(Installed):
    def load(self, **activation):
        catalogue = self.discover(**activation)
        (record,) = self.found(**activation)
        return catalogue.load(record)

    def test_a_package_loads_a_class_and_no_instance(self):
        module = self.package('acme', 'acme_v1')
        loaded = self.load()
        self.assertTrue(inspect.isclass(loaded.driver_class))
        self.assertEqual(module, loaded.driver_class.__module__)
        self.assertIsNone(loaded.folder)

    def test_each_driver_with_a_folder_is_listed_with_it_even_if_broken(self):
        self.package('acme', 'acme_v1')
        self.entry('lost', 'lost_v1', 'kiln_test_nowhere:Driver')
        folder = self.directory('broken_v1', driver_py='raise RuntimeError\n', version_py=VERSION)
        found = {record.name: path for record, path in self.discover().folders().items()}
        self.assertEqual(folder, found['broken_v1'])
        self.assertIn('example_v1', found)
        self.assertFalse({'acme_v1', 'lost_v1'} & set(found))

    def test_a_package_with_a_folder_loads_class_and_folder(self):
        folder = self.site / 'kiln_test_folder' / 'code_v1'
        folder.mkdir(parents=True)
        (folder / 'version.py').write_text("version = '1.0.0'\ndriver = 'code_v1'\n")
        (folder / 'driver.py').write_text(
            "class Driver:\n    provides = [('vm', 'ubuntu', 'kubernetes')]\n"
        )
        self.entry('acme', 'code_v1', 'kiln_test_folder.code_v1')
        loaded = self.load()
        self.assertEqual('kiln_test_folder.code_v1.driver', loaded.driver_class.__module__)
        self.assertEqual(folder, loaded.folder)

    def test_001_1_a_directory_loads_a_class_whose_modules_import_each_other(self):
        folder = self.directory('code_v1', **NEIGHBOURS)
        loaded = self.load()
        self.assertEqual('template of 1.0.0', loaded.driver_class.words)
        self.assertEqual(folder, loaded.folder)
        self.assertIs(loaded.driver_class, self.load().driver_class)

    def test_a_directory_can_have_an_init_module(self):
        self.directory('code_v1', **NEIGHBOURS, __init___py='from .driver import Driver\n')
        self.assertEqual('template of 1.0.0', self.load().driver_class.words)

    def test_a_failing_init_breaks_its_driver_in_each_search(self):
        self.directory('code_v1', **NEIGHBOURS, __init___py="raise ValueError('no')\n")
        for _ in range(2):
            self.assertEqual('ValueError: no', self.one().reason)

    def test_001_6_a_directory_without_python_loads_only_its_folder(self):
        folder = self.directory('page_v1')
        loaded = self.load()
        self.assertEqual((None, folder), (loaded.driver_class, loaded.folder))

    def test_001_11_each_version_of_a_driver_has_its_own_modules(self):
        self.directory('code_v1', 'usr', **NEIGHBOURS)
        self.directory('code_v1', 'etc', version='1.1.0', **NEIGHBOURS)
        catalogue = self.discover()
        self.assertEqual(
            ['template of 1.0.0', 'template of 1.1.0'],
            [catalogue.load_pinned(pin_of(one)).driver_class.words for one in self.found()],
        )

    def test_changed_modules_are_imported_again_after_the_next_search(self):
        folder = self.directory('code_v1', **NEIGHBOURS)
        self.load()
        (folder / 'template_def.py').write_text("WORDS = 'quite another template'\n")
        self.assertEqual('quite another template', self.load().driver_class.words)

    def test_a_directory_without_a_driver_class_is_broken(self):
        self.directory('code_v1', version_py=VERSION, driver_py='other = 1\n')
        self.assertIn('no class Driver', self.one().reason)

    def test_a_disabled_driver_is_not_loaded_for_new_clusters(self):
        self.directory('page_v1')
        with self.assertRaisesRegex(ClusterDriverUnusable, 'disabled_drivers'):
            self.load(disabled_drivers=('page_v1',))

    def test_code_that_fails_only_at_loading_is_reported_at_loading(self):
        # Its driver.yaml is complete, so that a search for drivers does not import it.
        self.directory(
            'page_v1',
            driver_yaml='version: 1.0.0\nprovides: [[vm, ubuntu, swarm]]\n',
            driver_py='import no_such_library\n',
        )
        self.assertIs(DriverState.ACTIVE, self.one().state)
        with self.assertRaisesRegex(ClusterDriverUnusable, 'no_such_library'):
            self.load()


class Pinned(Installed):
    def setUp(self):
        super().setUp()
        self.folder = self.directory('code_v1', version_py=VERSION, driver_py=PYTHON)
        self.pin = pin_of(self.one())

    def load(self, **activation):
        return self.discover(**activation).load_pinned(self.pin)

    def test_001_11_an_existing_cluster_keeps_its_disabled_driver(self):
        loaded = self.load(disabled_drivers=('code_v1',))
        self.assertEqual('code_v1', loaded.driver_class.name)

    def test_001_25_disabled_hard_refuses_a_disabled_driver_to_existing_clusters(self):
        with self.assertRaisesRegex(ClusterDriverUnusable, 'disabled_hard'):
            self.load(disabled_drivers=('code_v1',), disabled_hard=True)
        self.assertEqual('code_v1', self.load(disabled_hard=True).record.name)

    def test_001_13_a_driver_changed_without_a_new_version_is_used_and_logged(self):
        (self.folder / 'driver.py').write_text('class Driver:\n    name, provides = "code_v1", '
                                               '[("vm", "ubuntu", "swarm")]\n')  # fmt: skip
        with self.assertLogs('kiln.cluster_drivers.discovery.discovery', 'WARNING') as logs:
            self.load()
        self.assertIn('has changed without a new version', logs.output[0])

    def test_a_site_can_refuse_a_driver_changed_without_a_new_version(self):
        (self.folder / 'template_def.py').write_text('')
        with self.assertRaisesRegex(
            ClusterDriverUnusable, 'has changed without a new version.* put the former driver back'
        ):
            self.load(refuse_changed=True)
        (self.folder / 'template_def.py').unlink()
        self.assertEqual('code_v1', self.load(refuse_changed=True).record.name)

    def test_a_module_without_source_counts_as_a_change(self):
        (self.folder / 'template_def.pyc').write_bytes(b'')
        with self.assertRaises(ClusterDriverUnusable):
            self.load(refuse_changed=True)

    def test_a_missing_version_is_an_error_that_lists_the_installed_versions(self):
        (self.folder / 'version.py').write_text("version = '1.0.1'\ndriver = 'code_v1'\n")
        with self.assertRaisesRegex(
            ClusterDriverUnknown, 'code_v1 1.0.0 .* Installed versions of code_v1: 1.0.1'
        ):
            self.load()

    def test_a_broken_driver_is_an_error(self):
        (self.folder / 'version.py').write_text("version = 'next'\ndriver = 'code_v1'\n")
        with self.assertRaisesRegex(ClusterDriverUnusable, "failed to load: its version 'next'"):
            self.load()


class Digests(Installed):
    def digest(self):
        return self.one().digest

    def test_001_13_a_digest_changes_with_each_file_name_and_content(self):
        folder = self.directory('page_v1')
        (folder / 'templates').mkdir()
        seen = {self.digest()}
        template = folder / 'templates' / 'user_data'
        for number, change in enumerate((
            lambda: template.write_text('one'),
            lambda: template.write_text('two'),
            lambda: template.rename(folder / 'templates' / 'other'),
            lambda: (folder / 'README').write_text(''),
        ), start=2):  # fmt: skip
            change()
            seen.add(self.digest())
            self.assertEqual(number, len(seen))

    def test_a_digest_ignores_files_that_are_not_part_of_the_driver(self):
        folder = self.directory('page_v1')
        before = self.digest()
        for name in ('image/disk.img', '__pycache__/driver.pyc', '.git/HEAD', '.driver.yaml.swp'):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text('x')
        self.assertEqual(before, self.digest())
        (folder / 'templates' / 'image').mkdir(parents=True)
        (folder / 'templates' / 'image' / 'x').write_text('x')
        self.assertNotEqual(before, self.digest())

    def test_a_digest_follows_links_but_not_in_a_circle(self):
        folder = self.directory('page_v1')
        before = self.digest()
        shared = self.root / 'shared'
        shared.mkdir()
        (folder / 'templates').symlink_to(shared)
        (folder / 'back').symlink_to(folder)
        self.assertEqual(before, self.digest())
        (shared / 'user_data').write_text('x')
        self.assertNotEqual(before, self.digest())

    def test_a_digest_does_not_depend_on_the_path_of_the_driver(self):
        self.directory('page_v1', 'usr')
        self.directory('page_v1', 'etc')
        self.assertEqual(1, len({record.digest for record in self.found()}))

    def test_the_digest_of_a_single_module_covers_only_that_module(self):
        module = self.package('acme', 'acme_v1')
        before = self.digest()
        (self.site / 'unrelated.py').write_text('')
        self.assertEqual(before, self.digest())
        with (self.site / f'{module}.py').open('a') as file:
            file.write('# changed\n')
        self.assertNotEqual(before, self.digest())
        self.assertRegex(before, '^[0-9a-f]{16}$')

    def test_the_digest_of_a_package_covers_its_folder(self):
        folder = self.site / 'kiln_test_digest'
        folder.mkdir()
        (folder / '__init__.py').write_text(
            "class Driver:\n    version = '1.0.0'\n    provides = [('vm', 'ubuntu', 'swarm')]\n"
        )
        self.entry('acme', 'acme_v1', 'kiln_test_digest:Driver')
        before = self.one()
        (folder / 'template').write_text('x')
        self.assertNotEqual(before.digest, self.digest())
        self.assertEqual(folder, self.discover().load(self.one()).folder)
        self.assertEqual(before, dataclasses.replace(self.one(), digest=before.digest))
