"""Rules of security groups on the real Neutron: which ports they open to other machines."""

import json
import pathlib
import tempfile

from kiln.cluster_drivers.discovery.activation import DiscoverySettings
from kiln.cluster_drivers.discovery.discovery import discover
from kiln.cluster_service.drivers import SiteDrivers
from kiln.cluster_service.site import Site
from kiln.clusters.exceptions import InvalidCluster
from kiln.engine.context import Backends
from kiln.exceptions import InvalidRequest
from tests.functional.nova.site import NovaCase
from tests.unit.cluster_service.site import declared
from tests.unit.db.case import open_new_store

SWARM = ('2377/tcp', '7946/tcp', '7946/udp', '4789/udp')


class SecurityGroups(NovaCase):
    def setUp(self):
        super().setUp()
        self.driver = self.open_driver()

    def closed(self, *args):
        with self.assertRaises(InvalidRequest) as caught:
            self.driver.check_ports(*args)
        return [port for port in SWARM if port in str(caught.exception)]

    def test_the_default_group_of_a_project_opens_every_port_to_its_members(self):
        self.driver.check_ports([], SWARM)
        self.driver.check_ports(['default'], SWARM)

    def test_each_rule_opens_its_port_to_the_members_of_its_group(self):
        group, name = self.make_group()
        closed = list(SWARM)
        for port in SWARM:
            self.assertEqual(closed, self.closed([name], SWARM))
            self.open_port(group, port, remote_group_id=group)
            closed.remove(port)
        self.driver.check_ports([name], SWARM)
        self.driver.check_ports([group], SWARM)
        self.assertEqual(list(SWARM), self.closed([name], SWARM, ['default']))
        # Together with a group that has it.
        self.driver.check_ports([name], SWARM, ['default', name])

    def test_rules_of_several_groups_count_together_and_so_do_those_for_addresses(self):
        (first, first_name), (second, second_name) = self.make_group(), self.make_group()
        self.open_port(first, '2377/tcp', remote_ip_prefix='0.0.0.0/0')
        self.open_port(first, '7946/tcp', remote_ip_prefix='10.0.0.0/8')
        self.open_port(second, '7946/udp', remote_group_id=first)
        both = [first_name, second_name]
        self.assertEqual(['4789/udp'], self.closed(both, SWARM))
        self.open_port(second, '4789/udp', remote_ip_prefix='::/0', ethertype='IPv6')
        self.driver.check_ports(both, SWARM)
        self.assertEqual(['7946/udp', '4789/udp'], self.closed([first_name], SWARM))

    def test_an_unknown_group_is_refused_with_the_known_ones(self):
        with self.assertRaisesRegex(InvalidRequest, "'no-such-group' was not found. Known: "):
            self.driver.check_ports(['no-such-group'], SWARM)


class SwarmPlans(NovaCase):
    def setUp(self):
        super().setUp()
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        site = Site(
            open_new_store(f'sqlite:///{folder}/kiln.db'),
            SiteDrivers(lambda: discover(DiscoverySettings())),
            Backends(lambda name: self.open_compute(), default='nova'),
        )
        self.addCleanup(site.close)
        self.clusters = site.clusters

    def plan(self, **group):
        groups = [
            {'name': 'managers', 'role': 'control', 'count': 1, **group},
            {'name': 'workers', 'count': 2, **group},
        ]
        driver = 'swarm_debian_v1:debian'
        page = {'cluster': 'web', 'driver': driver, 'image': 'tiny', 'nodegroups': groups}
        return '\n'.join(self.clusters.plan(declared(json.dumps(page))).lines())

    def test_a_swarm_in_the_default_group_is_planned(self):
        self.assertIn('workers: +2', self.plan())

    def test_a_swarm_whose_group_closes_its_ports_is_refused_until_they_are_open(self):
        group, name = self.make_group()
        self.open_port(group, '2376/tcp', remote_ip_prefix='0.0.0.0/0')
        with self.assertRaises(InvalidCluster) as caught:
            self.plan(sec_groups=[name])
        found = {one.path: one.message for one in caught.exception.problems}
        self.assertEqual({'nodegroups[0].sec_groups', 'nodegroups[1].sec_groups'}, found.keys())
        self.assertIn('2377/tcp', found['nodegroups[0].sec_groups'])
        self.assertNotIn('2377/tcp', found['nodegroups[1].sec_groups'])
        self.assertEqual([], self.servers())
        for port in SWARM:
            self.open_port(group, port, remote_group_id=group)
        self.assertIn('workers: +2', self.plan(sec_groups=[name]))
