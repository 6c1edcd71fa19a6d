"""Generated templates: pure, stable, and without the traps of Heat's defaults; 003-6."""

import dataclasses
import json
import unittest

from kiln.cluster_drivers.heat.ledger import LedgerNode
from kiln.cluster_drivers.heat.ledger_definition import MOST_RESOURCES
from kiln.cluster_drivers.heat_generated_v1.driver import Driver
from kiln.cluster_drivers.heat_generated_v1.generator import template_of
from kiln.clusters.spec import MachineSpec, Place
from kiln.testing.clusters import samples
from tests.unit.cluster_drivers.heat.made import FILE, cluster_of, context


def template(text=FILE, **more):
    return made(text, **more).template


def made(text=FILE, **more):
    driver, cluster = Driver.open(), cluster_of(text, **more)
    state = driver.planned(context(), cluster)
    cluster = dataclasses.replace(cluster, driver_state=state.write())
    return driver.template_definition.extract_definition(context(), cluster)


class Templates(unittest.TestCase):
    def test_003_6_each_node_is_a_named_resource_with_a_port_of_its_own(self):
        resources = template()['resources']
        nodes = ['control-1', 'work-1', 'work-2', 'work-3']
        self.assertEqual({*nodes, *(f'{name}-port-0' for name in nodes)}, set(resources))
        port = resources['work-2']['properties']['networks']
        self.assertEqual([{'port': {'get_resource': 'work-2-port-0'}}], port)

    def test_the_same_cluster_gives_the_same_template_to_the_byte(self):
        self.assertEqual(json.dumps(template()), json.dumps(template(generation=7)))

    def test_a_node_more_is_two_resources_more_and_no_other_change(self):
        fewer, more = template(), template(FILE.replace('count: 3', 'count: 4'))
        new = {name: one for name, one in more['resources'].items()
               if fewer['resources'].get(name) != one}  # fmt: skip
        self.assertEqual({'work-4', 'work-4-port-0'}, set(new))

    def test_new_user_data_never_replaces_a_server(self):
        server = template()['resources']['work-1']['properties']
        self.assertEqual('RAW', server['user_data_format'])
        self.assertEqual('IGNORE', server['user_data_update_policy'])
        self.assertEqual('REBUILD', server['image_update_policy'])
        self.assertEqual('RESIZE', server['flavor_update_policy'])

    def test_user_data_is_a_hidden_parameter_and_not_in_the_template(self):
        found = made(FILE + 'parameters: {user_data: boot}\n')
        self.assertIs(True, found.template['parameters']['user_data']['hidden'])
        self.assertNotIn(samples.SECRET, json.dumps(found.template))
        self.assertEqual({'user_data': samples.SECRET}, found.params)
        self.assertEqual({'user_data': 'boot'}, found.shown)

    def test_values_of_a_group_and_places_reach_its_servers(self):
        text = FILE.replace('count: 3', 'flavors: {big: 1, tiny: 1}, zones: [z1], image: other')
        resources = template(text)['resources']
        found = [resources[f'work-{n}']['properties'] for n in (1, 2)]
        self.assertEqual(['big', 'tiny'], [one['flavor'] for one in found])
        self.assertEqual({('other', 'z1')}, {(s['image'], s['availability_zone']) for s in found})
        self.assertNotIn('availability_zone', resources['control-1']['properties'])

    def test_names_of_servers_are_names_of_hosts(self):
        for group in 'work', 'w' * 63:
            node = LedgerNode(group, 1, Place())
            found = template_of('x' * 32, [(node, MachineSpec())])['resources'][node.name]
            self.assertLessEqual(len(found['properties']['name']), 63)


class Problems(unittest.TestCase):
    def problems(self, text=FILE, machine=None):
        cluster = cluster_of(text)
        if machine is not None:
            spec = dataclasses.replace(cluster.spec, machine=machine)
            cluster = dataclasses.replace(cluster, spec=spec)
        found = Driver.open().template_definition.value_problems(context(), cluster)
        return [one.path for one in found]

    def test_a_right_cluster_has_none(self):
        self.assertEqual([], self.problems())

    def test_what_heat_needs_of_each_machine_is_asked_for(self):
        places = [f'nodegroups[{n}].{name}' for n in (0, 1)
                  for name in ('image', 'flavor', 'networks')]  # fmt: skip
        self.assertEqual(places, self.problems(machine=MachineSpec()))

    def test_a_stack_with_more_resources_than_heat_takes_is_told(self):
        text = FILE.replace('count: 3', f'count: {MOST_RESOURCES // 2}')
        self.assertEqual(['nodegroups'], self.problems(text))

    def test_zones_that_only_the_cloud_knows_are_told(self):
        text = FILE.replace('count: 3', 'count: 3, zones: spread')
        self.assertEqual(['nodegroups[1].zones'], self.problems(text))

    def test_an_unknown_parameter_is_told_for_the_cluster_and_for_a_group(self):
        text = FILE.replace('count: 3', 'count: 3, parameters: {x: 1}') + 'parameters: {y: 1}\n'
        self.assertEqual(['parameters.y', 'nodegroups[1].parameters.x'], self.problems(text))
