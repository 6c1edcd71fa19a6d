"""Conformance kit on the real Nova, for the bare driver and for each wrapper."""

import os

from kiln.compute.backends import stack_settings
from kiln.compute.stack import assemble
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.nova.building.port_locks import PORT
from kiln.compute_drivers.nova.translate import OWNER_TAG
from kiln.models import ImageFacts, Resource
from kiln.testing.conformance import ComputeDriverConformance, FaultConformance
from kiln.testing.conformance.behaviours.addresses import FixedAddresses
from kiln.testing.conformance.behaviours.arguments import Files
from kiln.testing.conformance.behaviours.building import Building
from kiln.testing.conformance.behaviours.claiming import Claiming
from kiln.testing.conformance.behaviours.deleting import Deleting
from kiln.testing.conformance.behaviours.errors import Errors
from kiln.testing.conformance.behaviours.execution import Execution
from kiln.testing.conformance.behaviours.finding import Finding
from kiln.testing.conformance.behaviours.groups import Groups
from kiln.testing.conformance.behaviours.listing import Listing
from kiln.testing.conformance.behaviours.ports import Ports
from kiln.testing.conformance.behaviours.repeating import Repeating
from kiln.testing.conformance.behaviours.requests import Requests
from kiln.testing.conformance.behaviours.sharing import Sharing, Strangers
from kiln.testing.conformance.behaviours.states import States
from kiln.testing.conformance.behaviours.values import Values
from kiln.testing.conformance.behaviours.watching import Watching
from tests.functional.nova.notify import notify
from tests.functional.nova.site import NovaBench, NovaCase

_NETWORKING = {
    AmphoraComputeDriver.attach_network, AmphoraComputeDriver.detach_network,
    AmphoraComputeDriver.attach_port, AmphoraComputeDriver.detach_port,
}  # fmt: skip


class OnNova:
    """Tests each behaviour that can be caused in Nova.

    Not tested, with the reason in the run's output: a build refused for lack of
    capacity, because Nova accepts it and fails it later (test_driver tests that).
    """

    timeout_s = 120.0
    soon_s = 60.0

    def setUp(self):
        self.network_ids = (self.net_id,)
        image = self.find('image', 'images', name='tiny')
        self.images = (ImageFacts(id=image['id'], name='tiny'),)
        super().setUp()
        self.bench.name_image = self.name_image

    def pass_time(self, seconds):
        # A poll costs Nova half as much as a build in that time.
        super().pass_time(max(seconds, 0.5))

    def port_id(self):
        # The fake hypervisor remembers the server of a port, and refuses the port
        # elsewhere: so each behaviour that needs a port has its own.
        return self.make_port()

    def name_image(self, name, image_id):
        # An image of the cloud keeps its name: a new one takes the place of the last.
        glance = {'endpoint_filter': {'service_type': 'image'}}
        for image in self.list('image', 'images', name=name):
            self.session.delete(f'/v2/images/{image["id"]}', **glance)
        if image_id is None:
            return
        new = {'name': name, 'disk_format': 'raw', 'container_format': 'bare'}
        made = self.session.post('/v2/images', json=new, **glance).json()
        self.session.put(
            f'/v2/images/{made["id"]}/file', data=bytes(512),
            headers={'Content-Type': 'application/octet-stream'}, **glance,
        )  # fmt: skip

    def own_network_id(self):
        cls = type(self)
        # On a network of others a user may not choose an address.
        if '_own_network_id' not in vars(cls):
            cls._own_network_id = cls.make('network', name=self.new_key())
            ours = {'network_id': cls._own_network_id, 'ip_version': 4}
            cls.make('subnet', cidr='198.51.100.0/24', **ours)
        return cls._own_network_id

    def guarded_ports(self):
        guarded = {}
        for ports in (('22/tcp', '53/udp'), ('443/tcp',)):
            group, name = self.make_group()
            guarded[name] = ports
            for port in ports:
                self.open_port(group, port, remote_group_id=group)
        return guarded

    @classmethod
    def make(cls, what, **facts):
        """Make something of Neutron's; return its id. It is removed after the last server."""
        neutron = {'endpoint_filter': {'service_type': 'network'}}
        answer = cls.session.post(f'/v2.0/{what}s', json={what: facts}, **neutron)
        made = answer.json()[what]['id']
        path = f'/v2.0/{what}s/{made}'
        cls.addClassCleanup(cls.session.delete, path, raise_exc=False, **neutron)
        return made

    def make_resources(self):
        port_id = self.make_port(description=OWNER_TAG + self.owner)
        return [Resource(kind=PORT, id=port_id, owner=self.owner)]

    def make_driver(self):
        return self.open_driver(**self.more())

    def more(self):
        """Return further options of the driver: small pages, which the kit fills."""
        return {'page_size': 4}

    def make_faults(self, driver):
        return NovaBench(driver, self)


class Guarded(OnNova):
    """Through the executor, the circuits and all other wrappers."""

    def make_driver(self):
        stack = assemble(super().make_driver(), stack_settings(self.options()))
        self.addCleanup(stack.close, 5)
        return stack.executor


class Locked(OnNova):
    """With a lock port for each build."""

    def more(self):
        return {**super().more(), 'port_lock': True}


class Listening(OnNova):
    """With Nova's notifications on the message bus."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.url = notify(cls.cloud)

    def more(self):
        return {**super().more(), 'notification_url': self.url}


class Alone(OnNova):
    """Without networks, which cost Nova and Neutron most of a build, where none is used."""

    def more(self):
        used = getattr(getattr(self, self._testMethodName), 'contract', ())
        networks = {'networks': ['none']} if _NETWORKING.isdisjoint(used) else {}
        return {**super().more(), **networks}


class NovaConformance(
    Alone, Building, Claiming, Deleting, Errors, Execution, Files, Finding, FixedAddresses, Groups,
    Listing, Ports,
    Repeating, Requests, Sharing, Strangers, FaultConformance, NovaCase,
):  # fmt: skip
    """The bare driver, for the behaviours that involve Nova and the other services."""


class FullNovaConformance(
    Guarded, Locked, Listening, Building, States, Values, Watching, NovaCase
):
    """All three at once, for the behaviours that each of them could break."""


# The whole kit takes ten minutes for each.
if os.environ.get('KILN_FULL'):

    class WholeNovaConformance(OnNova, ComputeDriverConformance, FaultConformance, NovaCase):
        pass

    class GuardedNovaConformance(Guarded, ComputeDriverConformance, FaultConformance, NovaCase):
        pass

    class LockedNovaConformance(Locked, ComputeDriverConformance, FaultConformance, NovaCase):
        pass

    class ListeningNovaConformance(
        Listening, Building, Deleting, Execution, States, Watching, NovaCase
    ):
        pass
