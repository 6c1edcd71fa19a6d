"""Octavia's contract for compute drivers, tested on kiln through Octavia's loader."""

import inspect
import threading
import time

from octavia.common import exceptions
from octavia.compute import compute_base
from octavia.network.drivers.neutron import base as neutron_base
from octavia.network.drivers.noop_driver.driver import NoopNetworkDriver
from taskflow.types import failure

from kiln.adapters.octavia import errors
from kiln.adapters.octavia.driver import KilnDriver, KilnNoopDriver, KilnNovaDriver
from kiln.exceptions import (
    AmphoraComputeError,
    CircuitOpenError,
    ConfigurationError,
    InstanceNotFoundError,
    InsufficientCapacity,
    InvalidRequest,
    QuotaExceeded,
)
from tests.octavia.case import CONF, NAME, OctaviaCase


class Contract(OctaviaCase):
    def test_octavia_finds_each_driver_by_its_entry_point(self):
        for name, expected in (
            ('kiln', KilnDriver), ('kiln_noop', KilnNoopDriver), ('kiln_nova', KilnNovaDriver),
        ):  # fmt: skip
            CONF.set_override('compute_driver', name, 'controller_worker')
            self.assertIs(expected, type(self.compute))
        CONF.clear_override('compute_driver', 'controller_worker')

    def test_every_method_has_the_parameters_of_octavias_contract_in_order(self):
        for name in sorted(compute_base.ComputeBase.__abstractmethods__):
            with self.subTest(name):
                wanted = self.parameters(getattr(compute_base.ComputeBase, name))
                found = self.parameters(getattr(KilnDriver, name))
                # Octavia's worker also passes the ports, which its contract omits.
                found.pop('port_ids', None)
                self.assertEqual(wanted, found)

    @staticmethod
    def parameters(function):
        found = inspect.signature(function).parameters.values()
        return {parameter.name: parameter.default for parameter in found}

    def test_creating_a_driver_opens_no_backend(self):
        self.configure('[kiln]\nbackend = nowhere\n')
        before = threading.active_count()
        for kind in (KilnDriver, KilnNoopDriver, KilnNovaDriver):
            for _ in range(65):
                kind()
        self.assertEqual(before, threading.active_count())

    def test_a_wrong_configuration_is_octavias_error(self):
        self.configure('[kiln]\nbackend = nowhere\n')
        driver = KilnDriver()
        with self.assertRaisesRegex(
            exceptions.ComputeBuildException, r'\[compute:nowhere\]'
        ) as it:
            driver.build(name=NAME)
        self.assertIsInstance(it.exception.__cause__, ConfigurationError)
        with self.assertRaisesRegex(exceptions.ComputeGetException, r'\[compute:nowhere\]'):
            driver.get_amphora('i-1')


class Building(OctaviaCase):
    def test_an_amphora_is_built_as_octavia_requests(self):
        built = self.build(port_ids=['port-1'], availability_zone={'compute_zone': 'az9'})
        (amphora,) = self.amphorae()
        self.assertEqual(
            (built, NAME, NAME, 'm1.amphora', 'tag:amphora', 'az9', 'octavia'),
            (
                amphora.id, amphora.name, amphora.build_key, amphora.flavor, amphora.image_id,
                amphora.availability_zone, amphora.owner,
            ),
        )  # fmt: skip
        self.assertEqual(
            {'lb-mgmt', 'noop-net'}, {address.network_id for address in amphora.addresses}
        )

    def test_empty_arguments_of_octavia_are_not_requested(self):
        self.build(amphora_flavor='', image_tag='', key_name='')
        (amphora,) = self.amphorae()
        self.assertEqual((None, None), (amphora.flavor, amphora.image_id))

    def test_a_flow_that_runs_again_gets_the_amphora_that_it_built(self):
        built = {self.build() for _ in range(3)}
        self.assertEqual({amphora.id for amphora in self.amphorae()}, built)
        self.assertEqual(1, len(built))

    def test_a_flow_that_runs_again_with_other_options_gets_the_amphora_that_it_built(self):
        built = self.build()
        with self.assertLogs('kiln.adapters.octavia', 'WARNING') as logs:
            again = self.build(amphora_flavor='m2.amphora')
        self.assertEqual(built, again)
        self.assertIn("'m1.amphora' and not 'm2.amphora'", logs.output[0])
        self.assertEqual([built], [amphora.id for amphora in self.amphorae()])

    def test_two_workers_at_once_build_one_amphora(self):
        built, start = [], threading.Barrier(4)

        def work():
            start.wait()
            built.append(self.build())

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((4, 1, 1), (len(built), len(set(built)), len(self.amphorae())))

    def test_a_lost_answer_builds_no_second_amphora(self):
        self.fail_calls('build', 'lose_answer', times=1)
        built = self.build()
        self.assertEqual([built], [amphora.id for amphora in self.amphorae()])

    def test_a_random_name_hides_the_purpose_and_is_found_again(self):
        self.configure('[nova]\nrandom_amphora_name_length = 10\n')
        built = {self.build(), self.build()}
        (amphora,) = self.amphorae()
        self.assertRegex(amphora.name, r'\Aa[A-Z0-9]{9}\Z')
        self.assertEqual({amphora.id}, built)

    def test_the_zone_comes_from_the_profile_or_else_from_the_configuration(self):
        self.configure('[nova]\navailability_zone = az-conf\n')
        self.build()
        self.build(name='other', availability_zone={'compute_zone': 'az-profile'})
        self.build(name='third', availability_zone={'management_network': 'm'})
        found = {amphora.name: amphora.availability_zone for amphora in self.amphorae()}
        self.assertEqual({NAME: 'az-conf', 'other': 'az-profile', 'third': 'az-conf'}, found)

    def test_an_image_can_have_the_backends_own_name(self):
        self.configure('[kiln]\nimage_by_tag = false\n')
        self.build()
        self.assertEqual('amphora', self.amphorae()[0].image_id)

    def test_a_lack_of_capacity_is_distinguished_from_other_failures(self):
        self.configure('[compute:noop]\nquota = 1\ncapacity = full:0\nzones = full,free\n')
        with self.assertRaises(exceptions.ComputeNoResourcesException) as full:
            self.build(availability_zone={'compute_zone': 'full'})
        self.assertIsInstance(full.exception.__cause__, InsufficientCapacity)
        self.build()
        with self.assertRaisesRegex(exceptions.ComputeBuildException, '1 of 1') as quota:
            self.build(name='other')
        self.assertIsInstance(quota.exception.__cause__, QuotaExceeded)

    def test_an_error_with_percent_signs_is_unchanged(self):
        with self.assertRaisesRegex(exceptions.ComputeBuildException, '100%s'):
            self.build(config_drive_files={'100%s': 'x'})


class Outages(OctaviaCase):
    quick = '[compute:noop]\ncall_timeout = 3\ncircuit_open = 0.2\ncircuit_open_max = 0.2\n'

    def break_down(self):
        """Open the circuits by failing calls; calls are refused then."""
        self.fail_calls('*', 'refuse')
        for name in ('build', 'change'):
            while self.circuit(name).state == 'closed':
                with self.assertRaises(AmphoraComputeError):
                    if name == 'build':
                        self.noop.create_server_group('g', 'affinity', timeout=0.3).result()
                    else:
                        self.noop.delete('i', timeout=0.3).result()

    def circuit(self, name):
        (found,) = (one for one in self.noop.circuits() if one.name.endswith(name))
        return found

    def test_a_call_is_repeated_until_the_outage_is_over(self):
        # On a busy machine the outage can take longer than a second.
        self.configure(self.quick.replace('call_timeout = 3', 'call_timeout = 15'))
        doomed = self.build(name='doomed')
        self.break_down()
        end = threading.Timer(1, self.noop.driver.cloud.faults.clear)
        end.start()
        self.addCleanup(end.join)
        built = self.build()
        self.compute.delete(doomed)
        self.compute.attach_network_or_port(built, port_id='vip')
        self.compute.create_server_group('octavia-lb-1', 'anti-affinity')
        self.assertEqual([built], [amphora.id for amphora in self.amphorae()])

    def test_a_long_outage_is_reported_in_time(self):
        self.configure(self.quick)
        self.break_down()
        started = time.monotonic()
        with self.assertRaises(exceptions.ComputeBuildException):
            self.build()
        with self.assertRaises(exceptions.ComputeDeleteException):
            self.compute.delete('i')
        # Pauses between attempts are random, and no attempt follows that would be too late;
        # so it can end at any time before. That it is repeated, the test above shows.
        self.assertLess(time.monotonic() - started, 300)

    def test_a_circuit_that_was_opened_by_hand_is_not_waited_for(self):
        self.configure('[compute:noop]\ncall_timeout = 600\n')
        self.noop.open_circuit('build')
        started = time.monotonic()
        with self.assertRaises(exceptions.ComputeBuildException):
            self.build()
        self.assertLess(time.monotonic() - started, 300)


class Waiting(OctaviaCase):
    def timed(self, compute_id, **given):
        started = time.monotonic()
        amphora, fault = self.compute.get_amphora(compute_id, **given)
        return amphora, fault, time.monotonic() - started

    def test_an_amphora_is_returned_as_soon_as_it_is_active(self):
        self.configure(
            'amp_active_wait_sec = 300\n[compute:noop]\nbuild_s = 0.5\nwatch_interval = 0.1\n'
        )
        built = self.build()
        amphora, fault, took_s = self.timed(built)
        self.assertEqual(
            (built, 'ACTIVE', 'm1.amphora', 'noop-zone', None, None),
            (
                amphora.compute_id, amphora.status, amphora.compute_flavor, amphora.cached_zone,
                amphora.vrrp_ip, fault,
            ),
        )  # fmt: skip
        # Octavia's own driver would sleep before.
        self.assertLess(took_s, 300)

    def test_the_wait_replaces_octavias_sleep_and_is_as_long(self):
        self.configure('amp_active_wait_sec = 1\n[compute:noop]\nbuild_s = 60\n')
        built, started = self.build(), time.monotonic()
        with self.assertRaises(exceptions.ComputeWaitTimeoutException):
            self.compute.get_amphora(built)
        self.assertGreaterEqual(time.monotonic() - started, 1)

    def test_the_wait_outlasts_an_outage(self):
        self.configure('amp_active_wait_sec = 1\n[compute:noop]\nwatch_interval = 0.1\n')
        built = self.build()
        self.fail_calls('*', 'refuse')
        with self.assertRaises(exceptions.ComputeWaitTimeoutException):
            self.compute.get_amphora(built)
        self.noop.driver.cloud.faults.clear()
        for name in ('read', 'build', 'change'):
            self.noop.close_circuit(name)
        time.sleep(0.5)
        self.assertEqual('ACTIVE', self.timed(built)[0].status)

    def test_a_refused_read_lets_octavia_sleep(self):
        # The retries within a second could open the circuit, and then nothing is read.
        self.configure(
            'amp_active_wait_sec = 1\n[compute:noop]\nwatch_interval = 0.2\n'
            'circuit_minimum_calls = 100\n'
        )
        built = self.build()
        # The watcher requests statuses, so it still sees the amphora.
        self.fail_calls('get', 'refuse')
        amphora, fault, _ = self.timed(built)
        self.assertEqual(('BUILD', None), (amphora.status, fault))
        self.noop.driver.cloud.faults.clear()
        self.fail_calls('get', 'crash')
        with self.assertRaises(exceptions.ComputeGetException):
            self.timed(built)

    def test_an_amphora_in_error_is_returned_with_its_fault(self):
        self.fail_calls('build', 'error', times=1)
        built = self.build()
        amphora, fault, _ = self.timed(built)
        self.assertEqual('ERROR', amphora.status)
        self.assertTrue(fault)

    def test_an_amphora_that_is_gone_is_an_error_at_once(self):
        built = self.build()
        self.compute.delete(built)
        with self.assertRaises(exceptions.ComputeGetException) as gone:
            self.timed(built)
        self.assertIsInstance(gone.exception.__cause__, InstanceNotFoundError)

    def test_the_address_is_on_the_management_network(self):
        built = self.build(network_ids=['lb-mgmt', 'zone-mgmt'])
        (amphora,) = self.amphorae()
        addresses = {address.network_id: address.address for address in amphora.addresses}
        self.assertEqual(addresses['lb-mgmt'], self.timed(built)[0].lb_network_ip)
        found = self.timed(built, management_network_id='zone-mgmt')[0]
        self.assertEqual(addresses['zone-mgmt'], found.lb_network_ip)

    def test_without_an_address_on_it_octavia_polls_again(self):
        found = self.timed(self.build(), management_network_id='elsewhere')[0]
        self.assertEqual(('BUILD', None), (found.status, found.lb_network_ip))

    def test_a_failed_wait_can_be_stored_by_taskflow(self):
        self.configure('amp_active_wait_sec = 1\n[compute:noop]\nbuild_s = 60\n')
        try:
            self.compute.get_amphora(self.build())
        except exceptions.ComputeWaitTimeoutException:
            stored = failure.Failure().to_dict()
        restored = failure.Failure.from_dict(stored)
        self.assertTrue(restored.check('octavia.common.exceptions.ComputeWaitTimeoutException'))

    def test_active_is_up_and_any_other_state_is_down(self):
        self.configure('[compute:noop]\nbuild_s = 60\n')
        self.assertEqual('DOWN', self.compute.status(self.build()))
        self.configure()
        self.assertEqual('UP', self.compute.status(self.build()))
        with self.assertRaises(exceptions.ComputeStatusException):
            self.compute.status('nobody')


class Deleting(OctaviaCase):
    def test_deleting_is_repeatable_and_a_missing_amphora_is_a_success(self):
        built = self.build()
        for compute_id in (built, built, 'never-was', None, ''):
            self.compute.delete(compute_id)
        self.assertEqual([], self.amphorae())

    def test_a_refusal_has_the_backends_message(self):
        built = self.build()
        self.fail_calls('delete', 'conflict')
        with self.assertRaisesRegex(exceptions.ComputeDeleteException, built) as refused:
            self.compute.delete(built)
        self.assertIsNotNone(refused.exception.__cause__)

    def test_a_load_balancer_is_deleted_group_first_then_ports_then_amphorae(self):
        group = self.compute.create_server_group('octavia-lb-1', 'anti-affinity')
        built = [self.build(name=name, server_group_id=group.id) for name in ('a', 'b')]
        self.compute.attach_network_or_port(built[0], port_id='vip')
        self.compute.delete(built[1])
        self.compute.delete_server_group(group.id)
        for compute_id in built:
            self.compute.detach_port(compute_id, 'vip')
        for compute_id in built:
            self.compute.delete(compute_id)
        self.assertEqual([], self.amphorae())


class Ports(OctaviaCase):
    def test_attaching_a_port_is_repeatable(self):
        built = self.build()
        first = self.compute.attach_network_or_port(compute_id=built, port_id='vip')
        again = self.compute.attach_network_or_port(
            compute_id=built, network_id=None, ip_address=None, port_id='vip'
        )
        self.assertEqual(first, again)
        self.assertEqual('vip', first.port_id)

    def test_octavias_network_driver_reads_what_attaching_returns(self):
        built = self.build()
        attached = self.compute.attach_network_or_port(
            built, network_id='n', ip_address='10.9.9.9'
        )
        read = neutron_base.BaseNeutronDriver._nova_interface_to_octavia_interface
        interface = read(None, built, attached)
        self.assertEqual((built, 'n'), (interface.compute_id, interface.network_id))
        self.assertEqual(['10.9.9.9'], [ip.ip_address for ip in interface.fixed_ips])

    def test_a_port_in_use_elsewhere_is_distinguished_from_a_busy_instance(self):
        one, other = self.build(name='one'), self.build(name='other')
        self.compute.attach_network_or_port(one, port_id='vip')
        with self.assertRaisesRegex(exceptions.ComputePortInUseException, 'vip'):
            self.compute.attach_network_or_port(other, port_id='vip')
        self.fail_calls('attach_port', 'conflict')
        with self.assertRaises(exceptions.ComputeUnknownException):
            self.compute.attach_network_or_port(other, port_id='free')
        self.fail_calls('attach_network', 'conflict')
        with self.assertRaises(exceptions.ComputeUnknownException):
            self.compute.attach_network_or_port(other, network_id='n')

    def test_missing_objects_are_named(self):
        self.configure('[compute:noop]\nports = vip:n\nnetworks = lb-mgmt\n')
        built = self.build()
        for given, named in (
            ({'compute_id': 'gone', 'port_id': 'vip'}, 'Instance gone'),
            ({'compute_id': built, 'port_id': 'lost'}, 'Port lost'),
            ({'compute_id': built, 'network_id': 'lost'}, 'Network lost'),
        ):
            with self.subTest(named), self.assertRaisesRegex(exceptions.NotFound, named):
                self.compute.attach_network_or_port(**given)

    def test_octavias_simulated_network_records_an_attached_port(self):
        self.configure('network_driver = network_noop_driver\n')
        network = NoopNetworkDriver()
        port = network.create_port('net-1', fixed_ips=[{'subnet_id': 's', 'ip_address': '::1'}])
        built = self.build()
        self.compute.attach_network_or_port(built, port_id=port.id)
        (plugged,) = network.get_plugged_networks(built)
        self.assertEqual(port.id, plugged.port_id)

    def test_a_host_without_capacity_for_a_port_is_no_resources(self):
        full = InsufficientCapacity('Cannot attach port p: the host has no device left.')
        raised = errors.of_attach(full, 'i-1', None, 'p')
        self.assertIsInstance(raised, exceptions.ComputeNoResourcesException)

    def test_neither_port_nor_network_is_an_error(self):
        with self.assertRaisesRegex(exceptions.ComputeUnknownException, 'network_id'):
            self.compute.attach_network_or_port(self.build())

    def test_detaching_never_holds_up_a_deletion(self):
        built = self.build()
        with self.assertLogs('kiln.adapters.octavia', 'INFO') as logs:
            self.compute.detach_port('gone', 'vip')
            self.fail_calls('detach_port', 'conflict')
            self.compute.detach_port(built, 'vip')
        self.assertRegex(logs.output[0], 'INFO.*gone')
        self.assertRegex(logs.output[1], f'ERROR.*vip.*{built}')


class ServerGroups(OctaviaCase):
    def test_deleting_a_missing_group_is_a_success(self):
        group = self.compute.create_server_group('octavia-lb-1', 'soft-anti-affinity')
        for group_id in (group.id, group.id, 'never-was'):
            self.compute.delete_server_group(group_id)

    def test_a_refused_group_is_octavias_error(self):
        with self.assertRaisesRegex(exceptions.ServerGroupObjectCreateException, 'does not exist'):
            self.compute.create_server_group('octavia-lb-1', 'anti-gravity')

    def test_reverting_a_group_that_was_never_created_is_octavias_error(self):
        # Its task passes the failure of the creation as the id.
        failed = failure.Failure.from_exception(ValueError('no group'))
        with self.assertRaises(exceptions.ServerGroupObjectDeleteException):
            self.compute.delete_server_group(failed)


class Profiles(OctaviaCase):
    def test_unknown_names_are_refused_in_a_profile(self):
        self.configure('[compute:noop]\nflavors = small\nzones = az1\n')
        self.compute.validate_flavor('small')
        self.compute.validate_availability_zone('az1')
        with self.assertRaisesRegex(exceptions.InvalidSubresource, 'huge not found') as refused:
            self.compute.validate_flavor('huge')
        self.assertEqual(400, refused.exception.code)
        self.assertIsInstance(refused.exception.__cause__, InvalidRequest)
        with self.assertRaisesRegex(exceptions.InvalidSubresource, 'zone az7 not found'):
            self.compute.validate_availability_zone('az7')

    def test_a_simulated_cloud_accepts_any_name_in_a_profile(self):
        self.compute.validate_flavor('huge')
        self.compute.validate_availability_zone('az7')

    def test_a_backend_without_validation_is_not_implemented(self):
        self.configure('[compute:noop]\nmissing_abilities = validate_zone\n')
        with self.assertRaises(NotImplementedError):
            self.compute.validate_availability_zone('az1')

    def test_an_outage_is_not_reported_as_a_wrong_name(self):
        self.noop.open_circuit('read')
        with self.assertRaises(exceptions.ComputeUnknownException) as refused:
            self.compute.validate_flavor('small')
        self.assertIsInstance(refused.exception.__cause__, CircuitOpenError)
