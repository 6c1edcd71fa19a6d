"""Options from files and KILN_* variables, and errors that name invalid ones."""

import io
import pathlib
import re
import tempfile
import unittest

from oslo_config import cfg, generator

from kiln import conf as kiln_conf
from kiln.compute_drivers.appliance.driver import ApplianceDriver
from kiln.compute_drivers.docker.driver import DockerDriver
from kiln.compute_drivers.heat.driver import StackDriver
from kiln.compute_drivers.ironic.driver import IronicDriver
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.compute_drivers.nova.driver import NovaDriver
from kiln.conf import clusters, compute, db, hooks, images, opts, secrets
from kiln.exceptions import ConfigurationError


class Loading(unittest.TestCase):
    def setUp(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.file = folder / 'kiln.conf'

    def load(self, text='', environment=None):
        self.file.write_text(text)
        return kiln_conf.load([str(self.file)], environment=environment or {})

    def test_without_configuration_the_defaults_apply(self):
        self.assertEqual('noop', self.load().compute.default_backend)

    def test_backends_are_the_groups_named_compute_colon(self):
        conf = self.load('[compute]\nowner = me\n[compute:east]\n[compute:west]\n')
        self.assertEqual(['east', 'west'], kiln_conf.backend_names(conf))

    def test_the_environment_overrides_the_file(self):
        conf = self.load(
            '[compute:east]\nrate = 5\n', environment={'KILN_COMPUTE_EAST__RATE': '7.5'}
        )
        values = kiln_conf.register(conf, 'compute:east', compute.BACKEND_OPTS)
        self.assertEqual(7.5, values.rate)

    def test_an_invalid_value_in_a_file_is_reported_with_its_option(self):
        conf = self.load('[compute:east]\nmax_workers = many\n')
        with self.assertRaisesRegex(ConfigurationError, 'max_workers'):
            kiln_conf.register(conf, 'compute:east', compute.BACKEND_OPTS)

    def test_an_invalid_value_in_the_environment_is_reported_with_its_option(self):
        with self.assertRaisesRegex(ConfigurationError, r'\[compute\] owner'):
            self.load(environment={'KILN_COMPUTE__OWNER': 'no spaces allowed'})

    def test_a_list_option_has_one_line_for_each_value_in_the_environment(self):
        lines = ['vm, ubuntu, swarm: a_v1', '*, *, *: b_v1']
        conf = self.load(environment={'KILN_CLUSTERS__DRIVER_PREFERENCE': '\n'.join(lines)})
        self.assertEqual(lines, conf.clusters.driver_preference)

    def test_a_missing_file_is_one_clear_error(self):
        with self.assertRaisesRegex(ConfigurationError, 'nowhere.conf'):
            kiln_conf.load(['/nowhere.conf'])

    def test_a_file_with_invalid_syntax_is_one_clear_error(self):
        with self.assertRaisesRegex(ConfigurationError, 'Cannot read the configuration'):
            self.load('this is not a configuration')

    def test_a_missing_directory_is_one_clear_error(self):
        with self.assertRaisesRegex(ConfigurationError, 'directory /nowhere does not exist'):
            kiln_conf.load([], ['/nowhere'])

    def test_a_file_that_cannot_be_read_as_text_is_reported(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / 'binary.conf').write_bytes(b'\xff\xfe\x00')
        for path in (folder, folder / 'binary.conf'):
            with (
                self.subTest(path.name),
                self.assertRaisesRegex(ConfigurationError, f'configuration in {path}: '),
            ):
                kiln_conf.load([str(path)])

    def test_a_controllers_own_config_object_ignores_the_environment(self):
        conf = cfg.ConfigOpts()
        conf([], default_config_files=[])
        values = kiln_conf.register(conf, 'compute', compute.SITE_OPTS)
        self.assertEqual('kiln', values.owner)

    def test_two_different_options_of_one_name_are_one_clear_error(self):
        conf = self.load()
        with self.assertRaisesRegex(ConfigurationError, r'the options of \[compute\]'):
            kiln_conf.register(conf, 'compute', [cfg.IntOpt('owner', help='Another.')])

    def test_a_multi_value_option_reads_one_value_per_line_from_the_environment(self):
        conf = self.load(environment={'KILN_X__MANY': 'a\nb'})
        self.assertEqual(['a', 'b'], kiln_conf.register(conf, 'x', [cfg.MultiStrOpt('many')]).many)

    def test_a_number_that_is_not_finite_is_refused(self):
        for word in ('nan', 'inf'):
            conf = self.load(environment={'KILN_X__SECONDS': word})
            with self.subTest(word), self.assertRaisesRegex(ConfigurationError, 'not a finite'):
                kiln_conf.register(conf, 'x', [cfg.FloatOpt('seconds', min=1.0)])

    def test_an_option_that_needs_a_value_is_not_empty(self):
        with self.assertRaisesRegex(ConfigurationError, r'\[clusters\] lease: it is empty'):
            self.load('[clusters]\nlease =\n')

    def test_an_option_named_like_a_method_of_its_group_is_refused(self):
        for name in ('keys', 'items', 'values', 'get'):
            with self.assertRaisesRegex(ConfigurationError, rf'\[compute:east\] {name}'):
                kiln_conf.register(cfg.ConfigOpts(), 'compute:east', [cfg.StrOpt(name)])

    def test_the_url_of_redis_is_never_printed(self):
        (url,) = [opt for opt in compute.BACKEND_OPTS if opt.name == 'circuit_redis_url']
        self.assertTrue(url.secret)


class TheSample(unittest.TestCase):
    def test_every_option_has_a_help_that_is_a_sentence(self):
        for group, options in opts.list_opts():
            for opt in options:
                self.assertRegex(opt.help or '', r'^[A-Z].*\.$', f'{group}: {opt.name}')

    def test_a_site_group_and_an_example_of_a_backend_are_listed(self):
        names = [getattr(group, 'name', group) for group, _ in opts.list_opts()]
        drivers = ('appliance', 'docker', 'heat', 'ironic', 'noop', 'nova')
        backends = [f'compute:{name}' for name in drivers]
        self.assertEqual(
            ['compute', 'clusters', 'db', 'hooks', 'images', 'secrets', *backends], names
        )

    def test_the_generator_writes_every_option_with_its_group(self):
        conf = cfg.ConfigOpts()
        generator.register_cli_opts(conf)
        conf(['--namespace', 'kiln'], default_config_files=[], default_config_dirs=[])
        sample = io.StringIO()
        generator.generate(conf, sample)
        groups = re.split(r'^\[(.+)\]$', sample.getvalue(), flags=re.MULTILINE)
        written = {
            (group, name)
            for group, text in zip(groups[1::2], groups[2::2], strict=True)
            for name in re.findall(r'^#(\w+) =', text, flags=re.MULTILINE)
        }
        expected = {('compute', opt.dest) for opt in compute.SITE_OPTS}
        expected |= {('clusters', opt.dest) for opt in clusters.OPTS}
        expected |= {('db', opt.dest) for opt in db.OPTS}
        expected |= {('hooks', opt.dest) for opt in hooks.OPTS}
        expected |= {('images', opt.dest) for opt in images.OPTS}
        expected |= {('secrets', opt.dest) for opt in secrets.OPTS}
        for driver in (
            ApplianceDriver, DockerDriver, StackDriver, IronicDriver, NoopDriver, NovaDriver
        ):  # fmt: skip
            for opt in (*compute.BACKEND_OPTS, *driver.options):
                expected.add((f'compute:{driver.name}', opt.dest))
        self.assertEqual(expected, written)
