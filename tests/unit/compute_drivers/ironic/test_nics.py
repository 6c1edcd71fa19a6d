"""Ports of Neutron on nodes: of builds, of deletes, and of what was left behind."""

from kiln.exceptions import (
    BuildConflict,
    BuildOutcomeUnknown,
    DeleteFailed,
    InstanceStateConflict,
    InsufficientCapacity,
    InvalidBuildRequest,
    InvalidRequest,
    PermissionDenied,
    QuotaExceeded,
    ServiceUnavailable,
)
from kiln.models import Ability, Resource, State
from tests.unit.compute_drivers.ironic.played import fault as ironic_fault
from tests.unit.compute_drivers.ironic.played_neutron import fault
from tests.unit.compute_drivers.ironic.with_ports import ATTACH, CLAIMS, DEPLOY, PORT, Case


class Builds(Case):
    def test_a_build_gets_its_ports_and_a_port_of_each_of_its_networks(self):
        given = self.neutron.port()
        built = self.build(port_ids=[given], network_ids=['net1'], sec_groups=['web'])
        (made,) = self.neutron.ports.keys() - {given}
        self.assertEqual([given, made], self.ironic.vifs)
        port = self.neutron.ports[made]
        self.assertEqual(
            (built, [self.neutron.groups[0]['id']], 'web-1'),
            (port['device_id'], port['security_groups'], port['name']),
        )
        found = self.driver.get_amphora(amphora_id=built).addresses
        self.assertEqual(['10.0.0.2', '10.0.0.3'], [one.address for one in found])
        self.assertEqual([given, made], [one.port_id for one in found])
        self.assertEqual(self.neutron.ports[given]['mac_address'], found[0].mac)

    def test_a_list_asks_ironic_alone_for_addresses(self):
        self.build(network_ids=['net1'])
        self.neutron.asked.clear()
        (found,) = self.driver.list_amphorae()
        self.assertEqual(1, len(found.addresses))
        self.assertEqual([], self.neutron.asked)

    def test_a_requested_address_is_that_of_the_port(self):
        network = self.neutron.net_id
        self.build(network_ids=[f'{network}=10.0.0.77'])
        (sent,) = [body for what, _, body in self.neutron.asked if what == 'POST /v2.0/ports']
        self.assertIn(b'"fixed_ips": [{"ip_address": "10.0.0.77"}]', sent)

    def test_the_networks_and_groups_of_the_backend_are_for_builds_that_name_none(self):
        self.driver = self.opened(
            f'network_endpoint_override = {self.neutron.url}', 'networks = net1',
            'security_groups = web',
        )  # fmt: skip
        self.assertIs(True, self.driver.check().healthy)
        self.build()
        (port,) = self.neutron.ports.values()
        self.assertEqual([self.neutron.groups[0]['id']], port['security_groups'])
        given = self.neutron.port()
        self.ironic.nodes[0]['provision_state'] = 'active'
        self.driver.delete(self.driver.find_build('k-1').id)
        self.ironic.nodes[0]['provision_state'] = 'available'
        self.build(build_key='k-2', port_ids=[given])
        self.assertEqual([given], self.ironic.vifs)

    def test_no_network_is_none(self):
        self.build(network_ids=['none'])
        self.assertEqual([], self.neutron.asked)
        self.refused(
            InvalidBuildRequest, 'excludes all other', network_ids=['none', 'net1'],
            build_key='k-2',
        )  # fmt: skip

    def test_what_is_wrong_is_refused_before_a_node_is_claimed(self):
        taken = self.neutron.port(device_id='somebody', device_owner='compute:az1')
        for kind, said, given in (
            (InvalidBuildRequest, "network 'nope' was not found. Known: net1",
             {'network_ids': ['nope']}),
            (InvalidBuildRequest, "security group 'nope' was not found. Known: web",
             {'network_ids': ['net1'], 'sec_groups': ['nope']}),
            (InvalidBuildRequest, 'it has no network', {'sec_groups': ['web']}),
            (InvalidBuildRequest, 'it has no network',
             {'sec_groups': ['web'], 'port_ids': [self.neutron.port()]}),
            (BuildConflict, f'port {taken} is in use by somebody', {'port_ids': [taken]}),
            (InvalidBuildRequest, "Neutron has no port '../x'", {'port_ids': ['../x']}),
            (InvalidBuildRequest, 'could not be found',
             {'port_ids': ['00000000-0000-4000-8000-000000000000']}),
        ):  # fmt: skip
            with self.subTest(said):
                self.refused(kind, said, **given)
        self.assertEqual([], self.asked(self.ironic, self.neutron))

    def test_a_refusal_of_neutron_claims_nothing(self):
        for kind, status, said in (
            (QuotaExceeded, 409, "Quota exceeded for resources: ['port']."),
            (BuildConflict, 409, 'IP address 10.0.0.2 already allocated in subnet sub-1'),
            (PermissionDenied, 403, 'rule:create_port is disallowed by policy'),
            (InvalidBuildRequest, 400, 'IP address 1.1.1.1 is not a valid IP for the subnet.'),
        ):
            self.neutron.refusals = [('POST /v2.0/ports', fault(status, said))]
            self.refused(kind, said[:20], network_ids=['net1'])
        self.assertEqual([], self.asked(self.ironic))
        # What is refused has made nothing that would have to be looked for.
        self.assertNotIn('GET /v2.0/ports', [what for what, _, _ in self.neutron.asked])

    def test_nodes_that_can_have_no_port_are_not_claimed(self):
        self.ironic.nodes[0]['network_interface'] = 'noop'
        self.refused(
            InvalidBuildRequest, "of flavor 'bm' can have a port: their network interface is noop",
            network_ids=['net1'],
        )  # fmt: skip
        self.assertEqual([], self.asked(self.ironic, self.neutron))

    def test_a_lack_of_free_nodes_that_can_have_ports_is_a_lack_of_capacity(self):
        used = {**self.ironic.nodes[0], 'provision_state': 'active'}
        self.ironic.nodes += [used]
        self.ironic.nodes[0]['network_interface'] = 'noop'
        nodes = {'nodes': self.ironic.nodes[:1]}
        self.ironic.refusals = [('GET /v1/nodes', (200, {}, nodes))]
        self.refused(InsufficientCapacity, 'is free', network_ids=['net1'])

    def test_a_node_with_too_few_ports_is_free_again_and_all_is_given_back(self):
        ports = [self.neutron.port() for _ in range(2)]
        said = 'not enough free physical ports'
        self.refused(InvalidBuildRequest, said, port_ids=ports, network_ids=['net1'])
        self.assert_nothing_is_left()
        self.assertEqual(set(ports), set(self.neutron.ports))

    def test_a_refused_deploy_gives_all_ports_back(self):
        given = self.neutron.port()
        self.ironic.refusals = [(DEPLOY, ironic_fault(400, 'Failed to validate deploy'))]
        self.refused(
            InvalidBuildRequest, 'validate', port_ids=[given], network_ids=['net1']
        )  # fmt: skip
        self.assert_nothing_is_left()
        self.assertEqual([given], list(self.neutron.ports))

    def test_a_claim_that_finds_no_node_leaves_no_port(self):
        self.ironic.claim_errors = ['no available nodes match the resource class bm']
        with self.assertRaises(Exception):  # noqa: B017  # another test has its class
            self.build(network_ids=['net1'])
        self.assert_nothing_is_left()
        self.assertEqual({}, self.neutron.ports)

    def test_ports_whose_answer_was_lost_are_deleted(self):
        self.neutron.refusals = [('POST /v2.0/ports', (502, {}, 'a page'))]
        self.refused(ServiceUnavailable, '502', network_ids=['net1'])
        self.assertEqual({}, self.neutron.ports)
        self.assertEqual([], self.asked(self.ironic))

    def test_a_claim_that_cannot_be_taken_back_keeps_its_ports_for_the_repeated_build(self):
        given = {'network_ids': ['net1'], 'port_ids': [self.neutron.port()]}
        self.ironic.refusals = [(ATTACH, (502, {}, 'a page'))]
        self.neutron.refusals = [('GET /v2.0/ports', (502, {}, 'a page'))]
        failed = self.refused(ServiceUnavailable, '502', **given)
        self.assertIs(failed.outcome.UNKNOWN, failed.outcome)
        self.assertIs(State.PENDING, self.driver.find_build('k-1').state)
        # The name of its network is not needed any more.
        self.neutron.networks.clear()
        built = self.build(**given)
        self.assertEqual(2, len(self.neutron.ports))
        self.assertEqual(list(self.neutron.ports), self.ironic.vifs)
        self.assertEqual(2, len(self.driver.get_amphora(amphora_id=built).addresses))

    def test_a_build_that_another_request_has_claimed_meanwhile_has_one_set_of_ports(self):
        first = self.build(network_ids=['net1'])
        # As the second request sees it, which looked before the first one.
        self.ironic.refusals = [
            ('GET /v1/allocations/kiln-.*', ironic_fault(404, 'Allocation could not be found.'))
        ]
        self.assertEqual(first, self.build(network_ids=['net1']))
        self.assertEqual(2, len([1 for what in self.asked(self.ironic) if what == CLAIMS]))
        self.assertEqual(list(self.neutron.ports), self.ironic.vifs)

    def test_a_build_whose_ports_another_request_for_it_has_taken_is_that_one(self):
        given = self.neutron.port()
        first = self.build(port_ids=[given])
        self.ironic.refusals = [
            ('GET /v1/allocations/kiln-.*', ironic_fault(404, 'Allocation could not be found.'))
        ]
        self.assertEqual(first, self.build(port_ids=[given]))

    def test_an_amphora_that_is_deleted_while_it_is_built_leaves_no_port_on_the_node(self):
        def deleted():
            self.ironic.claims.clear()
            self.ironic.nodes[0]['instance_uuid'] = None

        given = self.neutron.port()
        self.neutron.meanwhile = [deleted]
        self.refused(InvalidBuildRequest, 'could not be found', port_ids=[given])
        self.assertEqual(([], ''), (self.ironic.vifs, self.neutron.ports[given]['device_id']))

    def test_a_given_port_that_changes_at_the_same_time_is_read_again(self):
        given = self.neutron.port()
        self.neutron.meanwhile = [lambda: self.neutron.ports[given].update(revision_number=9)]
        built = self.build(port_ids=[given])
        self.assertEqual(built, self.neutron.ports[given]['device_id'])

    def test_a_given_port_that_somebody_takes_at_the_same_time_is_refused(self):
        given = self.neutron.port()
        theirs = {'revision_number': 9, 'device_id': 'theirs', 'device_owner': 'compute:az1'}
        self.neutron.meanwhile = [lambda: self.neutron.ports[given].update(theirs)]
        self.refused(BuildConflict, f'port {given} is in use by theirs', port_ids=[given])
        self.assertEqual('theirs', self.neutron.ports[given]['device_id'])
        self.assertEqual(({}, []), (self.ironic.claims, self.ironic.vifs))

    def test_a_port_of_an_amphora_that_is_gone_is_free(self):
        gone = '00000000-0000-4000-8000-000000000000'
        given = self.neutron.port(device_id=gone, device_owner='kiln:node')
        built = self.build(port_ids=[given])
        self.assertEqual(built, self.neutron.ports[given]['device_id'])


class Deletes(Case):
    def test_ports_are_given_back_before_the_node_is_undeployed(self):
        given = self.neutron.port()
        built = self.active(port_ids=[given], network_ids=['net1'])
        self.ironic.refusals = [(DEPLOY, (502, {}, 'a page'))]
        with self.assertRaises(ServiceUnavailable):
            self.driver.delete(built)
        self.assertEqual([given], list(self.neutron.ports))
        self.assertEqual('', self.neutron.ports[given]['device_id'])
        self.driver.delete(built)
        self.assert_nothing_is_left()

    def test_a_delete_without_neutron_fails_and_can_be_repeated(self):
        built = self.active(network_ids=['net1'])
        self.neutron.refusals = [(f'DELETE {PORT}', (503, {}, 'a page'))]
        with self.assertRaises(ServiceUnavailable) as caught:
            self.driver.delete(built)
        self.assertIs(True, caught.exception.retryable)
        # The next look goes on with it.
        self.assertIs(State.DELETING, self.driver.status(built).state)
        self.assert_nothing_is_left()
        self.assertEqual({}, self.neutron.ports)

    def test_the_ports_of_a_node_that_is_being_deployed_stay_until_it_is_undeployed(self):
        built = self.build(network_ids=['net1'])
        self.driver.delete(built)
        self.assertEqual(list(self.neutron.ports), self.ironic.vifs)
        self.ironic.nodes[0]['provision_state'] = 'active'
        self.assertIs(State.DELETING, self.driver.status(built).state)
        self.assert_nothing_is_left()
        self.assertEqual({}, self.neutron.ports)

    def test_a_node_that_is_being_deployed_is_not_asked_to_stop(self):
        built = self.build(network_ids=['net1'])
        self.driver.delete(built)
        self.assertEqual(['active'], [one['target'] for one in self.ironic.sent(DEPLOY)])

    def test_a_protected_node_keeps_its_ports_and_the_delete_says_what_to_do(self):
        built = self.active(network_ids=['net1'])
        self.ironic.nodes[0]['protected'] = True
        with self.assertRaisesRegex(DeleteFailed, 'is protected. Unset that first') as caught:
            self.driver.delete(built)
        self.assertIs(False, caught.exception.retryable)
        self.assertEqual(list(self.neutron.ports), self.ironic.vifs)
        self.assertIs(State.ACTIVE, self.driver.status(built).state)

    def test_ports_of_a_node_that_is_not_active_are_released_once_ironic_undeploys_it(self):
        given = self.neutron.port()
        built = self.build(port_ids=[given], network_ids=['net1'])
        self.ironic.nodes[0]['provision_state'] = 'deploy failed'
        self.ironic.refusals = [(DEPLOY, (503, {}, 'a page'))]
        with self.assertRaises(ServiceUnavailable):
            self.driver.delete(built)
        self.assertEqual(2, len(self.ironic.vifs))
        self.driver.delete(built)
        self.assertEqual([given], list(self.neutron.ports))
        self.assertEqual('', self.neutron.ports[given]['device_id'])
        # Ironic would unbind nothing of such a node, and does when it undeploys it.
        self.assertEqual(2, len(self.ironic.vifs))

    def test_a_delete_is_accepted_while_another_request_holds_the_node(self):
        built = self.active(network_ids=['net1'])
        locked = ironic_fault(409, 'Node n-1 is locked by host c-1, please retry later.')
        self.ironic.refusals = [('DELETE /v1/nodes/n-1/vifs/.*', locked)]
        self.driver.delete(built)
        self.assertIs(State.DELETING, self.driver.status(built).state)
        self.assert_nothing_is_left()

    def test_a_claim_that_was_never_deployed_gives_its_ports_back(self):
        self.ironic.refusals = [(DEPLOY, (502, {}, 'a page'))]
        self.refused(BuildOutcomeUnknown, '502', network_ids=['net1'])
        self.driver.delete(self.driver.find_build('k-1').id)
        self.assert_nothing_is_left()
        self.assertEqual({}, self.neutron.ports)

    def test_an_amphora_without_ports_is_deleted_without_neutron(self):
        self.driver.delete(self.active())
        self.assertEqual([], self.neutron.asked)


class Adopting(Case):
    def test_a_claim_tells_of_the_ports_that_others_have_attached_and_leaves_them(self):
        theirs = '11111111-2222-4333-8444-555555555555'
        hidden = '00000000-0000-4000-8000-000000000000'
        port = self.neutron.port(device_id=theirs, device_owner='baremetal:none')
        self.ironic.vifs = [hidden, port]
        self.ironic.nodes[0] |= {'instance_uuid': theirs, 'provision_state': 'active'}
        self.driver.claim(theirs, 'k-1')
        (address,) = self.driver.get_amphora(amphora_id=theirs).addresses
        self.assertEqual(('10.0.0.2', port), (address.address, address.port_id))
        self.driver.delete(theirs)
        self.assertEqual(theirs, self.neutron.ports[port]['device_id'])


class Resources(Case):
    def left(self, **more):
        return self.neutron.port(
            **{'description': 'kiln-metal-site:site', 'device_owner': 'kiln:node', **more}
        )

    def test_ports_that_kiln_has_made_for_a_site_are_its_resources(self):
        built = self.build(network_ids=['net1'])
        left = self.left()
        self.left(description='kiln-metal-site:other')
        self.neutron.port()
        found = {one.id: one.amphora_id for one in self.driver.list_resources()}
        self.assertEqual({left: None, self.ironic.vifs[0]: built}, found)

    def test_a_port_of_an_amphora_that_is_gone_is_deleted_and_no_other(self):
        built = self.build(network_ids=['net1'])
        (used,) = self.ironic.vifs
        with self.assertRaisesRegex(InstanceStateConflict, f'amphora {built} uses it'):
            self.driver.delete_resource(Resource(kind='port', id=used, owner='site'))
        theirs = self.neutron.port()
        with self.assertRaisesRegex(InvalidRequest, 'kiln has not made it'):
            self.driver.delete_resource(Resource(kind='port', id=theirs, owner='site'))
        with self.assertRaisesRegex(InvalidRequest, 'only ports'):
            self.driver.delete_resource(Resource(kind='volume', id=theirs, owner='site'))
        left = self.left(device_id='00000000-0000-4000-8000-000000000000')
        for _ in range(2):
            self.driver.delete_resource(Resource(kind='port', id=left, owner='site'))
        self.assertEqual({used, theirs}, set(self.neutron.ports))


class Alone(Case):
    def test_an_ironic_without_a_catalogue_and_a_neutron_refuses_what_needs_one(self):
        alone = self.opened()
        self.assertLessEqual(
            {'network_ids', 'port_ids', 'sec_groups'}, alone.limits.refused_options
        )
        self.assertEqual(set(), {Ability.ATTACH_PORT, Ability.LIST_RESOURCES} & alone.abilities)
        self.assertNotIn('network_ids', self.driver.limits.refused_options)
        self.assertIn(Ability.ATTACH_PORT, self.driver.abilities)
