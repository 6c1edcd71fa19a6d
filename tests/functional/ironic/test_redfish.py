"""Nodes whose controllers speak Redfish: booted from an ISO, rebooted, powered off, given back."""

import fcntl
import json
import urllib.request
import uuid

from kiln.exceptions import InstanceNotFoundError
from kiln.models import State
from kiln.testing.proxy import Answer, FaultProxy, Serve
from tests.functional.ironic.one_driver import OneDriver
from tests.functional.ironic.site import IronicCase
from tools.devcloud.place import Place
from tools.devcloud.services.ironic import Ironic
from tools.devcloud.wishes import Wishes

RESET = '.*/Actions/ComputerSystem.Reset'
USER_DATA = b'#!/bin/sh\n# of this build alone\n'


class Redfish(OneDriver, IronicCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        home = cls.cloud.home
        # Its machines are few, and another process of the tests would switch them, too.
        lock = cls.enterClassContext(open(home / 'redfish.lock', 'w'))
        fcntl.flock(lock, fcntl.LOCK_EX)
        wishes = Wishes.load(home / 'wishes.json')
        place = Place(home, wishes.base_port)
        served = Ironic(place, wishes).folders()[0] / 'live.iso'
        served.write_bytes(b'an ISO that no simulated machine reads')
        cls.addClassCleanup(served.unlink)
        cls.iso = f'{place.url("ironic_files")}/live.iso'
        # Between Ironic and the controllers.
        cls.controllers = FaultProxy(place.url('redfish'))
        cls.controllers.start()
        cls.addClassCleanup(cls.controllers.close)
        cls.kind = f'redfish-{uuid.uuid4().hex[:8]}'
        cls.addClassCleanup(cls.nodes.remove, cls.kind)
        systems = [one['@odata.id'] for one in cls.machine('/redfish/v1/Systems')['Members']]
        cls.nodes.enrol_redfish(cls.kind, cls.controllers.url, systems)

    def setUp(self):
        super().setUp()
        #: What was asked of the power of a machine.
        self.resets = []
        self.controllers.fault(Serve(), 'POST', RESET, when=self.record_reset)

    def record_reset(self, request):
        """Record a switch of power; the request is passed on."""
        self.resets.append(json.loads(request.body)['ResetType'])
        return False

    def clean_up(self):
        for rule in self.controllers.faults:
            rule.remove()
        super().clean_up()

    def build(self, **given):
        iso = {'amphora_flavor': self.kind, 'image_id': self.iso, 'user_data': USER_DATA}
        return super().build(**iso, **given)

    def active(self):
        built = self.build()
        self.becomes(built)
        return built

    def until_asked(self, times):
        self.nodes.until(lambda: len(self.resets) >= times)

    def system_of(self, amphora_id):
        """Return the path of the machine of an amphora, at its controller."""
        info = self.nodes.ask('GET', f'/nodes/{self.node_of(amphora_id)}?fields=driver_info')[
            'driver_info'
        ]
        return info['redfish_system_id']

    @classmethod
    def machine(cls, path):
        with urllib.request.urlopen(cls.controllers.url + path) as answer:
            return json.load(answer)

    def media(self, system):
        """Return the URLs of what is in the drives of a machine."""
        listed = self.machine(self.machine(system)['VirtualMedia']['@odata.id'])['Members']
        drives = [self.machine(one['@odata.id']) for one in listed]
        return [one['Image'] for one in drives if one['Inserted']]

    def test_a_build_boots_from_its_iso_with_its_config_drive(self):
        built = self.active()
        system = self.system_of(built)
        seen = self.machine(system)
        self.assertEqual(
            ('On', 'Cd'), (seen['PowerState'], seen['Boot']['BootSourceOverrideTarget'])
        )
        iso, drive = sorted(self.media(system), key=lambda url: url != self.iso)
        self.assertEqual(self.iso, iso)
        with urllib.request.urlopen(drive) as answer:
            self.assertIn(USER_DATA, answer.read())
        self.assertEqual(self.iso, self.driver.get_amphora(amphora_id=built).image_id)

    def test_the_address_of_its_port_is_on_its_config_drive(self):
        self.who = 'kiln-user'
        session = self.cloud.session(self.who)
        (free, *_) = self.nodes.of(self.kind, '&provision_state=available&associated=false')
        self.nodes.set(free['uuid'], network_interface='flat', owner=session.get_project_id())
        self.nodes.connect([free['uuid']], 1)
        # Other tests build without a network. Cleanups run in reverse.
        self.addCleanup(self.nodes.set, free['uuid'], network_interface='noop')
        self.addCleanup(self.clean_up)
        self.driver = self.open_driver(networks=['net1'])
        built = self.active()
        (address,) = self.driver.get_amphora(amphora_id=built).addresses
        media = self.media(self.system_of(built))
        with urllib.request.urlopen(next(url for url in media if url != self.iso)) as answer:
            drive = answer.read()
        for said in (address.address, address.mac, 'ethernet_mac_address'):
            self.assertIn(said.encode(), drive)

    def test_a_delete_takes_the_media_out_and_powers_the_machine_off(self):
        built = self.active()
        system = self.system_of(built)
        self.driver.delete(built)
        self.nodes.until(lambda: not self.claims())
        with self.assertRaises(InstanceNotFoundError):
            self.driver.status(built)
        self.assertEqual([], self.media(system))
        self.nodes.until(lambda: self.machine(system)['PowerState'] == 'Off')

    def test_power_is_switched_as_asked(self):
        built = self.active()
        for change, asked, state in (
            (lambda: self.driver.reboot(built), ['GracefulRestart'], State.ACTIVE),
            (lambda: self.driver.reboot(built, hard=True), ['ForceOff', 'On'], State.ACTIVE),
            (lambda: self.driver.suspend(built), ['ForceOff'], State.SUSPENDED),
            (lambda: self.driver.resume(built), ['On'], State.ACTIVE),
        ):
            with self.subTest(asked):
                self.resets.clear()
                change()
                self.until_asked(len(asked))
                self.becomes(built, state)
                self.nodes.until(lambda: self.driver.status(built).task_state is None)
                self.assertEqual(asked, self.resets)

    def test_a_machine_whose_controller_refuses_fails_with_its_words(self):
        said = {'error': {'code': 'Base.1.0.GeneralError', 'message': 'The door is open.'}}
        self.controllers.fault(Answer(400, body=json.dumps(said)), 'POST', RESET)
        built = self.build()
        self.becomes(built, State.ERROR)
        self.assertIn('The door is open.', self.driver.get_amphora(amphora_id=built).fault)
