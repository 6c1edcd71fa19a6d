import ast
import configparser
import importlib
import string
import tempfile
import unittest
import warnings
from importlib.resources import files
from pathlib import Path

from kiln.cli.driver.scaffold.skeletons import new_compute_driver
from kiln.compute.loading import contract_violations
from kiln.exceptions import InvalidRequest
from kiln.models import AmphoraType
from kiln.testing.conformance import BehaviourOutcome
from kiln.testing.conformance.suite import behaviours
from kiln.testing.runner import show
from tests.unit.cli.driver.generated_package import importable, module_at

#: A name of the maximum length, in the maximum number of words.
LONGEST = 'abcdefghi_jklmnopq_r'

FILES = {
    '.gitignore',
    'README.rst',
    'kiln_acme/__init__.py',
    'kiln_acme/bench.py',
    'kiln_acme/client.py',
    'kiln_acme/conf.py',
    'kiln_acme/driver.py',
    'kiln_acme/errors.py',
    'kiln_acme/py.typed',
    'kiln_acme/translate.py',
    'pyproject.toml',
    'setup.cfg',
    'tests/test_build.py',
    'tests/test_conformance.py',
    'tests/test_errors.py',
    'tests/test_translate.py',
    'tox.ini',
}


class ScaffoldTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.target = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def test_it_writes_a_whole_package_and_returns_the_files(self):
        written = new_compute_driver('acme', 'container', self.target)
        root = self.target / 'kiln-driver-acme'
        self.assertEqual({str(path.relative_to(root)) for path in written}, FILES)
        self.assertEqual({path for path in self.target.rglob('*') if path.is_file()}, set(written))

    def test_a_missing_target_folder_is_created(self):
        new_compute_driver('acme', 'vm', self.target / 'my' / 'drivers')
        self.assertTrue((self.target / 'my' / 'drivers' / 'kiln-driver-acme').is_dir())

    def test_the_entry_points_load_the_driver_and_its_options(self):
        new_compute_driver('acme_metal', 'bare_metal', self.target)
        setup = configparser.ConfigParser()
        setup.read(self.target / 'kiln-driver-acme-metal' / 'setup.cfg')
        points = setup['options.entry_points']
        self.assertEqual(setup['metadata']['name'], 'kiln-driver-acme-metal')
        self.assertEqual(
            points['kiln.compute_drivers'].strip(),
            'acme_metal = kiln_acme_metal.driver:AcmeMetalDriver',
        )
        self.assertEqual(
            points['oslo.config.opts'].strip(), 'kiln_acme_metal = kiln_acme_metal.conf:list_opts'
        )

    def test_every_amphora_type_sets_the_limits_and_the_texts(self):
        words = {
            AmphoraType.VM: 'virtual machines',
            AmphoraType.CONTAINER: 'containers',
            AmphoraType.BARE_METAL: 'bare metal machines',
            AmphoraType.HW_LOAD_BALANCER: 'hardware load balancers',
        }
        for kind in AmphoraType:
            with self.subTest(kind):
                name = f'x{kind.value}'
                root = self.target / f'kiln-driver-{name.replace("_", "-")}'
                new_compute_driver(name, kind.value, self.target)
                driver = (root / f'kiln_{name}' / 'driver.py').read_text()
                self.assertIn(f'amphora_types=frozenset({{AmphoraType.{kind.name}}})', driver)
                self.assertIn(f'builds {words[kind]} on', driver)
                self.assertIn(f'builds {words[kind]} on', (root / 'README.rst').read_text())

    def test_no_placeholder_is_left_and_all_files_are_python(self):
        for path in new_compute_driver('acme', 'vm', self.target):
            text = path.read_text()
            self.assertEqual(string.Template(text).get_identifiers(), [], path)
            if path.suffix == '.py':
                ast.parse(text)

    def test_an_invalid_name_is_refused(self):
        for name in (
            '',
            'Acme',
            '1acme',
            'ac-me',
            '_acme',
            'acme_',
            'ac__me',
            'a' * 21,
            '../x',
            'é',
        ):
            with self.subTest(name), self.assertRaisesRegex(InvalidRequest, 'Cannot name'):
                new_compute_driver(name, 'vm', self.target)
        self.assertEqual(list(self.target.iterdir()), [])

    def test_existing_files_are_not_changed(self):
        mine = self.target / 'kiln-driver-acme' / 'setup.cfg'
        mine.parent.mkdir()
        mine.write_text('mine')
        with self.assertRaisesRegex(InvalidRequest, 'exists'):
            new_compute_driver('acme', 'vm', self.target)
        self.assertEqual([path.read_text() for path in mine.parent.iterdir()], ['mine'])

    def test_no_template_can_be_imported_as_a_part_of_kiln(self):
        templates = Path(str(files('kiln.cli.driver.scaffold'))) / 'templates'
        names = [path.name for path in templates.rglob('*') if path.is_file()]
        self.assertEqual([name for name in names if not name.endswith('.tmpl')], [])


class GeneratedPackageTest(unittest.TestCase):
    """With its own runner it is tried in tests/functional/scaffold."""

    def setUp(self):
        super().setUp()
        target = Path(self.enterContext(tempfile.TemporaryDirectory()))
        new_compute_driver('acme', 'container', target)
        self.root = target / 'kiln-driver-acme'
        self.enterContext(importable(self.root, 'kiln_acme'))

    def cases_of(self, name):
        module = module_at(self.root / 'tests' / f'{name}.py')
        suite = unittest.defaultTestLoader.loadTestsFromModule(module)
        return [case for cases in suite for case in cases]

    def outcomes(self, cases):
        # As its settings have it.
        with warnings.catch_warnings():
            warnings.simplefilter('error')
            shown = [show(case, 'generated') for case in cases]
        failed = [(one.name, one.reason) for one in shown if one.outcome == 'failed']
        self.assertEqual([], failed)
        return [one.outcome for one in shown]

    def test_its_tests_pass_as_generated(self):
        files = {path.stem for path in (self.root / 'tests').glob('test_*.py')}
        others = {'test_build', 'test_errors', 'test_translate'}
        self.assertEqual({'test_conformance', *others}, files)
        for name in sorted(others):
            outcomes = self.outcomes(self.cases_of(name))
            self.assertGreaterEqual(len(outcomes), 5)
            self.assertEqual({BehaviourOutcome.PASSED}, set(outcomes))

    def test_its_driver_passes_the_whole_kit(self):
        cases = self.cases_of('test_conformance')
        kit = {name for _, _, name in behaviours()}
        self.assertEqual(kit, {case._testMethodName for case in cases})
        # Its stand-in can play every fault, so nothing is left that cannot be shown.
        self.assertEqual({BehaviourOutcome.PASSED}, set(self.outcomes(cases)))

    def test_its_driver_keeps_the_signatures_of_the_contract(self):
        driver = importlib.import_module('kiln_acme.driver')
        self.assertEqual([], list(contract_violations(driver.AcmeDriver)))

    def test_its_lines_are_within_its_own_limit(self):
        target = Path(self.enterContext(tempfile.TemporaryDirectory()))
        for path in new_compute_driver(LONGEST, 'hw_load_balancer', target):
            if path.suffix == '.py':
                self.assertLessEqual(max(map(len, path.read_text().splitlines())), 99, path)
