"""Templates with which Heat leaves alone what a stack has made."""

import json
import unittest

from kiln.cluster_drivers.heat.retaining import loose, retained
from kiln.clusters.exceptions import ClusterDriverError

WORKER = """\
heat_template_version: 2018-08-31
parameters:
  born: {type: string, default: 2026-01-02}
  debug: {type: boolean, default: yes}
resources:
  port: {type: OS::Neutron::Port}
  server: {type: OS::Nova::Server, deletion_policy: delete}
"""
GROUP = {
    'type': 'OS::Heat::ResourceGroup',
    'properties': {'count': 2, 'resource_def': {'type': 'file:///worker.yaml'}},
}
STACK = {
    'heat_template_version': '2015-10-15',
    'resources': {'net': {'type': 'OS::Neutron::Net'}, 'workers': GROUP},
}
FILES = {'file:///worker.yaml': WORKER, 'boot.sh': '#!/bin/sh\ntype: boot\n'}


def policies(template):
    return {name: one.get('deletion_policy') for name, one in template['resources'].items()}


class Retained(unittest.TestCase):
    def test_what_is_no_nested_stack_is_retained_and_nested_ones_go(self):
        template, files = retained(STACK, FILES, {})
        self.assertEqual({'net': 'Retain', 'workers': None}, policies(template))
        self.assertEqual({'file:///worker.yaml'}, files.keys(), 'no script is a template')
        inner = json.loads(files['file:///worker.yaml'])
        self.assertEqual({'port': 'Retain', 'server': 'Retain'}, policies(inner))

    def test_the_rest_is_read_as_heat_reads_it(self):
        _, files = retained(STACK, FILES, {})
        inner = json.loads(files['file:///worker.yaml'])
        self.assertEqual('2018-08-31', inner['heat_template_version'])
        self.assertEqual('2026-01-02', inner['parameters']['born']['default'])
        self.assertIs(True, inner['parameters']['debug']['default'])

    def test_the_given_template_is_not_changed(self):
        before = json.dumps(STACK)
        retained(STACK, FILES, {})
        self.assertEqual(before, json.dumps(STACK))

    def test_a_type_of_the_environment_is_a_nested_stack_if_it_is_a_file(self):
        stack = {'resources': {'one': {'type': 'Magnum::Worker'}, 'two': {'type': 'My::Server'}}}
        registry = {
            'Magnum::Worker': 'file:///worker.yaml', 'My::Server': 'OS::Nova::Server',
            'resources': {'one': {'hooks': 'pre-create'}},
        }  # fmt: skip
        template, files = retained(stack, FILES, {'resource_registry': registry})
        self.assertEqual({'one': None, 'two': 'Retain'}, policies(template))
        self.assertEqual({'file:///worker.yaml'}, files.keys())

    def test_a_group_of_resources_without_a_template_is_retained_as_a_whole(self):
        group = {'type': 'OS::Heat::ResourceGroup', 'properties': {'resource_def': {'type': 'X'}}}
        template, files = retained({'resources': {'workers': group}}, {}, {})
        self.assertEqual(({'workers': 'Retain'}, {}), (policies(template), files))

    def test_templates_in_templates_are_found_each_once(self):
        outer = {'resources': {'inner': {'type': 'b.yaml'}, 'again': {'type': 'b.yaml'}}}
        files = {'a.yaml': json.dumps(outer), 'b.yaml': WORKER}
        _, changed = retained({'resources': {'a': {'type': 'a.yaml'}}}, files, {})
        self.assertEqual({'a.yaml', 'b.yaml'}, changed.keys())
        self.assertEqual({'inner': None, 'again': None}, policies(json.loads(changed['a.yaml'])))

    def test_what_is_not_a_hot_template_is_refused(self):
        for stack, files in (
            ({'Resources': {}}, {}),
            (STACK, {'file:///worker.yaml': 'a: [b'}),
            (STACK, {'file:///worker.yaml': '- a\n'}),
        ):
            with self.subTest(stack, files=files), self.assertRaises(ClusterDriverError):
                retained(stack, files, {})


def resource(name, stack, nested=''):
    links = [{'rel': 'stack', 'href': f'http://heat/v1/p/stacks/{stack}/{stack}-id'}]
    if nested:
        links.append({'rel': 'nested', 'href': f'http://heat/v1/p/stacks/{nested}/{nested}-id'})
    return {'resource_name': name, 'links': links}


class Loose(unittest.TestCase):
    RESOURCES = (
        resource('net', 'shop'),
        resource('workers', 'shop', 'group'),
        resource('0', 'group', 'member'),
        resource('server', 'member'),
    )
    #: By the names of stacks: the resources that are retained.
    KEPT = (
        ({'shop': ['net'], 'member': ['server']}, []),
        ({'shop': ['net']}, ['workers.0.server']),
        ({'shop': ['net', 'workers']}, []),
        ({'shop': ['net'], 'group': ['0']}, []),
        ({'member': ['server']}, ['net']),
        ({}, ['net', 'workers.0.server']),
    )

    def test_a_resource_is_loose_unless_it_or_what_it_is_in_is_retained(self):
        for kept, expected in self.KEPT:
            for policy in ('Retain', 'retain'):
                with self.subTest(kept=kept, policy=policy):

                    def template_of(name, id_, kept=kept, policy=policy):
                        self.assertEqual(f'{name}-id', id_)
                        names = kept.get(name, ())
                        return {'resources': {one: {'deletion_policy': policy} for one in names}}

                    self.assertEqual(expected, loose(self.RESOURCES, template_of))

    def test_the_template_of_each_stack_is_read_once(self):
        asked = []

        def template_of(name, id_):
            asked.append(id_)
            return {}

        loose([resource(str(number), 'shop') for number in range(9)], template_of)
        self.assertEqual(['shop-id'], asked)
