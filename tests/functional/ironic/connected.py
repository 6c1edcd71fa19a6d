"""A kiln site on nodes with ports of Neutron: those of a project, with a user who is a member."""

import atexit
import functools
import uuid

from kiln.testing.proxy import FaultProxy
from tests.functional.ironic.one_driver import OneDriver
from tests.functional.ironic.site import IronicCase

NODES, PORTS = 6, 3
_NEUTRON = {'endpoint_filter': {'service_type': 'network'}}


@functools.cache
def connected(nodes, project_id):
    """Return the resource class of the nodes, which are enrolled for all tests of a process."""
    kind = f'net-{uuid.uuid4().hex[:8]}'
    atexit.register(nodes.remove, kind)
    given = {'network_interface': 'flat', 'owner': project_id, 'network_data': {}}
    nodes.connect(nodes.enrol(kind, NODES, deploy_interface='fake', **given), PORTS)
    return kind


class ConnectedCase(IronicCase):
    """Drivers of one project, which reach Neutron through a proxy of its own."""

    who = 'kiln-user'

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.neutron = FaultProxy(
            cls.session.get_endpoint(service_type='network', interface='public')
        )
        cls.neutron.start()
        cls.addClassCleanup(cls.neutron.close)
        (net,) = cls.ask('GET', '/networks?name=net1')['networks']
        cls.net_id = net['id']

    @classmethod
    def enrol(cls):
        cls.session = cls.cloud.session(cls.who)
        kind = connected(cls.nodes, cls.session.get_project_id())
        return kind, kind

    @classmethod
    def ask(cls, method, path, **more):
        """Send a request to Neutron itself, as the user; return the JSON of the answer."""
        answer = cls.session.request(f'/v2.0{path}', method, **_NEUTRON, **more)
        return answer.json() if answer.content else {}

    @classmethod
    def own_network(cls):
        """Return a network of the user, on which addresses can be chosen."""
        if '_own_network' not in vars(cls):
            made = cls.ask('POST', '/networks', json={'network': {'name': 'own'}})['network']
            cls.addClassCleanup(cls.ask, 'DELETE', f'/networks/{made["id"]}', raise_exc=False)
            subnet = {'network_id': made['id'], 'ip_version': 4, 'cidr': '198.51.100.0/24'}
            cls.ask('POST', '/subnets', json={'subnet': {**subnet, 'enable_dhcp': False}})
            cls._own_network = made['id']
        return cls._own_network

    def heal(self):
        super().heal()
        for rule in self.neutron.faults:
            rule.remove()
        self.neutron.up()
        self.neutron.forget()

    def plain_options(self, **given):
        reached = {'networks': [self.net_id], 'network_endpoint_override': self.neutron.url}
        return super().plain_options(**{**reached, **given})

    def make_port(self, **more):
        port = {'network_id': self.net_id, 'name': 'spare', **more}
        made = self.ask('POST', '/ports', json={'port': port})['port']['id']
        self.addCleanup(self.ask, 'DELETE', f'/ports/{made}', raise_exc=False)
        return made

    def port(self, port_id):
        return self.ask('GET', f'/ports/{port_id}')['port']

    def ports_of(self, owner):
        """Return the ports that kiln has made for a site."""
        return self.ask('GET', f'/ports?description=kiln-metal-site:{owner}')['ports']


class DriverCase(OneDriver, ConnectedCase):
    """One driver with ports of Neutron."""
