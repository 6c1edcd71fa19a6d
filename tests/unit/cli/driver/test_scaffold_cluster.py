import ast
import configparser
import string
import tempfile
import unittest
from pathlib import Path

import kiln
from kiln.cli.driver.scaffold.skeletons import (
    Form,
    fork_cluster_driver,
    fork_templates,
    new_cluster_driver,
)
from kiln.cluster_drivers.discovery.lint import mistakes_in
from kiln.exceptions import InvalidRequest
from tests.unit.cli.driver.test_scaffold import LONGEST

MODELS = Path(kiln.__file__).parents[1] / 'doc' / 'examples' / 'cluster_drivers'
IN_TREE = Path(kiln.__file__).parent / 'cluster_drivers'


class NewTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.target = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def test_001_26_each_form_is_a_driver_without_mistakes_whatever_it_is_called(self):
        for form in Form:
            for name in ('x', 'acme_v1', LONGEST):
                with self.subTest(form, name=name):
                    target = self.target / f'{form}-{name}'
                    written = new_cluster_driver(name, form, target)
                    self.assertEqual(
                        {path for path in target.rglob('*') if path.is_file()}, set(written)
                    )
                    (start,) = (path for path in written if path.name == 'start.sh')
                    self.assertEqual((), mistakes_in(start.parents[1]))

    def test_no_placeholder_is_left_and_no_line_is_too_long(self):
        for form in Form:
            for path in new_cluster_driver(LONGEST, form, self.target / form):
                text = path.read_text()
                if path.suffix == '.py':
                    ast.parse(text)
                    self.assertLessEqual(max(map(len, text.splitlines())), 99, path)
                if path.name != 'start.sh':
                    self.assertEqual([], string.Template(text).get_identifiers(), path)

    def test_000_9_a_directory_driver_is_at_most_30_lines_of_yaml_and_one_template(self):
        written = new_cluster_driver('acme_v1', 'directory', self.target)
        for folder in (self.target / 'acme_v1', IN_TREE / 'nodes_v1'):
            lines = (folder / 'driver.yaml').read_text().splitlines()
            self.assertLessEqual(len(lines), 30)
            self.assertEqual(1, len(list((folder / 'templates').iterdir())))
            self.assertEqual([], list(folder.rglob('*.py')))
        self.assertIn(self.target / 'acme_v1' / 'README.rst', written)

    def test_the_entry_point_of_a_package_is_its_folder(self):
        new_cluster_driver('acme_v1', 'package', self.target)
        setup = configparser.ConfigParser()
        setup.read(self.target / 'kiln-driver-acme-v1' / 'setup.cfg')
        points = setup['options.entry_points']
        self.assertEqual('acme_v1 = acme_v1', points['kiln.cluster_drivers'].strip())

    def test_a_driver_whose_engine_is_a_program_is_the_model_under_another_name(self):
        written = new_cluster_driver('acme_v1', 'directory', self.target, base='command')
        home = self.target / 'acme_v1'
        self.assertEqual((), mistakes_in(home))
        self.assertEqual([home / 'README.rst', home / 'bench', home / 'driver.yaml',
                          home / 'program'], written)  # fmt: skip
        for name in 'program', 'bench':
            text = (home / name).read_text().replace("'acme_v1')", "'shelf')")
            self.assertEqual((MODELS / 'shelf_v1' / name).read_text(), text)

    def test_a_program_is_not_written_as_a_package(self):
        with self.assertRaisesRegex(InvalidRequest, 'engine is a program is a directory'):
            new_cluster_driver('acme_v1', 'package', self.target, base='command')

    def test_an_invalid_name_is_refused(self):
        with self.assertRaisesRegex(InvalidRequest, 'Cannot name'):
            new_cluster_driver('Acme', 'directory', self.target)
        self.assertEqual([], list(self.target.iterdir()))


class ForkTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.target = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def test_001_13_a_copy_differs_only_in_name_and_version(self):
        for of in ('nodes_v1', 'example_v1'):
            fork_cluster_driver(IN_TREE / of, f'my_{of}', self.target, version='2.0.0')
            copy = self.target / f'my_{of}'
            self.assertEqual((), mistakes_in(copy))
            differing = [
                path.name
                for path in copy.rglob('*')
                if path.is_file()
                and '__pycache__' not in path.parts
                and path.read_bytes() != (IN_TREE / of / path.relative_to(copy)).read_bytes()
            ]
            self.assertEqual(1, len(differing), differing)

    def test_001_13_a_driver_without_a_name_is_not_forked(self):
        folder = self.target / 'bare'
        folder.mkdir()
        with self.assertRaisesRegex(InvalidRequest, 'neither a driver.yaml nor a version.py'):
            fork_cluster_driver(folder, 'mine', self.target)
        (folder / 'version.py').write_text("version = '1.0.0'\n")
        with self.assertRaisesRegex(InvalidRequest, 'does not declare its name'):
            fork_cluster_driver(folder, 'mine', self.target)
        with self.assertRaisesRegex(InvalidRequest, 'it does not have any'):
            fork_templates(folder, 'mine', self.target)
        self.assertEqual(['bare'], [path.name for path in self.target.iterdir()])

    def test_001_13_an_invalid_version_is_refused(self):
        with self.assertRaisesRegex(InvalidRequest, "like '1.0.0'"):
            fork_cluster_driver(IN_TREE / 'nodes_v1', 'mine', self.target, version='2')
