"""Backends opened by name, with the settings of their group."""

import pathlib
import tempfile
import unittest

import kiln
from kiln import conf as kiln_conf
from kiln.compute.backends import DriverManager, open_compute, stack_settings
from kiln.compute_drivers.calls import Traffic
from kiln.conf import compute as compute_conf
from kiln.exceptions import ConfigurationError, DriverNotFound


class Opening(unittest.TestCase):
    def manager(self, text=''):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / 'kiln.conf').write_text(text)
        return DriverManager(kiln_conf.load([str(folder / 'kiln.conf')], environment={}))

    def open(self, name, text=''):
        compute = self.manager(text).open(name)
        self.addCleanup(compute.close, 0.1)
        return compute

    def test_several_backends_of_one_driver_are_independent(self):
        text = (
            '[compute]\nowner = me\n[compute:east]\ndriver = noop\n[compute:west]\ndriver = noop\n'
        )
        manager = self.manager(text)
        self.assertEqual(['east', 'west'], manager.backends())
        east, west = manager.open('east'), manager.open('west')
        self.addCleanup(east.close, 0.1)
        self.addCleanup(west.close, 0.1)
        east.build(name='only-here').result()
        self.assertEqual([], list(west.list_amphorae().result()))
        (amphora,) = east.list_amphorae().result()
        self.assertEqual('me', amphora.owner)
        self.assertEqual(
            {'east/read', 'east/build', 'east/change'}, {c.name for c in east.circuits()}
        )

    def test_an_unknown_option_is_reported_once_with_its_group_and_the_nearest_name(self):
        text = '[compute:east]\ndriver = noop\nmax_worker = 4\nqqq = 1\ncall_timeout = 9\n'
        manager = self.manager(text)
        with self.assertLogs('kiln.compute.backends', 'WARNING') as logs:
            for _ in range(2):
                manager.open('east').close(0.1)
        self.assertEqual(
            [
                'Group [compute:east] has an unknown option, max_worker; it is ignored. '
                'Did you mean max_workers?',
                'Group [compute:east] has an unknown option, qqq; it is ignored.',
            ],
            [record.getMessage() for record in logs.records],
        )

    def test_a_missing_option_that_is_misspelt_is_named_as_it_is_written(self):
        text = (
            '[compute:forgot]\ndriver = nova\nauth_url = http://127.0.0.1:9\nusername = kiln\n'
            'pasword = x\n'
        )
        with self.assertRaises(ConfigurationError) as caught:
            self.open('forgot', text)
        self.assertEqual(
            "Cannot open backend 'forgot': Cannot use auth_type password, as option password is "
            'missing or misspelt. Group [compute:forgot] has an unknown option, pasword; it is '
            'ignored. Did you mean password?',
            str(caught.exception),
        )

    def test_options_with_a_dash_or_an_older_name_are_known(self):
        text = '[compute:noop]\nmax-workers = 4\n[compute:nova]\nauth_type = none\n'
        text += 'tenant_name = kiln\n'
        manager = self.manager(text)
        with self.assertNoLogs('kiln.compute.backends', 'WARNING'):
            for name in ('noop', 'nova'):
                manager.open(name).close(0.1)

    def test_defaults_apply_to_options_that_the_group_leaves_unset(self):
        manager = self.manager('[compute:noop]\nzones = mine\n')
        given = {'zones': ['theirs'], 'flavors': None, 'networks': ['lb-net']}
        compute = manager.open('noop', defaults=given)
        self.addCleanup(compute.close, 0.1)
        catalogue = compute.driver.cloud.catalogue
        self.assertEqual(
            (['mine'], None, ['lb-net']),
            (catalogue.zones, catalogue.flavors, catalogue.networks),
        )

    def test_defaults_must_be_options_of_the_driver(self):
        with self.assertRaisesRegex(ConfigurationError, r'\[compute:noop\].*no_such'):
            self.manager().open('noop', defaults={'no_such': 1})

    def test_a_group_named_like_its_driver_does_not_have_to_set_driver(self):
        self.assertEqual('noop', self.open('noop', '[compute:noop]\nmax_workers = 4\n').name)

    def test_thread_shares_follow_max_workers_unless_they_are_set(self):
        conf = kiln_conf.load([], [], environment={
            'KILN_COMPUTE_BIG__MAX_WORKERS': '64', 'KILN_COMPUTE_BIG__BUILD_WORKERS': '5',
        })  # fmt: skip
        values = kiln_conf.register(conf, 'compute:big', compute_conf.BACKEND_OPTS)
        shares = stack_settings(values).executor.shares
        self.assertEqual({Traffic.READ: 64, Traffic.BUILD: 5, Traffic.CHANGE: 48}, shares)

    def test_a_thread_share_above_max_workers_names_group_and_option(self):
        with self.assertRaisesRegex(
            ConfigurationError, r'\[compute:noop\]: .*build_workers must be 1 to 4'
        ):
            self.open('noop', '[compute:noop]\nmax_workers = 4\nbuild_workers = 5\n')
        with self.assertRaisesRegex(ConfigurationError, 'read_workers'):
            self.open('noop', '[compute:noop]\nread_workers = 0\n')

    def test_without_a_name_the_default_backend_is_opened(self):
        compute = self.open(None, '[compute]\ndefault_backend = x\n[compute:x]\ndriver = noop\n')
        self.assertEqual('x', compute.name)

    def test_the_error_of_an_unknown_backend_lists_configured_and_installed_names(self):
        with self.assertRaises(DriverNotFound) as caught:
            self.open('nowhere', '[compute:east]\ndriver = noop\n')
        self.assertIn('east', str(caught.exception))
        self.assertIn('noop', str(caught.exception))

    def test_the_error_of_a_backend_without_a_group_says_so_and_lists_the_groups(self):
        text = '[compute:small]\ndriver = noop\n[compute:east]\ndriver = noop\n'
        with self.assertRaises(ConfigurationError) as caught:
            self.open('nova', text)
        said = str(caught.exception)
        self.assertIn('there is no group [compute:nova]; there are: east, small.', said)
        self.assertIn('option auth_url is missing', said)
        self.assertNotIn('***', said)

    def test_a_backend_with_an_unknown_driver_names_the_driver(self):
        with self.assertRaisesRegex(DriverNotFound, "'tsunami'"):
            self.open('east', '[compute:east]\ndriver = tsunami\n')

    def test_a_wrong_option_names_its_group(self):
        with self.assertRaisesRegex(ConfigurationError, r'\[compute:noop\]'):
            self.open('noop', '[compute:noop]\ncall_timeout = -1\n')

    def test_a_wrong_url_for_shared_circuits_is_named_and_not_quoted(self):
        with self.assertRaisesRegex(
            ConfigurationError, r'\[compute:noop\].*redis://127'
        ) as caught:
            self.open('noop', '[compute:noop]\ncircuit_redis_url = http://me:hush@h/0\n')
        self.assertNotIn('hush', str(caught.exception))

    def test_a_drivers_own_option_error_is_reported(self):
        with self.assertRaisesRegex(ConfigurationError, "Cannot read fault 'nonsense'"):
            self.open('noop', '[compute:noop]\nfaults = nonsense\n')
        with self.assertRaisesRegex(ConfigurationError, 'a simulated cloud in file /nowhere'):
            self.open('noop', '[compute:noop]\npath = /nowhere/at/all.db\n')

    def test_a_configured_rate_limits_calls(self):
        compute = self.open('noop', '[compute:noop]\nrate = 100\nrate_burst = 3\n')
        compute.build().result()

    def test_metrics_can_be_switched_on(self):
        compute = self.open('noop', '[compute]\nmetrics = true\n')
        compute.build().result()

    def test_the_package_exports_only_the_public_names(self):
        for name in dir(kiln):
            with self.subTest(name):
                self.assertIsNotNone(getattr(kiln, name))
        self.assertIs(open_compute, kiln.open_compute)
        self.assertEqual(
            {'kiln', 'builtins'},
            {
                str(getattr(kiln, name).__module__).partition('.')[0]
                for name in dir(kiln)
                if isinstance(getattr(kiln, name), type)
            }
            | {'builtins'},
        )
        with self.assertRaisesRegex(AttributeError, 'nonsense'):
            kiln.nonsense  # noqa: B018
