"""Conformance kit on the real Ironic and Neutron, for what it tests of networks and ports.

With KILN_FULL also what it tests of builds in general, with a port for each.
"""

import os

from kiln.models import Resource
from kiln.testing.conformance.behaviours.addresses import FixedAddresses
from kiln.testing.conformance.behaviours.offers import Offers
from kiln.testing.conformance.behaviours.ports import Ports
from kiln.testing.conformance.behaviours.repeating import Repeating
from kiln.testing.conformance.behaviours.requests import Requests
from kiln.testing.conformance.behaviours.sharing import Sharing
from tests.functional.ironic.connected import ConnectedCase
from tests.functional.ironic.test_conformance import Guarded, OnIronic


class OnConnected(OnIronic):
    """With a port of a network for each build that names none, as the nodes need one."""

    timeout_s, soon_s = 300.0, 120.0

    def setUp(self):
        self.network_ids = (self.net_id,)
        super().setUp()

    def ports_of_bench(self):
        self._takes_ports = True
        return [self.make_port() for _ in range(2)]

    def own_network_id(self):
        return self.own_network()

    def make_resources(self):
        tag = f'kiln-metal-site:{self.owner}'
        left = self.make_port(description=tag, device_owner='kiln:node')
        return [Resource(kind='port', id=left, owner=self.owner)]


class ConnectedConformance(OnConnected, FixedAddresses, Ports, ConnectedCase):
    pass


# Each build waits for Ironic, which asks Neutron about each port several times.
if os.environ.get('KILN_FULL'):

    class WholeConnectedConformance(OnConnected, Offers, Requests, Sharing, ConnectedCase):
        pass

    class GuardedConnectedConformance(OnConnected, Guarded, Repeating, ConnectedCase):
        pass
