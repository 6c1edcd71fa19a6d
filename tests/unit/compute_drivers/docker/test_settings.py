"""Options of a Docker backend, checked when it is opened."""

import unittest

from hypothesis import given
from hypothesis import strategies as st
from oslo_config import cfg

from kiln.compute_drivers.docker import conf, settings
from kiln.exceptions import ConfigurationError


def options(**given):
    """Return the options of a backend, with defaults for those not given."""
    made = cfg.ConfigOpts()
    made([], default_config_files=[])
    made.register_opts(conf.opts, 'docker')
    for name, value in given.items():
        made.set_override(name, value, 'docker')
    return made.docker


def read(**given):
    return settings.read(options(**given), 'east')


class Defaults(unittest.TestCase):
    def test_containers_are_unprivileged_by_default(self):
        made = read()
        self.assertFalse(made.privileged)
        self.assertEqual(((), (), ()), (made.devices, made.mounts, made.publish))

    def test_one_engine_is_one_zone_named_like_its_backend(self):
        self.assertEqual(('east',), read().zones)
        self.assertEqual(('a', 'b'), read(zones=['a', 'b']).zones)

    def test_images_are_not_pulled_by_default(self):
        self.assertEqual('never', read().pull)

    def test_most_options_are_as_they_are_written(self):
        written = {
            'image': 'plain:1', 'pull': 'missing', 'seed': 'none', 'privileged': True,
            'init': True, 'tty': True, 'stop_signal': 'SIGINT', 'stop_timeout': 7,
            'cgroup_parent': '/nodes', 'networks': ['a', 'b'], 'zones': ['c', 'd'],
        }  # fmt: skip
        made = read(**written)
        for option, value in written.items():
            value = tuple(value) if isinstance(value, list) else value
            self.assertEqual(value, getattr(made, option), option)


class Written(unittest.TestCase):
    def test_published_ports_are_parsed_in_every_form(self):
        made = read(publish=['80', '53/udp', '8080:80', '127.0.0.1::22', '[::1]:1:2/tcp', ':9'])
        self.assertEqual(
            (
                ('80/tcp', {'HostIp': '', 'HostPort': ''}),
                ('53/udp', {'HostIp': '', 'HostPort': ''}),
                ('80/tcp', {'HostIp': '', 'HostPort': '8080'}),
                ('22/tcp', {'HostIp': '127.0.0.1', 'HostPort': ''}),
                ('2/tcp', {'HostIp': '::1', 'HostPort': '1'}),
                ('9/tcp', {'HostIp': '', 'HostPort': ''}),
            ),
            made.publish,
        )

    def test_mounts_and_devices_are_parsed(self):
        made = read(
            mounts=['/srv:/data', '/srv:/data:ro'],
            devices=['/dev/fuse', '/dev/a:/dev/b:r'],
            tmpfs=['/run', '/tmp:size=64m'],
            volumes=['/var/lib/docker'],
        )
        self.assertEqual(
            (
                {'Type': 'bind', 'Source': '/srv', 'Target': '/data', 'ReadOnly': False},
                {'Type': 'bind', 'Source': '/srv', 'Target': '/data', 'ReadOnly': True},
            ),
            made.mounts,
        )
        self.assertEqual(
            [('/dev/fuse', '/dev/fuse', 'rwm'), ('/dev/a', '/dev/b', 'r')],
            [tuple(device.values()) for device in made.devices],
        )
        self.assertEqual({'/run': '', '/tmp': 'size=64m'}, made.tmpfs)
        self.assertEqual(('/var/lib/docker',), made.volumes)

    def test_other_options_are_parsed(self):
        made = read(
            restart='on-failure:3', shm_size='64 MiB', dns=['192.0.2.1'],
            flavors='small: 1 cpu', flavor='small',
        )  # fmt: skip
        self.assertEqual(('on-failure', 3), made.restart)
        self.assertEqual(64 << 20, made.shm_size)
        self.assertEqual(('192.0.2.1',), made.dns)
        self.assertEqual('small', made.flavor)
        self.assertEqual(1_000_000_000, made.flavors['small'].nano_cpus)
        self.assertEqual(('always', 0), read(restart='always').restart)
        self.assertEqual('65535/tcp', read(publish=['65535']).publish[0][0])

    def test_a_mistake_is_reported_with_its_option(self):
        for option, value in (
            ('publish', ['0']), ('publish', ['65536']), ('publish', ['a:80']),
            ('publish', ['host:1:80']), ('publish', ['80/icmp']), ('volumes', ['data']),
            ('volumes', ['/a/../b']), ('tmpfs', ['run']), ('devices', ['fuse']),
            ('devices', ['/dev/a:/dev/b:x']), ('mounts', ['/a']), ('mounts', ['/a:/b:rx']),
            ('mounts', ['a:/b']), ('dns', ['one']), ('restart', 'sometimes'),
            ('restart', 'always:3'), ('shm_size', 'much'), ('flavors', 'x'),
            ('flavor', 'unknown'),
        ):  # fmt: skip
            with self.subTest(option, value=value), self.assertRaises(ConfigurationError) as found:
                read(**{option: value})
            self.assertIn(option, str(found.exception))

    def test_a_mistake_keeps_what_was_wrong_as_its_cause(self):
        with self.assertRaises(ConfigurationError) as caught:
            read(dns=['one'])
        self.assertIsInstance(caught.exception.__cause__, ValueError)

    def test_an_unknown_flavor_is_reported_with_the_known_ones(self):
        for flavors, known in (('', 'none'), ('a: 1 cpu; b: 2 cpu', 'a, b')):
            with self.assertRaisesRegex(ConfigurationError, rf'among flavors \({known}\)'):
                read(flavors=flavors, flavor='c')

    @given(st.text(alphabet='0123456789:./tcpudx[]', max_size=20))
    def test_any_text_is_a_port_or_a_configuration_error(self, text):
        try:
            ((port, _),) = read(publish=[text]).publish
        except ConfigurationError:
            return
        self.assertRegex(port, r'\A\d+/(tcp|udp|sctp)\Z')
