"""Names of networks, security groups and images, and the check of a backend's defaults."""

import json
import unittest

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.nova.driver import NovaDriver
from kiln.exceptions import InvalidBuildRequest, InvalidRequest
from tests.unit.compute_drivers.nova.loopback import Loopback
from tests.unit.compute_drivers.nova.test_catalogue import BUILD, PAGE, UUID, CatalogueCase
from tests.unit.compute_drivers.nova.written import written

OTHER = '0d1f5c3e-8f5b-4d0c-9d5e-2f6f0b9a11aa'
CHECK = Asked(verb='check', subject='the backend')


def listing(key, *known):
    """Return an answer with those of the (name, id) pairs that a query asks for."""

    def answer(query):
        return {
            key: [
                {'name': name, 'id': one}
                for name, one in known
                if query.get('name', name) == name and query.get('id', one) == one
            ]
        }

    return answer


class Networks(CatalogueCase):
    path = 'GET /v2.0/networks'

    def setUp(self):
        super().setUp()
        known = [('net1', UUID), ('twin', 'a'), ('twin', 'b'), ('net0', 'c')]
        self.answer(self.path, listing('networks', *known))

    def ids(self, *names, asked=BUILD):
        return self.catalogue.networks.ids(asked, names)

    def test_a_network_is_found_by_its_name_and_keeps_its_address(self):
        self.assertEqual((UUID, f'{UUID}=10.0.0.7'), self.ids('net1', 'net1=10.0.0.7'))
        self.assertEqual(1, self.times(self.path))

    def test_ids_and_none_are_not_looked_up_for_a_build(self):
        self.assertEqual((OTHER, f'{OTHER}=10.0.0.7'), self.ids(OTHER, f'{OTHER}=10.0.0.7'))
        self.assertEqual(('none',), self.ids('none'))
        self.assertEqual([], self.cloud.queries)

    def test_an_id_is_looked_up_for_a_check(self):
        self.assertEqual((UUID,), self.ids(UUID, asked=CHECK))
        with self.assertRaises(InvalidRequest):
            self.ids(OTHER, asked=CHECK)

    def test_names_are_cached(self):
        self.ids('net1')
        self.clock.advance(299)
        self.ids('net1')
        self.assertEqual(1, self.times(self.path))
        self.clock.advance(1)
        self.ids('net1')
        self.assertEqual(2, self.times(self.path))

    def test_an_unknown_name_is_refused_with_the_known_ones_and_not_cached(self):
        self.refuses(
            InvalidBuildRequest,
            "Cannot build web-1: network 'net2' was not found. Known: net0, net1, twin.",
            self.ids, 'net2',
        )  # fmt: skip
        self.answer(self.path, listing('networks', ('net2', OTHER)))
        self.assertEqual((OTHER,), self.ids('net2'))

    def test_an_ambiguous_name_is_refused_with_its_ids(self):
        self.refuses(
            InvalidBuildRequest,
            "Cannot build web-1: 2 networks are named 'twin': a, b. Use one of these ids.",
            self.ids, 'twin',
        )  # fmt: skip

    def test_without_the_known_ones_the_error_is_still_about_the_name(self):
        self.answer(self.path, lambda query: {'networks': []} if 'name' in query else PAGE)
        self.refuses(
            InvalidBuildRequest,
            "Cannot build web-1: network 'net2' was not found.",
            self.ids, 'net2',
        )  # fmt: skip


class SecurityGroups(CatalogueCase):
    path = 'GET /v2.0/security-groups'

    def setUp(self):
        super().setUp()
        known = [('web', 'g-1'), ('twin', 'a'), ('twin', 'b')]
        self.answer(self.path, listing('security_groups', *known))

    def ids(self, *names):
        return self.catalogue.networks.group_ids(BUILD, names)

    def test_ids_are_not_looked_up_and_names_only_once(self):
        for _ in range(2):
            self.assertEqual((UUID, 'g-1'), self.ids(UUID, 'web'))
        ((_, query),) = self.cloud.queries
        self.assertEqual({'name': 'web', 'fields': 'id'}, query)

    def test_names_are_looked_up_in_the_project_of_the_credentials(self):
        self.catalogue = self.catalogue_of(project_id='p-1')
        self.ids('web')
        self.assertEqual('p-1', self.cloud.queries[0][1]['project_id'])

    def test_a_missing_or_ambiguous_name_is_refused(self):
        self.refuses(
            InvalidBuildRequest,
            "Cannot build web-1: security group 'wbe' was not found. Known: twin, web.",
            self.ids, 'wbe',
        )  # fmt: skip
        self.refuses(
            InvalidBuildRequest,
            "Cannot build web-1: 2 security groups are named 'twin': a, b. Use one of these ids.",
            self.ids, 'twin',
        )  # fmt: skip


class ImageNames(CatalogueCase):
    def test_a_missing_image_is_refused_with_the_active_ones_of_the_owner(self):
        self.catalogue = self.catalogue_of(image_owner='ops')
        self.answer('GET /v2/images', listing('images', ('debian', 'a'), ('amphora', 'b')))
        self.refuses(
            InvalidBuildRequest,
            "Cannot build web-1: active image 'amphra' was not found. Known: amphora, debian.",
            self.catalogue.image_id, BUILD, 'amphra',
        )  # fmt: skip
        self.assertEqual({'ops'}, {query['owner'] for _, query in self.cloud.queries})


class Backend(unittest.TestCase):
    """A backend of a cloud with one of everything."""

    def setUp(self):
        zone = {'zoneName': 'az1', 'zoneState': {'available': True}}
        self.cloud = Loopback({
            'GET /flavors': {'flavors': [{'id': 'f-1', 'name': 'tiny'}]},
            'GET /v2/images': listing('images', ('debian', 'i-1')),
            'GET /v2.0/networks': listing('networks', ('net1', UUID)),
            'GET /v2.0/security-groups': listing('security_groups', ('web', 'g-1')),
            'GET /os-availability-zone': {'availabilityZoneInfo': [zone]},
            'GET /os-keypairs': {'keypairs': [{'keypair': {'name': 'ops'}}]},
            'GET /os-keypairs/ops': {'keypair': {'public_key': 'ssh-rsa AAAA ops'}},
            'GET /servers': {'servers': []},
            'GET /servers/detail': {'servers': []},
            'POST /servers': (202, {}, {'server': {'id': 'a'}}),
        })  # fmt: skip
        self.enterContext(self.cloud)

    def open(self, *lines):
        conf = written(
            'auth_type = none', 'microversion = 2.96',
            *(
                f'{service}_endpoint_override = {self.cloud.url}'
                for service in ('compute', 'network', 'image')
            ),
            *lines,
        )  # fmt: skip
        driver = NovaDriver.open(conf, name='east', owner='kiln')
        self.addCleanup(driver.close)
        return driver


class Builds(Backend):
    def test_a_build_has_the_ids_of_networks_and_security_groups_that_have_names(self):
        driver = self.open(
            'flavor = tiny', 'image = debian', 'networks = net1', 'security_groups = web'
        )
        driver.build(name='a')
        driver.build(name='b', network_ids=['net1=10.0.0.7'], sec_groups=[UUID])
        sent = [
            json.loads(body)['server'] for what, _, body in self.cloud.asked if what[:4] == 'POST'
        ]
        self.assertEqual(
            [[{'uuid': UUID}], [{'uuid': UUID, 'fixed_ip': '10.0.0.7'}]],
            [server['networks'] for server in sent],
        )
        self.assertEqual(
            [[{'name': 'g-1'}], [{'name': UUID}]], [server['security_groups'] for server in sent]
        )


class Validated(Backend):
    def test_networks_and_security_groups_are_valid_by_name_and_by_id(self):
        driver = self.open()
        self.cloud.answers['GET /v2.0/subnets'] = {'subnets': [{'cidr': '10.0.0.0/24'}]}
        for network in ('net1', UUID, 'net1=10.0.0.7', 'none'):
            driver.validate_network(network)
        driver.validate_security_group('web')
        self.assertNotIn('POST /servers', [path for path, _ in self.cloud.queries])

    def test_a_requested_address_is_valid_if_a_subnet_of_the_network_has_it(self):
        driver = self.open()
        self.cloud.answers['GET /v2.0/subnets'] = {
            'subnets': [{'cidr': 'fd00:1::/64'}, {'cidr': '10.0.0.0/24'}]
        }
        for address in ('10.0.0.7', 'fd00:1::7', 'FD00:0001::0007'):
            driver.validate_network(f'net1={address}')
        self.assertIn(
            ('GET /v2.0/subnets', {'network_id': UUID, 'fields': 'cidr'}), self.cloud.queries
        )
        for address, reason in (
            ('10.0.1.7', 'is in no subnet of the network; it has 10.0.0.0/24, fd00:1::/64'),
            ('fd00:2::7', 'is in no subnet of the network'),
            ('10.0.0.256', 'is not an IP address'),
        ):
            with self.subTest(address), self.assertRaisesRegex(InvalidRequest, reason):
                driver.validate_network(f'net1={address}')

    def test_an_address_is_not_checked_if_the_subnets_are_hidden(self):
        driver = self.open()
        self.cloud.answers['GET /v2.0/subnets'] = {'subnets': []}
        driver.validate_network('net1=10.0.0.7')

    def test_those_that_do_not_exist_are_refused_with_the_names_of_those_that_do(self):
        driver = self.open()
        for validate, name, known in (
            (driver.validate_network, 'net2', 'net1'),
            (driver.validate_network, OTHER, 'net1'),
            (driver.validate_security_group, 'wbe', 'web'),
        ):
            with self.subTest(name), self.assertRaises(InvalidRequest) as caught:
                validate(name)
            self.assertIn(f'{name!r} was not found. Known: {known}.', str(caught.exception))
            self.assertEqual(name, caught.exception.resource_id)


class Defaults(Backend):
    def test_defaults_that_exist_are_healthy(self):
        driver = self.open(
            'flavor = tiny', 'image = debian', 'networks = net1', 'security_groups = web',
            'availability_zone = az1', 'keypairs = ops, ssh-rsa AAAA',
        )  # fmt: skip
        self.assertTrue(driver.check().healthy)

    def test_no_defaults_and_no_network_are_healthy(self):
        self.assertTrue(self.open().check().healthy)
        self.assertTrue(self.open('networks = none').check().healthy)

    def test_all_defaults_that_do_not_exist_are_reported_at_once(self):
        driver = self.open(
            'flavor = huge', 'image = suse', 'networks = net2', 'security_groups = wbe',
            'availability_zone = az9', 'keypairs = mine',
        )  # fmt: skip
        with self.assertRaises(InvalidRequest) as caught:
            driver.check()
        self.assertEqual(
            'Cannot check the backend: '
            "option flavor: flavor 'huge' was not found. Known: tiny. "
            "option image: active image 'suse' was not found. Known: debian. "
            "option networks: network 'net2' was not found. Known: net1. "
            "option security_groups: security group 'wbe' was not found. Known: web. "
            "option availability_zone: available zone 'az9' was not found. Known: az1. "
            "option keypairs: key pair 'mine' was not found. Known: ops.",
            str(caught.exception),
        )


if __name__ == '__main__':
    unittest.main()
