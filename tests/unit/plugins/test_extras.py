"""Package extras: a failed import names the extra that it needs, if there is one."""

import importlib.metadata
import pathlib
import tempfile
import unittest

from kiln.exceptions import ConfigurationError
from kiln.plugins.extras import KILN, importing, needed_extra

#: Extras for kiln's own developers, whose packages kiln does not import.
FOR_DEVELOPERS = {'lint', 'test'}


def missing(module):
    return ModuleNotFoundError(f'No module named {module!r}', name=module)


def raised(code, module):
    """Return the error of code, as if it were in a module of that name."""
    try:
        exec(code, {'__name__': module})
    except ImportError as exc:
        return exc
    raise AssertionError(f'{code} works')


class OfKiln(unittest.TestCase):
    def test_the_smallest_extra_with_the_package_is_named_with_its_command(self):
        for module, extra in (
            ('docker', 'docker'),
            ('sqlalchemy', 'clusters'),
            ('yaml', 'clusters'),
            ('psycopg', 'postgresql'),
            ('pymysql', 'mariadb'),
            ('opentelemetry', 'tracing'),
        ):
            with self.subTest(module):
                needed = needed_extra(missing(module))
                self.assertEqual(
                    f"Python package '{module}' is not installed. "
                    f"Run: pip install 'kiln-compute[{extra}]'",
                    str(needed),
                )

    def test_of_several_extras_the_one_of_the_driver_is_named(self):
        code = "raise ModuleNotFoundError('gone', name='keystoneauth1')"
        for extra in ('heat', 'ironic', 'nova'):
            error = raised(code, f'kiln.compute_drivers.{extra}.driver')
            self.assertEqual(extra, needed_extra(error).extra)

    def test_every_library_of_an_extra_is_found_by_one_of_its_modules(self):
        modules = {}
        for module, names in importlib.metadata.packages_distributions().items():
            for name in names:
                modules.setdefault(name.lower().replace('_', '-'), set()).add(module)
        extras = importlib.metadata.distribution(KILN).metadata.get_all('Provides-Extra')
        seen = set()
        for line in importlib.metadata.requires(KILN):
            name, _, marker = line.partition(';')
            extra = next((one for one in extras if f'"{one}"' in marker), None)
            if extra is None or extra in FOR_DEVELOPERS:
                continue
            library = name.partition('[')[0].partition('>')[0].strip().lower().replace('_', '-')
            found = [needed_extra(missing(module)) for module in modules[library]]
            with self.subTest(library):
                self.assertTrue(any(found), modules[library])
            seen.add(extra)
        self.assertEqual(set(extras) - FOR_DEVELOPERS, seen)

    def test_a_damaged_package_is_distinguished_from_a_missing_one(self):
        needed = needed_extra(ImportError("cannot import name 'x'", name='docker.errors'))
        self.assertFalse(needed.absent)
        self.assertIn("'docker' is not as it should be", str(needed))

    def test_a_package_outside_all_extras_names_no_extra(self):
        for error in (
            missing('no_such_library'),
            missing('docker.no_such_module'),
            missing('kiln.no_such_module'),
            missing('json.no_such_module'),
            ImportError('of nothing in particular'),
            ValueError('no import at all'),
        ):
            with self.subTest(repr(error)):
                self.assertIsNone(needed_extra(error))

    def test_a_failed_import_becomes_an_error_that_names_the_extra_if_there_is_one(self):
        for module, said in (
            ('yaml', r"Cannot read it: .*'yaml'.* Run: pip install 'kiln-compute\[clusters\]'"),
            ('no_such_library', "Cannot read it: No module named 'no_such_library'. "
             'The package is damaged: install it again'),
        ):  # fmt: skip
            with (
                self.subTest(module),
                self.assertRaisesRegex(ConfigurationError, said) as caught,
                importing('Cannot read it', ConfigurationError),
            ):
                raise missing(module)
            self.assertIsInstance(caught.exception.__cause__, ImportError)

    def test_an_import_error_is_found_as_the_cause_of_another_error(self):
        error = ValueError('it cannot be read')
        error.__cause__ = missing('yaml')
        self.assertEqual('clusters', needed_extra(error).extra)


class OfAVendor(unittest.TestCase):
    def package(self, *requires):
        """Return a package as an installer leaves it."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        info = folder / 'kiln_driver_acme-1.0.dist-info'
        info.mkdir()
        lines = ['Metadata-Version: 2.1', 'Name: kiln-driver-acme', 'Version: 1.0']
        lines += [f'Requires-Dist: {one}' for one in requires]
        (info / 'METADATA').write_text('\n'.join(lines) + '\n')
        return importlib.metadata.Distribution.at(info)

    def needed(self, package, module, *, importer='kiln_acme.client'):
        error = raised(f'import {module}', importer)
        return needed_extra(error, package, driver='acme')

    def test_a_vendors_extra_is_found_by_usual_library_names(self):
        for library in ('acme', 'Acme_SDK', 'python-acme', 'acme-client>=2', 'PyAcme[fast]'):
            with self.subTest(library):
                package = self.package(f'{library}; extra == "cloud"')
                self.assertEqual(
                    "pip install 'kiln-driver-acme[cloud]'", self.needed(package, 'acme').command
                )

    def test_an_extra_named_like_the_driver_is_found_with_any_library_names(self):
        package = self.package("oddly-named>=1 ; extra == 'acme'", 'pytest; extra == "test"')
        self.assertEqual('acme', self.needed(package, 'no_such_library').extra)

    def test_an_extra_that_is_installed_is_not_the_cause(self):
        package = self.package('pytest; extra == "acme"')
        self.assertIsNone(self.needed(package, 'no_such_library'))

    def test_a_missing_module_of_the_vendors_own_names_no_extra(self):
        package = self.package('oddly-named; extra == "acme"')
        self.assertIsNone(self.needed(package, 'kiln_acme_x', importer='kiln_acme_x.driver'))

    def test_a_vendors_package_must_declare_its_own_extras(self):
        # openstacksdk is in extras of kiln's, the smallest of which is ironic; no module of it has
        # that name.
        self.assertIsNone(self.needed(self.package(), 'openstacksdk'))
        needed = self.needed(self.package(), 'openstacksdk', importer='kiln.compute_drivers.x')
        self.assertEqual("pip install 'kiln-compute[ironic]'", needed.command)
