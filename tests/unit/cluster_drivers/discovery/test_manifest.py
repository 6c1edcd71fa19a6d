"""Manifests: what a driver declares in driver.yaml, version.py or its class."""

import sys
import unittest
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from kiln.cluster_drivers.discovery.manifest import (
    Manifest,
    ManifestError,
    from_class,
    from_version_module,
    from_yaml,
)
from kiln.cluster_drivers.records import ClusterType

SWARM = ClusterType('vm', 'ubuntu', 'swarm')


class Values(unittest.TestCase):
    def test_a_manifest_can_leave_everything_unset(self):
        self.assertEqual(Manifest(), Manifest.read({'base': 'nodes'}))

    def test_a_wrong_value_is_reported_with_the_expected_form(self):
        for values, words in (
            ({'name': 'two words'}, "'two words' is not a name"),
            ({'name': ''}, "'' is not a name"),
            ({'name': 'x' * 64}, 'is not a name'),
            ({'name': 7}, '7 is not a name'),
            ({'version': 1.0}, "its version 1.0 is not written like '1.0.0'"),
            ({'version': '1.0'}, 'not written'),
            ({'version': '01.0.0'}, 'not written'),
            ({'version': '1.0.0rc1'}, 'not written'),
            ({'version': '9' * 5000 + '.0.0'}, 'not written'),
            ({'beta': 'no'}, "its beta is 'no', neither true nor false"),
            ({'provides': 'vm'}, 'not a list of types of cluster'),
            ({'provides': {'os': 'ubuntu'}}, 'not a list of types of cluster'),
            ({'provides': 7}, 'not a list of types of cluster'),
            ({'provides': []}, 'it provides nothing'),
            ({'provides': [('vm', 'ubuntu')]}, "('vm', 'ubuntu') should be three words"),
            ({'provides': ['abc']}, "'abc' should be three words"),
            ({'provides': [('vm', '', 'swarm')]}, 'should be three words'),
            ({'provides': [('vm', 7, 'swarm')]}, 'should be three words'),
            ({'provides': [{'os': 'ubuntu'}]}, 'should have server_type, os, coe'),
        ):
            with self.subTest(values), self.assertRaises(ManifestError) as caught:
                Manifest.read(values)
            self.assertIn(words, str(caught.exception))

    def test_only_unset_values_are_filled(self):
        page = Manifest(name='a_v1', version='1.0.0')
        code = Manifest(name='b_v1', version='2.0.0', beta=True, provides=(SWARM,))
        self.assertEqual(
            Manifest(name='a_v1', version='1.0.0', beta=True, provides=(SWARM,)),
            page.filled_by(code),
        )
        self.assertEqual(['provides'], page.lacking())
        self.assertEqual([], code.lacking())


class Yaml(unittest.TestCase):
    def test_001_9_other_keys_are_ignored(self):
        text = 'version: 1.0.0\nprovides: [{server_type: vm, os: ubuntu, coe: swarm}]\nfiles: {}\n'
        self.assertEqual(Manifest(version='1.0.0', provides=(SWARM,)), from_yaml(text))

    def test_yaml_cannot_create_python_objects(self):
        with self.assertRaisesRegex(ManifestError, 'cannot be read'):
            from_yaml('name: !!python/object/apply:os.getcwd []')

    def test_an_impossible_date_is_reported_like_any_mistake(self):
        with self.assertRaisesRegex(ManifestError, 'cannot be read: month must be'):
            from_yaml('version: 2026-13-01')

    def test_an_empty_file_is_reported(self):
        with self.assertRaisesRegex(ManifestError, 'not a mapping'):
            from_yaml('')

    def test_without_pyyaml_the_error_names_what_to_install(self):
        with (
            # Makes the import fail as if the package were not installed.
            mock.patch.dict(sys.modules, {'yaml': None}),
            self.assertRaisesRegex(ManifestError, r'kiln-compute\[clusters\]'),
        ):
            from_yaml('version: 1.0.0')


class VersionModule(unittest.TestCase):
    def test_001_9_literals_of_version_py_are_read(self):
        for text in (
            "version = '1.0.0'\ndriver = 'a_v1'\n",
            "version: str = '1.0.0'\ndriver: str = 'a_v1'\nother: int\n",
            "import os\nversion = '1.0.0'\ndriver = 'a_v1'\ncontainer_version = os.getcwd()\n"
            'a.b = 1\nc, d = 1, 2\nbad = {[]: 1}\n',
        ):
            with self.subTest(text):
                self.assertEqual(Manifest(name='a_v1', version='1.0.0'), from_version_module(text))

    def test_001_9_version_py_can_declare_everything(self):
        text = (
            "version = '1.0.0'\ndriver = 'a_v1'\nbeta = True\n"
            "provides = [('vm', 'ubuntu', 'swarm')]\n"
        )
        self.assertEqual(
            Manifest(name='a_v1', version='1.0.0', beta=True, provides=(SWARM,)),
            from_version_module(text),
        )

    def test_a_version_py_that_names_no_driver_is_ignored(self):
        self.assertEqual(Manifest(), from_version_module("version = 'anything'\n"))

    def test_a_version_py_that_is_not_python_is_reported(self):
        for text in ('version = ', 'version = "\0"'):
            with self.subTest(text), self.assertRaisesRegex(ManifestError, 'cannot be read'):
                from_version_module(text)


class Classes(unittest.TestCase):
    def test_an_unreadable_property_provides_is_reported(self):
        class Driver:
            provides = property()

        with self.assertRaisesRegex(ManifestError, 'not a list of types'):
            from_class(Driver)

    def test_inherited_attributes_are_read(self):
        class Base:
            version = '1.0.0'

        class Driver(Base):
            provides = (SWARM,)

        self.assertEqual(Manifest(version='1.0.0', provides=(SWARM,)), from_class(Driver))


class Fuzz(unittest.TestCase):
    @given(st.text() | st.from_regex(r'(version|driver|name|provides)\s*[=:].*'))
    def test_any_text_is_a_manifest_or_one_clear_error(self, text):
        for read in (from_yaml, from_version_module):
            try:
                self.assertIsInstance(read(text), Manifest)
            except ManifestError:
                pass
