"""Ports between nodes: which nodes let which others in, and plans that are refused."""

import dataclasses
import json
import unittest

from kiln.cluster_service.port_checks import GuardedGroup, port_checks
from kiln.clusters.exceptions import InvalidCluster
from kiln.compute.facade import Compute
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.models import Ability
from tests.unit.cluster_service.site import CLOUD, SiteCase
from tests.unit.engine.site import STACK

ALL = '2377/tcp 7946/tcp 7946/udp 4789/udp'
GUARDED = GuardedGroup(
    name='work', backend='east', sec_groups=('web',), ports=('22/tcp',), count=2, grows=True
)


def group(**fields):
    return dataclasses.replace(GUARDED, **fields)


class Pairs(unittest.TestCase):
    def checks(self, *groups):
        return [(one.name, peers) for one, peers in port_checks(groups)]

    def test_nodes_of_one_group_let_each_other_in(self):
        self.assertEqual([('work', ('web',))], self.checks(GUARDED))

    def test_a_node_that_is_alone_needs_no_port(self):
        self.assertEqual([], self.checks(group(count=1)))
        self.assertEqual([], self.checks(group(count=1), group(name='none', count=0)))

    def test_groups_of_nodes_with_the_same_security_groups_are_one_question_each(self):
        alike = [group(name=name, count=1) for name in ('a', 'b', 'c')]
        self.assertEqual([(name, ('web',)) for name in ('a', 'b', 'c')], self.checks(*alike))

    def test_each_node_lets_in_those_with_other_security_groups(self):
        found = self.checks(group(name='a', count=1), group(name='b', sec_groups=('db',)))
        self.assertEqual([('a', ('db',)), ('b', ('web',)), ('b', ('db',))], found)

    def test_nodes_of_another_backend_are_not_compared(self):
        self.assertEqual([], self.checks(group(count=1), group(count=1, backend='west')))

    def test_only_what_a_new_node_has_part_in_is_checked(self):
        old = group(name='old', sec_groups=('db',), grows=False)
        self.assertEqual([], self.checks(old))
        found = self.checks(old, group(name='new', count=1))
        self.assertEqual([('old', ('web',)), ('new', ('db',))], found)

    def test_a_group_without_ports_is_not_asked_but_lets_nobody_off(self):
        found = self.checks(group(name='a', ports=()), group(name='b', sec_groups=('db',)))
        self.assertEqual([('b', ('web',)), ('b', ('db',))], found)


def page(managers, workers, *, control=1, work=1, coe='docker-swarm'):
    """Return the file of a cluster of managers and workers, with the security groups of each."""
    groups = [
        {'name': 'control', 'role': 'control', 'count': control, 'sec_groups': managers},
        {'name': 'work', 'count': work, 'sec_groups': workers},
    ]
    return json.dumps({'cluster': 'web', 'coe': coe, 'image': 'debian', 'nodegroups': groups})


class SwarmPorts(SiteCase):
    """A cloud with a group that is open to its members, and others that are less open."""

    cloud_options = CLOUD | {
        'group_ports': {
            'open': ALL,
            'workers': '7946/tcp 7946/udp 4789/udp',
            'web': '80/tcp 7946/tcp',
        }
    }

    def problems(self, text):
        with self.assertRaises(InvalidCluster) as caught:
            self.plan(text)
        return [(one.path, one.message) for one in caught.exception.problems]

    def test_a_swarm_whose_nodes_reach_each_other_is_planned(self):
        self.plan(page(['open'], ['open'], control=3, work=2))
        self.plan(page([], []))

    def test_closed_ports_are_named_before_anything_is_made(self):
        found = dict(self.problems(page(['web'], ['web'])))
        self.assertEqual({'nodegroups[0].sec_groups', 'nodegroups[1].sec_groups'}, found.keys())
        self.assertIn(
            'no rule opens 7946/udp, 4789/udp, 2377/tcp', found['nodegroups[0].sec_groups']
        )
        self.assertNotIn('2377/tcp', found['nodegroups[1].sec_groups'])
        self.assertEqual(0, self.cloud.count())

    def test_workers_need_not_open_the_port_of_managers(self):
        self.plan(page(['any', 'workers'], ['workers'], work=2))

    def test_groups_that_do_not_let_each_other_in_are_refused(self):
        found = self.problems(page(['open'], ['workers']))
        self.assertEqual(
            ['nodegroups[0].sec_groups', 'nodegroups[1].sec_groups'], [path for path, _ in found]
        )

    def test_a_swarm_of_one_node_needs_no_ports(self):
        self.plan(page(['web'], [], work=0))

    def test_a_driver_that_names_no_ports_is_not_asked_for_any(self):
        self.plan(page(['web'], ['web'], coe='nodes'))

    def test_an_unknown_group_is_one_mistake(self):
        self.cloud.catalogue = dataclasses.replace(self.cloud.catalogue, sec_groups=('open',))
        found = self.problems(page(['open'], ['wbe'], work=2))
        self.assertEqual(1, sum(path == 'nodegroups[1].sec_groups' for path, _ in found))


class Undecided(SiteCase):
    """A backend that cannot check ports."""

    cloud_options = CLOUD | {'group_ports': {'web': '80/tcp'}}

    def open_backend(self, name):
        class Unable(NoopDriver):
            missing_abilities = frozenset({Ability.CHECK_PORTS})

        return Compute(Unable(cloud=self.cloud), settings=STACK)

    def test_a_backend_that_cannot_check_ports_refuses_none(self):
        self.plan(page(['web'], ['web']))
