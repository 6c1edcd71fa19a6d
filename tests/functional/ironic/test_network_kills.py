"""Kills with -9 of a process that builds with ports on Ironic, at each of its requests."""

import uuid

from kiln.testing.proxy import Hang, LoseAnswer
from tests.functional.ironic.connected import DriverCase

_ID = '[0-9a-f-]{36}'
#: The requests of a build about ports, in their order.
POINTS = (
    ('neutron', 'POST', '/ports'),
    ('ironic', 'POST', '/allocations'),
    ('neutron', 'PUT', f'/ports/{_ID}'),
    ('ironic', 'POST', f'/nodes/{_ID}/vifs'),
    ('ironic', 'PATCH', f'/allocations/{_ID}'),
)


class NetworkKills(DriverCase):
    def test_a_build_that_was_killed_is_finished_with_one_set_of_ports(self):
        for where, *request in POINTS:
            for fault in (Hang(), LoseAnswer(Hang())):
                with self.subTest(where, request=request, fault=fault):
                    given, key = self.make_port(), f'kill-{uuid.uuid4().hex[:8]}'
                    arguments = {'port_ids': [given], 'network_ids': [self.net_id]}
                    proxy = self.neutron if where == 'neutron' else self.proxy
                    self.kill_at(request, fault, key, proxy=proxy, **arguments)
                    built = self.build(build_key=key, name=key, **arguments)
                    self.becomes(built)
                    found = self.driver.get_amphora(amphora_id=built).addresses
                    self.assertEqual(2, len(found))
                    self.driver.delete(built)
                    self.gone()
                    self.assertEqual('', self.port(given)['device_id'])
                    # Only a port that no claim has named yet is left for the sweep.
                    left = list(self.driver.list_resources())
                    self.assertLessEqual(len(left), POINTS.index((where, *request)) < 2)
                    for one in left:
                        self.driver.delete_resource(one)
                    self.assertEqual([], self.ports_of(self.owner))
