"""The stack of a build."""

import json
import types
import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.compute_drivers.heat.building.template import stack_body
from kiln.compute_drivers.heat.translate import Facts
from kiln.compute_drivers.nova.building.body import Content
from tests.unit.compute_drivers.heat.samples import CHOSEN, PLAIN, chosen, request

#: The functions of templates; a mapping with such a key alone is a call.
FUNCTIONS = ('get_param', 'get_resource', 'get_attr', 'str_replace', 'get_file', 'list_join')
TEXTS = st.text(max_size=20) | st.sampled_from(FUNCTIONS)


def server(body):
    return body['template']['resources']['server']['properties']


class Stacks(unittest.TestCase):
    def test_a_minimal_build_is_a_stack_with_a_server_alone(self):
        body = stack_body(request(), CHOSEN, PLAIN)
        self.assertEqual({'server'}, set(body['template']['resources']))
        self.assertEqual(
            {
                'name': {'get_param': 'name'},
                'metadata': {'get_param': 'metadata'},
                'flavor': 'f-1',
                'image': 'i-1',
                'networks': [{'allocate_network': 'auto'}],
                'tags': [
                    'kiln-heat:east',
                    {'list_join': ['', ['kiln-stack:', {'get_param': 'OS::stack_id'}]]},
                ],
                'user_data_format': 'RAW',
            },
            server(body),
        )
        self.assertEqual('kiln-site:east,kiln-key:k-1', body['tags'])
        self.assertTrue(body['disable_rollback'])

    def test_each_network_is_a_port_with_its_address_and_security_groups(self):
        body = stack_body(
            request(), chosen(networks=('n-1', 'n-2=10.0.0.9'), security_groups=('g-1',)), PLAIN
        )
        resources = body['template']['resources']
        self.assertEqual(
            {'network': 'n-1', 'security_groups': ['g-1']}, resources['port-1']['properties']
        )
        self.assertEqual(
            [{'ip_address': '10.0.0.9'}], resources['port-2']['properties']['fixed_ips']
        )
        self.assertEqual(
            [{'port': {'get_resource': 'port-1'}}, {'port': {'get_resource': 'port-2'}}],
            server(body)['networks'],
        )
        self.assertNotIn('security_groups', server(body))

    def test_given_ports_come_first_and_are_no_part_of_the_stack(self):
        body = stack_body(request(port_ids=('p-1',)), chosen(networks=('n-1',)), PLAIN)
        self.assertEqual(
            [{'port': 'p-1'}, {'port': {'get_resource': 'port-1'}}], server(body)['networks']
        )
        self.assertEqual({'port-1', 'server'}, set(body['template']['resources']))

    def test_an_amphora_without_networks_has_no_port(self):
        body = stack_body(request(), chosen(networks=('none',)), PLAIN)
        self.assertEqual([{'allocate_network': 'none'}], server(body)['networks'])

    def test_what_a_build_asks_of_nova_is_passed_on(self):
        conf = types.SimpleNamespace(config_drive=True)
        made = chosen(key_name='key1', availability_zone='az2', security_groups=('g-1',))
        body = stack_body(request(server_group_id='sg-1'), made, conf)
        found = server(body)
        self.assertEqual('key1', found['key_name'])
        self.assertEqual({'group': 'sg-1'}, found['scheduler_hints'])
        self.assertTrue(found['config_drive'])
        self.assertEqual(['g-1'], found['security_groups'])
        self.assertEqual({'get_param': 'availability_zone'}, found['availability_zone'])
        self.assertEqual('az2', body['parameters']['availability_zone'])
        self.assertEqual('sg-1', body['parameters']['metadata']['kiln:group'])

    def test_user_data_is_a_hidden_parameter_and_nowhere_else(self):
        body = stack_body(request(), chosen(content=Content(user_data=b'#!hush\n')), PLAIN)
        self.assertEqual('#!hush\n', body['parameters'].pop('user_data'))
        self.assertNotIn('hush', json.dumps(body))
        self.assertEqual(
            {'type': 'string', 'hidden': True}, body['template']['parameters']['user_data']
        )

    @given(name=TEXTS, metadata=st.dictionaries(TEXTS, TEXTS, max_size=3), zone=TEXTS)
    def test_no_text_of_a_request_is_read_as_a_function(self, name, metadata, zone):
        plain = stack_body(
            request(name='n', metadata={'a': 'b'}), chosen(availability_zone='z'), PLAIN
        )
        body = stack_body(
            request(name=name, metadata=metadata), chosen(availability_zone=zone or 'z'), PLAIN
        )
        self.assertEqual(plain['template'], body['template'])

    @given(name=TEXTS, metadata=st.dictionaries(TEXTS, TEXTS, max_size=3))
    def test_what_a_build_named_is_read_from_the_parameters(self, name, metadata):
        body = stack_body(request(name=name, metadata=metadata), CHOSEN, PLAIN)
        # Heat shows a mapping as text.
        shown = {**body['parameters'], 'metadata': json.dumps(body['parameters']['metadata'])}
        facts = Facts.read(shown)
        self.assertEqual(name, facts.name)
        self.assertEqual({**metadata, 'kiln:type': 'vm'}, facts.metadata)

    @given(
        networks=st.lists(st.sampled_from(['n-1', 'n-2', 'n-3=10.0.0.1']), unique=True),
        ports=st.lists(st.sampled_from(['p-1', 'p-2']), unique=True),
    )
    def test_a_server_has_one_interface_for_each_port_and_network(self, networks, ports):
        body = stack_body(request(port_ids=tuple(ports)), chosen(networks=tuple(networks)), PLAIN)
        made = [name for name in body['template']['resources'] if name != 'server']
        self.assertEqual(len(networks), len(made))
        used = [one['port'] for one in server(body)['networks'] if 'port' in one]
        self.assertEqual([*ports, *({'get_resource': name} for name in made)], used)

    def test_the_same_build_is_the_same_stack(self):
        made = chosen(networks=('n-1', 'n-2'), security_groups=('g',))
        first, second = (json.dumps(stack_body(request(), made, PLAIN)) for _ in range(2))
        self.assertEqual(first, second)
