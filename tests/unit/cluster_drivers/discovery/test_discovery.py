"""Discovery of drivers in packages and directories, with broken ones among them."""

from kiln.cluster_drivers.records import ClusterType, DriverState
from kiln.cluster_drivers.selection.matching import in_order
from kiln.cluster_drivers.selection.request import Image, Request
from kiln.cluster_drivers.selection.selection import resolve
from kiln.clusters.exceptions import AmbiguousClusterDriver, ClusterDriverUnusable
from tests.unit.cluster_drivers.installed import PYTHON, VERSION, YAML, Installed

UBUNTU = Image(id='7c1e', properties={'kiln_distro': 'ubuntu'})


def broken(record):
    return record.reason if record.state is DriverState.BROKEN else None


class Places(Installed):
    def test_001_15_packages_and_directories_are_listed_with_their_origin(self):
        self.package('acme-kiln', 'acme_v1')
        folder = self.directory('page_v1')
        self.assertEqual(
            {'acme_v1': 'package acme-kiln 0.3', 'page_v1': f'directory {folder}'},
            {record.name: record.origin for record in self.found()},
        )

    def test_001_16_a_later_directory_does_not_silently_shadow_an_earlier_one(self):
        first, second = (self.directory('same_v1', place) for place in ('usr', 'etc'))
        records = self.found()
        self.assertEqual([DriverState.CONFLICT] * 2, [record.state for record in records])
        self.assertEqual(
            f'is provided twice: directory {second} and directory {first}. '
            'Both are out of use until driver_origin names one',
            records[0].reason,
        )

    def test_001_16_missing_and_repeated_directories_of_the_path_are_harmless(self):
        self.directory('page_v1')
        (self.root / 'link').symlink_to(self.root / 'usr')
        self.assertIs(DriverState.ACTIVE, self.one('usr', 'nowhere', 'usr', 'link').state)

    def test_001_16_an_unreadable_entry_of_the_path_is_logged_and_skipped(self):
        self.directory('page_v1')
        (self.root / 'file').write_text('')
        with self.assertLogs('kiln.cluster_drivers.discovery.discovery', 'WARNING') as logs:
            self.assertEqual('page_v1', self.one('file', 'usr').name)
        self.assertIn('Not a directory', logs.output[0])

    def test_hidden_folders_and_plain_files_are_not_drivers(self):
        for name in ('.git', '__pycache__'):
            (self.root / 'usr' / name).mkdir(parents=True)
        (self.root / 'usr' / 'README').write_text('')
        self.assertEqual([], self.found())

    def test_a_newly_installed_driver_is_found_by_the_next_search(self):
        self.assertEqual([], self.found())
        self.directory('page_v1')
        self.package('acme-kiln', 'acme_v1')
        self.assertEqual(['acme_v1', 'page_v1'], [record.name for record in self.found()])

    def test_two_packages_can_provide_two_versions_of_a_driver(self):
        self.package('old-kiln', 'k8s_v1', version='1.0.0')
        self.package('new-kiln', 'k8s_v1', version='1.1.0')
        records = self.found()
        self.assertEqual(['1.0.0', '1.1.0'], [record.version for record in records])
        self.assertEqual({DriverState.ACTIVE}, {record.state for record in records})


class Names(Installed):
    def test_001_2_a_driver_must_be_named_like_its_directory_or_entry_point(self):
        yaml, version, package = (
            self.directory('page_v1', driver_yaml='name: other_v1\nversion: 1.0.0\n'
                           'provides: [[vm, ubuntu, swarm]]\n'),
            self.directory('code_v1', version_py="version = '1.0.0'\ndriver = 'other_v1'\n",
                           driver_py=PYTHON),
            self.package('acme', 'acme_v1', PYTHON.replace('{name!r}', "'other_v1'")),
        )  # fmt: skip
        for record in self.found():
            with self.subTest(record.name):
                self.assertIs(DriverState.BROKEN, record.state)
                self.assertEqual(
                    'it calls itself other_v1; both names must be the same', record.reason
                )
        self.assertEqual(3, len(self.found()), (yaml, version, package))

    def test_001_2_driver_yaml_can_omit_the_name_of_its_directory(self):
        text = 'version: 1.0.0\nprovides: [[vm, ubuntu, swarm]]\n'
        self.directory('page_v1', driver_yaml=text)
        self.assertEqual(DriverState.ACTIVE, self.one().state)
        self.directory('a page', driver_yaml=f'name: a page\n{text}')
        self.assertIn('not a name of a driver', self.found()[0].reason)


class Manifests(Installed):
    def test_001_9_driver_yaml_declares_a_driver_without_python(self):
        self.directory('page_v1', version='1.2.3', driver_yaml=YAML + '    beta: true\n')
        record = self.one(enabled_beta_drivers=('page_v1',))
        self.assertEqual(('page_v1', '1.2.3', True), (record.name, record.version, record.beta))
        self.assertEqual((ClusterType('vm', 'ubuntu', 'kubernetes'),), record.provides)
        self.assertEqual((DriverState.ACTIVE, ''), (record.state, record.reason))

    def test_001_9_version_py_is_read_and_never_run(self):
        self.directory(
            'code_v1',
            version='1.2.3',
            version_py=VERSION + "    raise SystemExit('it was run')\n",
            driver_py=PYTHON,
        )
        record = self.one()
        self.assertEqual('', record.reason)
        self.assertEqual(('code_v1', '1.2.3'), (record.name, record.version))

    def test_001_9_a_driver_in_python_needs_a_version_py_that_names_it(self):
        self.directory('a_v1', driver_py=PYTHON)
        self.directory('b_v1', driver_py=PYTHON, version_py="version = '1.0.0'\n")
        self.directory('c_v1', version_py=VERSION)
        self.assertEqual(
            [
                'it has neither a driver.yaml nor a version.py that names a driver',
                'it has neither a driver.yaml nor a version.py that names a driver',
                'it has a version.py but no driver.py',
            ],
            [broken(record) for record in self.found()],
        )

    def test_001_9_an_incomplete_driver_yaml_is_reported_with_the_missing_keys(self):
        self.directory('page_v1', driver_yaml='base: nodes\n')
        self.assertEqual('it does not declare its version and provides', broken(self.one()))

    def test_000_2_provides_can_be_written_as_tuples_or_dicts(self):
        for number, provides in enumerate(
            (
                "[('vm', 'ubuntu', 'swarm'), ('bm', '*', 'swarm')]",
                "[dict(server_type='vm', os='ubuntu', coe='swarm'), ['bare_metal', '*', 'swarm']]",
            )
        ):
            source = PYTHON.replace("[('vm', 'ubuntu', 'kubernetes')]", provides)
            self.package(f'acme-{number}', f'acme_v{number}', source)
        expected = (
            ClusterType('bare_metal', '*', 'swarm'),
            ClusterType('vm', 'ubuntu', 'swarm'),
        )
        self.assertEqual([expected] * 2, [record.provides for record in self.found()])

    def test_000_2_provides_as_a_property_is_read_without_an_instance(self):
        source = """
            class Driver:
                version = '1.0.0'

                def __init__(self):
                    raise RuntimeError('no kubeconfig')

                @property
                def provides(self):
                    return [('vm', 'ubuntu', 'kubernetes')]
        """
        self.package('acme', 'acme_v1', source)
        self.assertEqual((ClusterType('vm', 'ubuntu', 'kubernetes'),), self.one().provides)

    def test_a_package_can_be_a_driver_folder_without_python(self):
        folder = self.site / 'kiln_test_pages' / 'page_v1'
        folder.mkdir(parents=True)
        (folder / 'driver.yaml').write_text('version: 1.0.0\nprovides: [[vm, ubuntu, swarm]]\n')
        self.entry('acme', 'page_v1', 'kiln_test_pages.page_v1')
        record = self.one()
        self.assertEqual((DriverState.ACTIVE, ''), (record.state, record.reason))
        loaded = self.discover().load(record)
        self.assertEqual((None, folder), (loaded.driver_class, loaded.folder))

    def test_001_2_the_entry_point_of_a_folder_must_have_the_name_of_the_folder(self):
        folder = self.site / 'kiln_test_other' / 'page_v1'
        folder.mkdir(parents=True)
        (folder / 'driver.yaml').write_text('version: 1.0.0\nprovides: [[vm, ubuntu, swarm]]\n')
        self.entry('acme', 'leaf_v1', 'kiln_test_other.page_v1')
        self.assertIn('kiln_test_other.page_v1, not leaf_v1', broken(self.one()))

    def test_the_version_of_a_package_is_not_the_version_of_its_driver(self):
        folder = self.site / 'kiln_test_scm'
        folder.mkdir()
        (folder / '__init__.py').write_text('')
        (folder / 'version.py').write_text("version = '7.0.0.dev1'\n")
        (folder / 'driver.py').write_text(
            "class Driver:\n    version = '1.0.0'\n    provides = [('vm', 'ubuntu', 'swarm')]\n"
        )
        self.entry('acme', 'acme_v1', 'kiln_test_scm.driver:Driver')
        self.assertEqual(('1.0.0', ''), (self.one().version, self.one().reason))


class MagnumFindings(Installed):
    def choose(self, records, **asked):
        return resolve(Request(coe='kubernetes', **asked), image=UBUNTU, records=records).pin.name

    def test_magnum_1_v_provides_is_read_without_an_instance(self):
        # The constructor of this driver raises, because a file is missing.
        self.package('acme', 'acme_v1')
        record = self.one()
        self.assertIs(DriverState.ACTIVE, record.state)
        self.assertEqual('acme_v1', self.choose([record]))

    def test_magnum_1_v_a_driver_that_cannot_be_loaded_does_not_affect_others(self):
        self.package('good', 'good_v1')
        for number, source in enumerate((
            'import no_such_library',
            'raise SystemExit(1)',
            'this cannot be python',
            'Driver = 42',
            'import abc\nclass Driver(abc.ABC):\n'
            '    @abc.abstractmethod\n    def create_cluster(self): ...\n',
            'class Driver:\n    version = "one"\n',
            'class Driver:\n    version = "1.0.0"\n',
            'other = 1',
        )):  # fmt: skip
            self.package(f'bad-{number}', f'bad_v{number}', source)
        self.entry('gone', 'gone_v1', 'no_such_module:Driver')
        self.entry('lost', 'lost_v1', 'kiln.no_such_package.inside.driver:Driver')
        self.directory('z_empty_v1', README='')
        self.directory('z_yaml_v1', driver_yaml='a: [')
        self.directory('z_list_v1', driver_yaml='- a\n')
        records = self.found()
        reasons = {one.name: broken(one) for one in records}
        self.assertIsNone(reasons.pop('good_v1'))
        for name, words in (
            ('bad_v0', "ModuleNotFoundError: No module named 'no_such_library' (install"),
            ('bad_v1', 'SystemExit: 1'),
            ('bad_v2', 'SyntaxError'),
            ('bad_v3', '42 is not a class'),
            ('bad_v4', 'Driver lacks create_cluster'),
            ('bad_v5', "its version 'one' is not written like '1.0.0'"),
            ('bad_v6', 'it does not declare its provides'),
            ('bad_v7', 'AttributeError'),
            ('gone_v1', 'module not found: no_such_module'),
            ('lost_v1', 'module not found: kiln.no_such_package.inside.driver'),
            ('z_empty_v1', 'it has neither a driver.yaml'),
            ('z_yaml_v1', 'driver.yaml cannot be read'),
            ('z_list_v1', 'driver.yaml is not a mapping'),
        ):
            with self.subTest(name):
                self.assertIn(words, reasons.pop(name))
        self.assertEqual({}, reasons)
        self.assertEqual('good_v1', self.choose(records))
        with self.assertRaisesRegex(ClusterDriverUnusable, 'no_such_library'):
            self.choose(records, driver='bad_v0')

    def test_magnum_1_i_only_the_user_chooses_between_two_packages_with_one_tuple(self):
        self.package('b-kiln', 'b_v1')
        self.package('a-kiln', 'a_v1')
        with self.assertRaisesRegex(AmbiguousClusterDriver, 'package a-kiln .*package b-kiln'):
            self.choose(self.found())
        self.assertEqual('b_v1', self.choose(self.found(), driver='b_v1'))

    def test_a_secret_in_the_error_of_a_driver_is_not_in_its_record(self):
        self.package('acme', 'acme_v1', "raise ValueError('password=hunter2')")
        self.assertNotIn('hunter2', self.one().reason)


class Order(Installed):
    def test_records_are_sorted_by_name_and_version(self):
        self.package('z', 'b_v1', version='1.10.0')
        self.package('y', 'b_v1', version='1.9.0')
        self.directory('a_v1')
        records = self.found()
        self.assertEqual(
            [('a_v1', '1.0.0'), ('b_v1', '1.9.0'), ('b_v1', '1.10.0')],
            [(record.name, record.version) for record in records],
        )
        self.assertEqual(in_order(reversed(records)), records)
