"""Nova driver on the real Nova, checked through kiln and through Nova's API."""

import base64
import dataclasses
import gzip
import json
import os
import time

from kiln.compute.goals import Until
from kiln.compute_drivers.authoring import user_data
from kiln.exceptions import (
    AmphoraComputeError,
    AuthenticationFailed,
    BuildConflict,
    BuildOutcomeUnknown,
    InsufficientCapacity,
    InvalidBuildRequest,
    InvalidRequest,
    Outcome,
    QuotaExceeded,
    ServiceUnavailable,
    UnsupportedOperation,
    UserDataTooLarge,
)
from kiln.models import State
from kiln.testing.proxy import Answer, Hang, LoseAnswer, Reset, html_page, token_expired
from tests.functional.nova.site import ONE, NovaCase
from tests.functional.nova.test_storm import Late

WAIT_S = 300
#: The default of the option watch_interval.
LOOK_S = 1.0


class DriverCase(NovaCase):
    def setUp(self):
        super().setUp()
        self.driver = self.open_driver()

    def settled(self, amphora_id, driver=None):
        deadline = time.monotonic() + WAIT_S
        while True:
            status = (driver or self.driver).status(amphora_id)
            if status.state.settled and status.task_state is None:
                return status
            self.assertLess(time.monotonic(), deadline, status)
            time.sleep(0.2)

    def eventually(self, is_so):
        deadline = time.monotonic() + WAIT_S
        while not is_so():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.5)

    def shown(self, amphora_id):
        """The server as an administrator sees it, with its user data."""
        answer = self.admin.get(
            f'/servers/{amphora_id}',
            endpoint_filter={'service_type': 'compute'},
            headers={'OpenStack-API-Version': 'compute 2.96'},
        )
        return answer.json()['server']


class Building(DriverCase):
    def own_network(self, *more):
        """Create a network with subnets; a project that chooses an address must own it."""
        neutron = {'endpoint_filter': {'service_type': 'network'}}
        made = self.session.post('/v2.0/networks', json={'network': {'name': 'own'}}, **neutron)
        network_id = made.json()['network']['id']
        for cidr in ('10.99.0.0/24', *more):
            version = 6 if ':' in cidr else 4
            subnet = {'network_id': network_id, 'cidr': cidr, 'ip_version': version}
            self.session.post('/v2.0/subnets', json={'subnet': subnet}, **neutron)
        return network_id

    def test_addresses_of_both_families_are_kept_and_given_as_requested(self):
        network_id = self.own_network('fd00:99::/64')
        for port_lock in (True, False):
            driver = self.open_driver(port_lock=port_lock)
            # By network, and by an address of either family on it.
            four, six = ('10.99.0.7', 'fd00:99::7') if port_lock else ('10.99.0.8', 'fd00:99::8')
            asked = {'': None, f'={four}': four, f'={six}': six}
            built = {
                address: driver.build(network_ids=[network_id + place])
                for place, address in asked.items()
            }
            for address, amphora_id in built.items():
                with self.subTest(address, port_lock=port_lock):
                    self.assertIs(State.ACTIVE, self.settled(amphora_id, driver).state)
                    amphora = driver.get_amphora(amphora_id=amphora_id)
                    found = [one.address for one in amphora.addresses]
                    (port,) = self.list('network', 'ports', device_id=amphora_id)
                    self.assertCountEqual([ip['ip_address'] for ip in port['fixed_ips']], found)
                    if address is None:
                        self.assertEqual({True, False}, {':' in one for one in found})
                        self.assertNotIn(':', amphora.address)
                    else:
                        self.assertEqual(([address], address), (found, amphora.address))

    def test_an_address_in_no_subnet_of_its_network_is_refused_by_the_check_and_by_the_build(self):
        network_id = self.own_network('fd00:99::/64')
        # Without a port of its own, a server is accepted, and fails while Nova builds it.
        locking = self.open_driver(port_lock=True)
        for right in ('10.99.0.7', 'fd00:99::7'):
            self.driver.validate_network(f'{network_id}={right}')
        for wrong in ('10.98.0.7', 'fd00:98::7'):
            with self.subTest(wrong):
                with self.assertRaisesRegex(InvalidRequest, '10.99.0.0/24, fd00:99::/64'):
                    self.driver.validate_network(f'{network_id}={wrong}')
                with self.assertRaises(InvalidBuildRequest):
                    locking.build(network_ids=[f'{network_id}={wrong}'])
        ports = self.list('network', 'ports', network_id=network_id)
        self.assertEqual([], [one['id'] for one in ports if not one['device_id']])

    def test_a_build_is_one_request_with_cached_names(self):
        self.driver.build()
        self.proxy.forget()
        self.driver.build(amphora_flavor='tiny')
        self.assertEqual(
            [('POST', '/servers')], [(one.method, one.path) for one in self.proxy.requests]
        )

    def test_the_server_has_everything_that_the_build_names(self):
        group = self.driver.create_server_group('g', 'soft-anti-affinity')
        network_id = self.own_network()
        amphora_id = self.driver.build(
            'vm', 'small', 'tiny', ['key1'], ['default'], [f'{network_id}=10.99.0.7'],
            {'/etc/kiln.conf': ('secret', 0o600, 'root')},
            '#!/bin/sh\ntrue\n',
            name='wéb-1', build_key='k1', availability_zone='az2',
            server_group_id=group.id, metadata={'colour': 'grün'},
        )  # fmt: skip
        status = self.settled(amphora_id)
        self.assertIs(State.ACTIVE, status.state, status.fault)
        server = self.shown(amphora_id)
        self.assertEqual('wéb-1', server['name'])
        self.assertEqual('small', server['flavor']['original_name'])
        self.assertEqual('key1', server['key_name'])
        self.assertEqual('az2', server['OS-EXT-AZ:availability_zone'])
        self.assertEqual([group.id], server['server_groups'])
        self.assertEqual('grün', server['metadata']['colour'])
        self.assertEqual({f'kiln-site:{self.owner}', 'kiln-key:k1'}, set(server['tags']))
        (address,) = server['addresses']['own']
        self.assertEqual('10.99.0.7', address['addr'])
        sent = base64.b64decode(server['OS-EXT-SRV-ATTR:user_data']).decode()
        self.assertIn('#!/bin/sh', sent)
        self.assertIn('"permissions": "0600"', sent)
        amphora = self.driver.get_amphora('wéb-1')
        self.assertEqual(('small', 'tiny', group.id), (
            amphora.flavor, amphora.image_id, amphora.server_group_id,
        ))  # fmt: skip
        self.assertNotIn('OS-EXT-SRV-ATTR:user_data', amphora.raw)

    def test_a_server_is_built_on_given_ports(self):
        ports = [self.make_port(), self.make_port()]
        amphora_id = self.driver.build(port_ids=ports)
        self.settled(amphora_id)
        hung = {
            port['id'] for port in self.list('network', 'ports', device_id=amphora_id)
        }  # fmt: skip
        self.assertEqual(set(ports), hung)
        addresses = self.driver.get_amphora(amphora_id=amphora_id).addresses
        self.assertEqual(
            {(self.net_id, port) for port in ports},
            {(address.network_id, address.port_id) for address in addresses},
        )

    def test_a_server_built_without_networks_gets_its_first_one_later(self):
        for port_lock in (False, True):
            driver = self.open_driver(networks=['none'], port_lock=port_lock)
            amphora_id = driver.build(build_key=f'k-{port_lock}')
            self.settled(amphora_id)
            self.assertEqual((), driver.get_amphora(amphora_id=amphora_id).addresses)
        attached = driver.attach_network(amphora_id, self.net_id)
        (port,) = self.list('network', 'ports', device_id=amphora_id)
        self.assertEqual(attached.port_id, port['id'])

    def test_a_port_in_use_is_a_build_conflict(self):
        port = self.make_port()
        self.settled(self.driver.build(port_ids=[port]))
        with self.assertRaises(BuildConflict):
            self.driver.build(port_ids=[port])

    def test_several_keys_reach_the_server(self):
        amphora_id = self.driver.build(keys=['key1', 'ssh-ed25519 AAAAC3Nz second'])
        sent = base64.b64decode(self.shown(amphora_id)['OS-EXT-SRV-ATTR:user_data'])
        self.assertIn(b'ssh-ed25519 AAAAC3Nz second', sent)
        self.assertEqual('key1', self.shown(amphora_id)['key_name'])

    def test_files_that_do_not_fit_in_user_data_are_written_by_nova(self):
        files = {f'/etc/{n}': os.urandom(7_680) for n in range(5)}
        callers = os.urandom(12_000).hex()
        amphora_id = self.driver.build(config_drive_files=files, user_data=callers, build_key='k')
        # Any later microversion refuses it.
        self.assertIs(State.ACTIVE, self.settled(amphora_id).state)
        self.assertEqual(amphora_id, self.driver.find_build('k').id)
        self.assertEqual('True', self.shown(amphora_id)['config_drive'])

    def test_files_above_novas_quota_are_refused_before_the_build(self):
        files = {f'/etc/{n}': os.urandom(10_240) for n in range(5)}
        with self.assertRaisesRegex(UserDataTooLarge, 'while this Nova allows 10240'):
            self.driver.build(config_drive_files=files)
        self.assertEqual(0, self.proxy.count('POST'))

    def test_files_that_do_not_fit_at_all_are_refused_before_any_request(self):
        files = {f'/etc/{n}': (os.urandom(10_240), 0o600, 'root') for n in range(5)}
        self.driver.check()
        self.driver.validate_flavor('tiny')
        self.driver.validate_image('tiny')
        self.proxy.forget()
        with self.assertRaisesRegex(UserDataTooLarge, r'/etc/0 10240'):
            self.driver.build(config_drive_files=files)
        self.assertEqual([], self.proxy.requests)

    def test_large_user_data_is_compressed(self):
        files = {f'/etc/{n}': 'x = 1\n' * 1700 for n in range(5)}
        many = '#cloud-config\n' + '# a comment that says little\n' * 1700
        amphora_id = self.driver.build(config_drive_files=files, user_data=many[:49_000])
        sent = base64.b64decode(self.shown(amphora_id)['OS-EXT-SRV-ATTR:user_data'])
        self.assertLessEqual(len(sent), user_data.MAX_BYTES)
        self.assertIn(b'write_files', gzip.decompress(sent))

    def test_missing_objects_are_named_before_anything_is_created(self):
        wrong = {
            'flavor': {'amphora_flavor': 'gigantic'},
            'image': {'image_id': 'nowhere'},
            'key': {'keys': ['key1', 'key9']},
        }
        for what, arguments in wrong.items():
            with self.subTest(what), self.assertRaisesRegex(InvalidBuildRequest, what):
                self.driver.build(name='w', **arguments)
        self.assertEqual(0, self.proxy.count('POST'))

    def test_a_refusal_of_nova_has_novas_message(self):
        wrong = {
            'zone': {'availability_zone': 'az9'},
            'Network': {'network_ids': ['00000000-0000-0000-0000-000000000000']},
            'key': {'keys': ['key9']},
            'security group': {'sec_groups': ['nobody']},
            'image': {'image_id': '00000000-0000-0000-0000-000000000000'},
        }
        for what, arguments in wrong.items():
            with self.subTest(what), self.assertRaisesRegex(InvalidBuildRequest, what) as caught:
                self.driver.build(name='w', **arguments)
            self.assertIs(Outcome.NOT_APPLIED, caught.exception.outcome)
            self.assertNotIn('\n', str(caught.exception))

    def test_a_lack_of_capacity_is_distinguished_from_a_failed_build(self):
        status = self.settled(self.driver.build(amphora_flavor='impossible'))
        self.assertEqual((State.ERROR, InsufficientCapacity.code), (
            status.state, status.fault_code,
        ))  # fmt: skip
        compute = self.open_compute()
        build = compute.build(amphora_flavor='impossible', until=Until.ACTIVE)
        self.assertIsInstance(build.exception(WAIT_S), InsufficientCapacity)

    def test_builds_are_watched_by_lists_alone(self):
        compute = self.open_compute()
        began = time.monotonic()
        for build in [compute.build(until=Until.ACTIVE) for _ in range(4)]:
            build.result(WAIT_S)
        asked = {one.path for one in self.proxy.requests if one.path.startswith('/servers')}
        self.assertLessEqual(asked, {'/servers', '/servers/detail'})
        lists = [one for one in self.proxy.requests if one.path == '/servers/detail']
        # One poll at a time serves all of them, even if the builds take long.
        self.assertLessEqual(len(lists), 1 + (time.monotonic() - began) / LOOK_S)

    def test_a_hostname_has_the_domain_of_the_site(self):
        driver = self.open_driver(hostname_domain='lb.example')
        server = self.shown(driver.build(name='Web 1'))
        self.assertEqual('Web-1.lb.example', server['OS-EXT-SRV-ATTR:hostname'])

    def test_an_image_is_found_by_its_tag(self):
        image = self.find('image', 'images', name='tiny')['id']
        path = f'/v2/images/{image}/tags/for-{self.owner}'
        self.admin.put(path, endpoint_filter={'service_type': 'image'})
        amphora_id = self.driver.build(image_id=f'tag:for-{self.owner}')
        self.assertEqual(image, self.shown(amphora_id)['image']['id'])


class SmallQuota(DriverCase):
    who = 'kiln-small'

    def test_an_exhausted_quota_is_reported(self):
        for _ in range(2):
            # Nova counts a server only when it is in a cell, which takes a moment.
            self.settled(self.driver.build())
        with self.assertRaisesRegex(QuotaExceeded, 'Quota exceeded') as caught:
            self.driver.build()
        self.assertIs(Outcome.NOT_APPLIED, caught.exception.outcome)


class Microversions(DriverCase):
    def test_groups_are_created_before_and_after_2_64(self):
        for version in ('2.52', '2.63', '2.64', '2.96'):
            with self.subTest(version):
                driver = self.open_driver(microversion=version)
                group = driver.create_server_group(f'g-{version}', 'anti-affinity')
                self.assertEqual('anti-affinity', group.policy)
                driver.delete_server_group(group.id)
                driver.delete_server_group(group.id)

    def test_the_oldest_microversion_does_all_that_the_newest_does(self):
        driver = self.open_driver(microversion='2.52')
        amphora_id = driver.build(name='old', build_key='old', metadata={'a': 'b'})
        self.settled(amphora_id, driver)
        self.assertEqual(driver.get_amphora('old'), self.driver.get_amphora('old'))
        self.assertEqual(amphora_id, driver.build(name='old', build_key='old'))

    def test_a_nova_too_old_is_one_clear_error(self):
        document = {
            'version': {
                'id': 'v2.1', 'status': 'CURRENT', 'version': '2.38', 'min_version': '2.1',
                'links': [{'rel': 'self', 'href': self.proxy.url}],
            }
        }  # fmt: skip
        self.proxy.fault(Answer(200, json.dumps(document)), 'GET', '/')
        with self.assertRaisesRegex(UnsupportedOperation, r'2\.1 to 2\.38; kiln needs .*2\.52'):
            self.open_driver().check()


class Lists(DriverCase):
    def test_a_list_of_many_pages_has_each_server_once(self):
        ids = [self.driver.build() for _ in range(5)]
        # While Nova moves a server into a cell, its page can be short, like the last page.
        for amphora_id in ids:
            self.settled(amphora_id)
        driver = self.open_driver(page_size=2)
        self.assertCountEqual(ids, [amphora.id for amphora in driver.list_amphorae()])

    def test_idle_servers_cost_one_small_request(self):
        for _ in range(4):
            self.settled(self.driver.build())
        cursor = self.driver.changes().cursor
        time.sleep(4)
        cursor = self.driver.changes(cursor).cursor
        self.proxy.forget()
        self.assertEqual((), self.driver.changes(cursor).statuses)
        self.assertEqual(1, len(self.proxy.requests))

    def test_a_server_deleted_before_it_had_a_host_is_reported_too(self):
        cursor = self.driver.changes().cursor
        amphora_id = self.driver.build()
        self.driver.delete(amphora_id)
        self.eventually(lambda: amphora_id in self.driver.changes(cursor).gone)

    def test_a_wrong_clock_loses_no_change(self):
        class Slow:
            def __getattr__(self, name):
                return getattr(time, name)

            def time(self):
                return time.time() - 300

            def wait(self, condition, timeout):
                return condition.wait(timeout)

        self.driver._services._clock = self.driver.clock = Slow()
        cursor = self.driver.changes().cursor
        amphora_id = self.driver.build()
        # A server without a host is in Nova's answer for any cursor.
        self.settled(amphora_id)
        told = {status.amphora_id for status in self.driver.changes(cursor).statuses}
        self.assertIn(amphora_id, told)
        time.sleep(4)
        later = self.driver.changes(cursor).cursor
        self.assertEqual((), self.driver.changes(later).statuses)


class Troubles(DriverCase):
    def test_an_expired_token_is_renewed_silently(self):
        self.driver.check()
        self.proxy.fault(token_expired(), times=1)
        self.assertTrue(self.driver.build())

    def test_a_revoked_token_is_renewed_silently(self):
        self.driver.check()
        session = self.driver._services._session
        self.admin.delete(
            '/auth/tokens',
            endpoint_filter={'service_type': 'identity'},
            headers={'X-Subject-Token': session.get_token()},
        )
        self.assertTrue(self.driver.build())

    def test_credentials_refused_repeatedly_are_an_authentication_failure(self):
        self.driver.check()
        self.proxy.fault(token_expired())
        with self.assertRaises(AuthenticationFailed):
            self.driver.build()

    def test_a_lost_answer_leaves_one_server_found_by_its_key(self):
        for fault in (LoseAnswer(Answer(504)), LoseAnswer(Reset()), LoseAnswer(html_page(502))):
            key = f'k-{id(fault)}'
            with self.subTest(fault):
                rule = self.proxy.fault(fault, 'POST', '/servers', times=1)
                with self.assertRaises(BuildOutcomeUnknown):
                    self.driver.build(build_key=key)
                rule.remove()
                found = self.driver.find_build(key)
                self.assertEqual(found.id, self.driver.build(build_key=key))

    def test_a_server_group_whose_answer_was_lost_is_found(self):
        self.proxy.fault(LoseAnswer(Reset()), 'POST', '/os-server-groups', times=1)
        made = self.driver.create_server_group('lost', 'anti-affinity')
        answer = self.session.get('/os-server-groups', endpoint_filter={'service_type': 'compute'})
        there = [one['id'] for one in answer.json()['server_groups'] if one['name'] == 'lost']
        self.assertEqual([made.id], there)
        self.driver.delete_server_group(made.id)

    def test_a_server_group_that_was_never_created_is_not_returned(self):
        self.proxy.fault(Reset(), 'POST', '/os-server-groups', times=1)
        with self.assertRaises(AmphoraComputeError) as caught:
            self.driver.create_server_group('lost', 'anti-affinity')
        self.assertIs(Outcome.UNKNOWN, caught.exception.outcome)

    def test_a_late_request_creates_no_second_server(self):
        for locked in (False, True):
            with self.subTest(locked=locked):
                compute = self.open_compute(timeout=3.0, port_lock=locked)
                self.proxy.fault(Late(), 'POST', '/servers', times=1)
                build = compute.build(name=f'late-{locked}', until=Until.ACTIVE)
                kept = build.result(WAIT_S)
                time.sleep(8)
                self.eventually(lambda kept=kept: [one['id'] for one in self.servers()] == [kept])
                compute.delete(kept, wait=True).result(WAIT_S)

    def test_a_404_of_a_proxy_never_means_gone(self):
        amphora_id = self.driver.build()
        with self.proxy.fault(html_page(404)):
            for call in (self.driver.status, self.driver.delete, self.driver.find_build):
                with self.subTest(call.__name__), self.assertRaises(ServiceUnavailable):
                    call(amphora_id)
        self.driver.status(amphora_id)

    def test_a_hanging_request_ends_with_its_timeout(self):
        driver = self.open_driver(timeout=5.0)
        # A proxy that hangs does so until it is released.
        hang = Hang()
        with self.proxy.fault(hang, 'GET', ONE):
            # On a busy machine its token can take too long, too: that one does not count.
            while not any(one.fault is hang for one in self.proxy.requests):
                with self.assertRaisesRegex(Exception, 'took too long'):
                    driver.status('00000000-0000-0000-0000-000000000000')

    def test_a_service_that_moved_is_found_in_the_catalogue(self):
        driver = self.open_driver(compute_endpoint_override=None)
        driver.check()
        known = driver._services._endpoints[1]
        # Nothing listens there, as at an outdated endpoint.
        known['compute'] = 'http://127.0.0.1:1/v2.1'
        with self.assertRaises(ServiceUnavailable):
            driver.check()
        self.assertTrue(driver.check().healthy)

    def test_a_full_group_is_reported_when_the_build_ends(self):
        group = self.driver.create_server_group('full', 'anti-affinity')
        ids = [
            self.driver.build(server_group_id=group.id, availability_zone='az1') for _ in range(2)
        ]
        states = [self.settled(amphora_id) for amphora_id in ids]
        failed = [one for one in states if one.state is State.ERROR]
        self.assertEqual([InsufficientCapacity.code], [one.fault_code for one in failed])


class Ports(DriverCase):
    def test_a_lock_port_is_deleted_after_its_server(self):
        driver = self.open_driver(port_lock=True)
        amphora_id = driver.build()
        self.settled(amphora_id, driver)
        (port,) = driver.list_resources()
        self.assertEqual(amphora_id, port.amphora_id)
        driver.delete(amphora_id)
        self.eventually(lambda: not list(driver.list_resources()))

    def test_a_lock_port_of_a_server_without_a_host_is_deleted_by_any_process(self):
        amphora_id = self.open_driver(port_lock=True).build(amphora_flavor='impossible')
        another = self.open_driver(port_lock=True)
        self.settled(amphora_id, another)
        (port,) = another.list_resources()
        self.assertIsNone(port.amphora_id)
        another.delete(amphora_id)
        self.eventually(lambda: not list(another.list_resources()))

    def test_a_refused_build_leaves_no_lock_port(self):
        driver = self.open_driver(port_lock=True)
        with self.assertRaises(InvalidBuildRequest):
            driver.build(availability_zone='az9')
        self.assertEqual([], list(driver.list_resources()))

    def test_only_a_port_is_a_resource(self):
        port_id = self.make_port()
        driver = self.open_driver(port_lock=True)
        self.settled(driver.build(), driver)
        (resource,) = driver.list_resources()
        with self.assertRaises(InvalidRequest):
            driver.delete_resource(dataclasses.replace(resource, kind='volume', id=port_id))
