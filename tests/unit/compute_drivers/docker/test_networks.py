"""Networks of a container, which an engine connects once."""

import json
import urllib.parse

from kiln.compute_drivers.docker.driver import DockerDriver
from kiln.exceptions import InstanceStateConflict, InvalidRequest, ResourceNotFoundError
from tests.unit.compute_drivers.docker.scripted import VERSION, ScriptedCase, answer
from tests.unit.compute_drivers.docker.test_repeats import inspected
from tests.unit.compute_drivers.docker.test_settings import options


class AttachedAgain(ScriptedCase):
    def test_only_networks_with_such_a_name_are_listed(self):
        # An engine can have many.
        self.attach(None)
        filters = urllib.parse.urlsplit(self.server.requests[2]).query
        self.assertIn('{"name": ["net"]}', urllib.parse.unquote_plus(filters))

    def attach(self, address, has='10.0.0.2'):
        """Attach a network that is connected already, with an address or without."""
        found = inspected()
        found['NetworkSettings']['Networks'] = {
            'net': {'NetworkID': 'n-1', 'EndpointID': 'e-1', 'IPAddress': has}
        }
        inspect = answer(json.dumps(found).encode())
        connected = b'{"message": "endpoint with name web already exists in network net"}'
        url = self.serve(
            VERSION,
            inspect,
            answer(json.dumps([{'Name': 'net', 'Id': 'n-1'}]).encode()),
            answer(connected, status=403),
            inspect,
        )
        driver = DockerDriver.open(options(url=url), name='here', owner='site')
        self.addCleanup(driver.close)
        return driver.attach_network(found['Id'], 'net', address=address)

    def test_without_an_address_the_connection_is_returned(self):
        self.assertEqual('e-1', self.attach(None).port_id)

    def test_with_its_address_the_connection_is_returned(self):
        self.assertEqual(('10.0.0.2',), self.attach('10.0.0.2').addresses)

    def test_its_address_can_be_given_in_another_notation(self):
        attached = self.attach('2001:DB8:0::2', has='2001:db8::2')
        self.assertEqual(('2001:db8::2',), attached.addresses)

    def test_with_another_address_it_is_refused(self):
        with self.assertRaisesRegex(InstanceStateConflict, '10.0.0.2. Detach it first') as caught:
            self.attach('10.0.0.3')
        self.assertEqual('net', caught.exception.resource_id)
        with self.assertRaisesRegex(InstanceStateConflict, 'another address: none. Detach it'):
            self.attach('10.0.0.3', has='')


class NoName(ScriptedCase):
    """What cannot be the name of a network is never sent to the engine."""

    def setUp(self):
        super().setUp()
        found = inspected()
        self.amphora_id = found['Id']
        url = self.serve(VERSION, answer(json.dumps(found).encode()))
        self.driver = DockerDriver.open(options(url=url), name='here', owner='site')
        self.addCleanup(self.driver.close)

    def test_it_is_a_network_that_is_not_found_if_it_is_attached(self):
        with self.assertRaises(ResourceNotFoundError) as caught:
            self.driver.attach_network(self.amphora_id, '../x')
        self.assertEqual('../x', caught.exception.resource_id)
        self.assertEqual(2, len(self.server.requests))

    def test_it_is_detached_already(self):
        self.driver.detach_network(self.amphora_id, '../x')
        self.assertEqual(2, len(self.server.requests))


KNOWN = ({'Name': 'web', 'Id': 'a' * 64}, {'Name': 'bridge', 'Id': 'b' * 64})


class Validated(ScriptedCase):
    def validate(self, network, known=KNOWN):
        url = self.serve(VERSION, answer(json.dumps(known).encode()))
        driver = DockerDriver.open(options(url=url), name='here', owner='site')
        self.addCleanup(driver.close)
        driver.validate_network(network)

    def test_a_network_is_valid_by_name_by_id_and_with_an_address(self):
        for network in ('web', 'a' * 64, 'a' * 12, 'b' * 12, 'web=10.0.0.7', 'bridge'):
            with self.subTest(network):
                self.validate(network)

    def test_networks_that_an_engine_has_in_itself_are_valid_unlisted(self):
        for network in ('none', 'host', 'default', 'podman'):
            self.validate(network)
            self.assertEqual([], self.server.requests)

    def test_of_many_networks_the_error_names_the_first_ones(self):
        known = [{'Name': f'n{number:02}', 'Id': 'a' * 64} for number in range(23)]
        with self.assertRaisesRegex(InvalidRequest, 'Known: n00, .*, n19 and 3 more\\.$'):
            self.validate('web', known)
        with self.assertRaisesRegex(InvalidRequest, 'Known: n00, .*, n19\\.$'):
            self.validate('web', known[:20])

    def test_any_other_is_refused_with_the_names_of_those_that_exist(self):
        for network in ('wbe', 'a' * 11, 'web=10.0.0', 'no/name'):
            with self.subTest(network), self.assertRaises(InvalidRequest) as caught:
                self.validate(network)
            self.assertIs(type(caught.exception), InvalidRequest)
            self.assertEqual(network, caught.exception.resource_id)
        with self.assertRaisesRegex(InvalidRequest, "'wbe' was not found. Known: bridge, web."):
            self.validate('wbe')
