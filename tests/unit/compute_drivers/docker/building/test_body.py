"""The body of the request that creates a container."""

import dataclasses
import unittest

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.docker.building import body
from kiln.compute_drivers.docker.flavors import Flavor
from kiln.exceptions import InvalidBuildRequest
from kiln.models import BuildRequest
from tests.unit.compute_drivers.docker.test_settings import read

ASKED = Asked(verb='build', subject='web')
REQUEST = BuildRequest(build_key='k1', name='Web_1', owner='site')
CHOSEN = body.Chosen(
    image='plain:1',
    image_id='sha256:1',
    image_labels={},
    flavor=Flavor(),
    networks=(),
    labels={'kiln.owner': 'site', 'kiln.key': 'k1'},
    systemd=False,
)


def made(chosen=None, **settings):
    return body.create_body(
        REQUEST, dataclasses.replace(CHOSEN, **(chosen or {})), read(**settings)
    )


class Bodies(unittest.TestCase):
    def test_a_plain_container_has_only_defaults(self):
        self.assertEqual(
            {
                'Image': 'plain:1',
                'Hostname': 'web-1',
                'Labels': {'kiln.owner': 'site', 'kiln.key': 'k1'},
                'Tty': False,
                'StopTimeout': 10,
                'ExposedPorts': {},
                'HostConfig': {
                    'Privileged': False,
                    'RestartPolicy': {'Name': 'unless-stopped', 'MaximumRetryCount': 0},
                },
            },
            made(),
        )

    def test_a_container_has_a_terminal_if_the_option_says_so(self):
        self.assertTrue(made(tty=True)['Tty'])

    def test_each_published_port_is_exposed(self):
        published = made(publish=['8080:80', '8443:443'])
        self.assertEqual({'80/tcp', '443/tcp'}, set(published['ExposedPorts']))

    def test_a_host_name_is_made_of_the_whole_name(self):
        request = dataclasses.replace(REQUEST, name='Wéb')
        self.assertEqual('w-b', body.create_body(request, CHOSEN, read())['Hostname'])

    def test_a_flavor_sets_limits(self):
        host = made({'flavor': Flavor(nano_cpus=5, memory=6, pids=7)})['HostConfig']
        self.assertEqual((5, 6, 7), (host['NanoCpus'], host['Memory'], host['PidsLimit']))

    def test_the_first_network_is_connected_with_the_name_as_alias(self):
        hung = [body.Hung(network='n1', address='192.0.2.7'), body.Hung(network='n2')]
        sent = made({'networks': hung})
        self.assertEqual('n1', sent['HostConfig']['NetworkMode'])
        self.assertEqual(
            {'n1': {'Aliases': ['web-1'], 'IPAMConfig': {'IPv4Address': '192.0.2.7'}}},
            sent['NetworkingConfig']['EndpointsConfig'],
        )

    def test_a_predefined_network_gets_no_alias(self):
        sent = made({'networks': [body.Hung(network='none')]})
        self.assertEqual('none', sent['HostConfig']['NetworkMode'])
        self.assertNotIn('NetworkingConfig', sent)

    def test_ipv4_and_ipv6_addresses_are_requested(self):
        hung = body.Hung(network='n1', address='2001:db8::1')
        self.assertEqual({'IPv6Address': '2001:db8::1'}, body.endpoint(hung, 'w')['IPAMConfig'])

    def test_volumes_of_image_and_backend_are_labelled_without_duplicates(self):
        sent = made({'image_labels': {'kiln.volumes': '/var/lib/docker,/data'}}, volumes=['/data'])
        mounts = sent['HostConfig']['Mounts']
        self.assertEqual(['/data', '/var/lib/docker'], [one['Target'] for one in mounts])
        self.assertEqual(
            {'Labels': {'kiln.owner': 'site', 'kiln.key': 'k1'}}, mounts[0]['VolumeOptions']
        )
        self.assertNotIn('Source', mounts[0])
        self.assertEqual({'volume'}, {one['Type'] for one in mounts})

    def test_a_machine_that_boots_systemd_gets_what_systemd_needs(self):
        sent = made({'systemd': True}, privileged=True, tmpfs=['/tmp'])
        self.assertEqual({'/run': '', '/run/lock': '', '/tmp': ''}, sent['HostConfig']['Tmpfs'])
        self.assertEqual('SIGRTMIN+3', sent['StopSignal'])
        self.assertEqual(['container=docker'], sent['Env'])
        self.assertTrue(sent['Tty'] and sent['HostConfig']['Privileged'])

    def test_a_configured_stop_signal_overrides_that_of_systemd(self):
        sent = made({'systemd': True}, privileged=True, stop_signal='SIGINT')
        self.assertEqual('SIGINT', sent['StopSignal'])

    def test_all_configured_options_are_included(self):
        sent = made(
            publish=['80', '8080:80'], devices=['/dev/fuse'], mounts=['/srv:/data:ro'],
            dns=['192.0.2.1'], init=True, cgroup_parent='/nodes', shm_size='1m',
            restart='on-failure:2',
        )  # fmt: skip
        host = sent['HostConfig']
        self.assertEqual({'80/tcp': {}}, sent['ExposedPorts'])
        self.assertEqual(
            {'80/tcp': [{'HostIp': '', 'HostPort': ''}, {'HostIp': '', 'HostPort': '8080'}]},
            host['PortBindings'],
        )
        self.assertEqual('/dev/fuse', host['Devices'][0]['PathInContainer'])
        self.assertEqual(
            {'Type': 'bind', 'Source': '/srv', 'Target': '/data', 'ReadOnly': True},
            host['Mounts'][0],
        )
        self.assertEqual((['192.0.2.1'], True), (host['Dns'], host['Init']))
        self.assertEqual(('/nodes', 1 << 20), (host['CgroupParent'], host['ShmSize']))
        self.assertEqual({'Name': 'on-failure', 'MaximumRetryCount': 2}, host['RestartPolicy'])


class Networks(unittest.TestCase):
    def test_a_network_can_be_named_with_an_address(self):
        self.assertEqual(body.Hung(network='n1'), body.hung_on(ASKED, 'n1'))
        self.assertEqual(
            body.Hung(network='n1', address='192.0.2.7'), body.hung_on(ASKED, 'n1=192.0.2.7')
        )

    def test_invalid_network_names_and_addresses_are_refused_before_any_request(self):
        for network in ('a/b', '', '=192.0.2.7', 'n1=', 'n1=here'):
            with self.subTest(network), self.assertRaises(InvalidBuildRequest):
                body.hung_on(ASKED, network)
