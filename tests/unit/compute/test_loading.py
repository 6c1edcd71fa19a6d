"""Drivers found by entry point, from really installed (tiny) packages."""

import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

from kiln.compute.loading import contract_violations, installed_drivers, load_compute_driver
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.models import Limits

GOOD = """
    from kiln.compute_drivers.base import AmphoraComputeDriver
    from kiln.models import Limits

    class Driver(AmphoraComputeDriver):
        limits = Limits()
        def _build(self, request): return 'id'
        def _delete(self, amphora_id): pass
        def _get(self, amphora_id): raise KeyError
        def _list(self, owner): return ()
"""


class LoadingFromPackages(unittest.TestCase):
    def setUp(self):
        self.site = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def install(self, distribution, module, source, name='acme', requires=''):
        """Create the files of an installed package with one driver."""
        (self.site / f'{module}.py').write_text(textwrap.dedent(source))
        info = self.site / f'{distribution}-1.0.dist-info'
        info.mkdir()
        (info / 'METADATA').write_text(
            f'Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n{requires}'
        )
        (info / 'entry_points.txt').write_text(
            f'[kiln.compute_drivers]\n{name} = {module}:Driver\n'
        )

    def load(self, name='acme', code=None):
        # In a separate process, because entry points are cached for the life of a process.
        code = code or (
            'from kiln.compute.loading import load_compute_driver\n'
            'from kiln.exceptions import KilnError\n'
            f'try: print("loaded", load_compute_driver({name!r}).__module__)\n'
            'except KilnError as exc: print(exc.code, exc)\n'
        )
        root = pathlib.Path(__file__).parents[3]
        done = subprocess.run(
            [sys.executable, '-W', 'error', '-c', code],
            # In this home directory stevedore caches its entry points.
            env={**os.environ, 'PYTHONPATH': f'{self.site}:{root}', 'HOME': str(self.site)},
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual('', done.stderr)
        return done.stdout.strip()

    def test_a_driver_is_loaded_by_the_name_of_its_entry_point(self):
        self.install('acme', 'acme_driver', GOOD)
        self.assertEqual('loaded acme_driver', self.load())

    def test_a_bench_that_cannot_be_imported_is_found_when_that_driver_is_checked(self):
        self.install('acme', 'acme_driver', GOOD + "        bench = 'nowhere:Bench'\n")
        code = (
            'from kiln.cli.app import KilnApp\n'
            'for name in ([], ["acme"]):\n'
            '    print(KilnApp().run(["driver", "check", "--kind", "compute", *name]))\n'
        )
        of_all, _, of_one = self.load(code=code).partition('0\n')
        self.assertNotIn('nowhere', of_all)
        self.assertIn("Cannot load bench 'nowhere:Bench' of 'acme'", ' '.join(of_one.split()))
        self.assertTrue(of_one.endswith('\n1'), of_one)

    def test_the_error_of_an_unknown_name_lists_installed_drivers(self):
        self.install('acme', 'acme_driver', GOOD)
        said = self.load('nowhere')
        self.assertIn('driver_not_found', said)
        self.assertIn('acme', said)
        self.assertIn('noop', said)

    def test_two_packages_with_one_name_are_a_conflict_that_names_both(self):
        self.install('acme', 'acme_driver', GOOD)
        self.install('rival', 'rival_driver', GOOD)
        said = self.load()
        self.assertIn('driver_conflict', said)
        self.assertIn('acme', said)
        self.assertIn('rival', said)

    def test_a_missing_library_is_named_with_its_extra(self):
        self.install(
            'kiln-driver-acme', 'acme_driver', 'import no_such_library',
            requires='Requires-Dist: no-such-library; extra == "cloud"\n',
        )  # fmt: skip
        said = self.load()
        self.assertIn('driver_load_error', said)
        self.assertIn("Python package 'no_such_library' is not installed", said)
        self.assertIn("pip install 'kiln-driver-acme[cloud]'", said)

    def test_a_missing_library_without_an_extra_is_named_alone(self):
        self.install('kiln-driver-acme', 'acme_driver', 'import no_such_library')
        said = self.load()
        self.assertIn("No module named 'no_such_library'", said)
        self.assertNotIn('pip install', said)
        self.assertNotIn('extra', said)

    def test_a_driver_without_a_required_hook_is_refused_and_the_hook_named(self):
        self.install('acme', 'acme_driver', GOOD.replace('def _list', 'def _lost'))
        self.assertIn('it lacks _list', self.load())

    def test_a_driver_for_another_contract_is_refused(self):
        self.install(
            'acme', 'acme_driver', GOOD.replace('limits =', 'contract_version = 9; limits =')
        )
        self.assertIn('contract 9', self.load())

    def test_a_hook_with_another_signature_is_refused_and_shown(self):
        self.install(
            'acme', 'acme_driver', GOOD.replace('_get(self, amphora_id)', '_get(self, uuid)')
        )
        self.assertIn('_get(self, uuid) should be _get(self, amphora_id)', self.load())

    def test_the_list_of_drivers_distinguishes_broken_drivers_from_missing_extras(self):
        self.install('acme', 'acme_driver', 'import no_such_library')
        self.install(
            'kiln-driver-box', 'box_driver', 'import no_such_client', name='box',
            requires='Requires-Dist: no-such-client; extra == "box"\n',
        )  # fmt: skip
        said = self.load(
            code='from kiln.compute.loading import installed_drivers\n'
            'for d in installed_drivers(): print(d.name, d.distribution, d.version, d.install, '
            'd.error)\n'
        )
        self.assertIn('noop kiln-compute', said)
        self.assertRegex(said, 'acme acme 1.0 None Cannot load .*no_such_library')
        self.assertIn("box kiln-driver-box 1.0 pip install 'kiln-driver-box[box]' Cannot", said)


class TheContractCheck(unittest.TestCase):
    def test_noop_fulfils_the_contract(self):
        self.assertEqual([], list(contract_violations(NoopDriver)))

    def test_a_class_that_is_not_a_driver_is_reported(self):
        self.assertIn('not a subclass', next(contract_violations(object)))
        self.assertIn('not a subclass', next(contract_violations(42)))

    def test_a_public_method_with_another_default_is_found(self):
        class Eager(NoopDriver):
            limits = Limits()

            def delete(self, amphora_id, *, timeout=5.0):
                """Differ only in a default."""

        self.assertIn('delete(', next(contract_violations(Eager)))

    def test_the_abstract_base_lacks_the_five_required_members(self):
        self.assertEqual(
            ['it lacks _build, _delete, _get, _list, limits'],
            list(contract_violations(AmphoraComputeDriver)),
        )


class InstalledHere(unittest.TestCase):
    def test_noop_is_installed_and_loads(self):
        self.assertIs(NoopDriver, load_compute_driver('noop'))
        self.assertIn('noop', [driver.name for driver in installed_drivers()])
