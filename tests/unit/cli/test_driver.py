"""The commands about drivers."""

import unittest

from tests.unit.cli.shell import Shell


class Drivers(Shell):
    def test_the_installed_drivers_are_listed(self):
        noop = next(one for one in self.json('driver', 'list') if one['name'] == 'noop')
        self.assertEqual('kiln-compute', noop['distribution'])
        self.assertTrue(noop['usable'])

    def test_a_driver_shows_what_it_builds_and_its_options(self):
        shown = self.json('driver', 'show', 'noop')
        self.assertIn('container', shown['types'])
        self.assertIn('quota', shown['options'])
        self.assertEqual(5, shown['max_files'])

    def test_a_driver_that_is_not_installed_is_status_2_and_lists_those_that_are(self):
        self.assertIn('Installed: noop', self.fails(2, 'driver', 'show', 'nova'))

    def test_a_new_driver_is_written_and_nothing_is_overwritten(self):
        argv = ['driver', 'new', 'compute', 'acme', '--type', 'container', '--output',
                str(self.folder)]  # fmt: skip
        files = [row['file'] for row in self.json(*argv)]
        self.assertTrue((self.folder / 'kiln-driver-acme' / 'setup.cfg').is_file())
        self.assertIn(str(self.folder / 'kiln-driver-acme' / 'setup.cfg'), files)
        self.assertIn('it exists', self.fails(2, *argv))

    def test_a_new_driver_needs_a_name_a_type_and_a_directory(self):
        here = ['--output', str(self.folder)]
        self.assertIn('lower-case', self.fails(2, 'driver', 'new', 'compute', 'Acme', *here))
        self.fails(2, 'driver', 'new', 'compute', 'acme', '--type', 'toaster', *here)
        self.fails(2, 'driver', 'new', 'cluster', 'acme', *here)
        err = self.fails(2, 'driver', 'new', 'compute', 'acme', '--output', '/nowhere')
        self.assertIn('no directory', err)
        err = self.fails(2, 'driver', 'new', 'compute', 'acme', '--output', '/proc')
        self.assertIn('Cannot write to /proc', err)


class Circuits(Shell):
    def test_circuits_are_listed_with_where_they_live(self):
        rows = self.json('circuit', 'list')
        self.assertEqual({'east/read', 'east/build', 'east/change'}, {row['name'] for row in rows})
        self.assertEqual({('closed', 'this process')}, {
            (row['state'], row['storage']) for row in rows})  # fmt: skip

    def test_opening_one_that_no_other_process_would_see_is_refused(self):
        for verb in ('open', 'close'):
            err = self.fails(2, 'circuit', verb, 'build')
            self.assertIn('Set circuit_redis_url in [compute:east]', err)


class Demo(Shell):
    def test_the_demo_keeps_what_it_promises(self):
        out = self.ok('demo', '--fleet', '6')
        self.assertEqual(12, out.count('\nok  '), out)
        self.assertIn('closed -> open -> half-open -> closed', out)
        self.assertNotIn('\033', out)


class Kit(Shell):
    def setUp(self):
        super().setUp()
        try:
            import kiln.testing.conformance  # noqa: F401
        except ImportError:
            raise unittest.SkipTest('the kit is not merged yet') from None
