"""Heat and Ironic on the development cloud, as cluster drivers use them."""

import time

from tests.functional.cloud import CloudTestCase

WAIT_S = 600
TEMPLATE = """
heat_template_version: 2021-04-16
parameters:
  count: {type: number, default: 2}
  removal: {type: json, default: []}
resources:
  group:
    type: OS::Heat::ResourceGroup
    properties:
      count: {get_param: count}
      removal_policies: {get_param: removal}
      resource_def:
        type: OS::Nova::Server
        properties:
          name: member-%index%
          image: tiny
          flavor: tiny
          networks: [{network: net1}]
outputs:
  names: {value: {get_attr: [group, name]}}
"""
NODE = {
    'driver': 'fake-hardware',
    'name': 'node-1',
    'properties': {'cpus': 4, 'memory_mb': 4096, 'local_gb': 40, 'cpu_arch': 'x86_64'},
    'resource_class': 'baremetal',
    **{f'{kind}_interface': 'fake' for kind in ('boot', 'deploy', 'management', 'power')},
}


class HeatAndIronicTest(CloudTestCase):
    services = ('heat', 'ironic')

    def setUp(self):
        super().setUp()
        self.addCleanup(self.cloud.run, 'reset')

    def until(self, read, wanted):
        end = time.monotonic() + WAIT_S
        while (found := read()) != wanted and time.monotonic() < end:
            time.sleep(0.3)
        self.assertEqual(wanted, found)

    def test_a_stack_removes_the_member_that_its_removal_policy_names(self):
        session = self.cloud.session('kiln-user')

        def ask(path, method, **more):
            filters = {'service_type': 'orchestration'}
            return session.request(path, method, endpoint_filter=filters, **more)

        def stack():
            return ask('/stacks/one', 'GET').json()['stack']

        ask('/stacks', 'POST', json={'stack_name': 'one', 'template': TEMPLATE})
        self.until(lambda: stack()['stack_status'], 'CREATE_COMPLETE')
        self.assertEqual(['member-0', 'member-1'], stack()['outputs'][0]['output_value'])
        parameters = {'count': 2, 'removal': [{'resource_list': ['0']}]}
        body = {'template': TEMPLATE, 'parameters': parameters}
        ask(f'/stacks/one/{stack()["id"]}', 'PUT', json=body)
        self.until(lambda: stack()['stack_status'], 'UPDATE_COMPLETE')
        self.assertEqual(['member-1', 'member-2'], stack()['outputs'][0]['output_value'])

    def test_a_node_is_enrolled_deployed_and_powered_off(self):
        session = self.cloud.session('kiln-system')

        def ask(path, method, **more):
            return session.request(
                f'/v1/nodes{path}',
                method,
                endpoint_filter={'service_type': 'baremetal'},
                headers={'X-OpenStack-Ironic-API-Version': '1.90'},
                **more,
            )

        def node(field):
            return ask('/node-1', 'GET').json()[field]

        ask('', 'POST', json=NODE)
        source = {'image_source': 'http://127.0.0.1/none', 'image_checksum': '0' * 32}
        change = {'op': 'add', 'path': '/instance_info', 'value': {**source, 'root_gb': 10}}
        ask('/node-1', 'PATCH', json=[change])
        for target, reached in (
            ('manage', 'manageable'),
            ('provide', 'available'),
            ('active', 'active'),
        ):
            ask('/node-1/states/provision', 'PUT', json={'target': target})
            self.until(lambda: node('provision_state'), reached)
        ask('/node-1/states/power', 'PUT', json={'target': 'power off'})
        self.until(lambda: node('power_state'), 'power off')
