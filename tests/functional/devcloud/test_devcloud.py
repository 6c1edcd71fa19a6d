"""The development cloud: resets, knobs and processes that functional tests rely on."""

import concurrent.futures
import time

from novaclient import client
from novaclient import exceptions as nova_exceptions

from tests.functional.cloud import CloudTestCase

BUILD_S = 300


class DevcloudTest(CloudTestCase):
    def setUp(self):
        super().setUp()
        self.session = self.cloud.session()
        self.nova = client.Client('2.96', session=self.session)
        self.addCleanup(self.cloud.run, 'reset')

    def neutron(self, path):
        answer = self.session.get(f'/v2.0/{path}', endpoint_filter={'service_type': 'network'})
        return answer.json()[path]

    def build(self, name, **more):
        return self.nova.servers.create(
            name,
            image=self.nova.glance.find_image('tiny'),
            flavor=self.nova.flavors.find(name='tiny'),
            nics=[{'net-id': self.nova.neutron.find_network('net1').id}],
            **more,
        )

    def settled(self, server):
        end = time.monotonic() + BUILD_S
        while server.status == 'BUILD' and time.monotonic() < end:
            time.sleep(0.2)
            server.get()
        return server.status

    def names(self):
        return {server.name for server in self.nova.servers.list()}

    def test_a_reset_removes_what_was_created_after_the_snapshot(self):
        kept = self.build('kept')
        self.assertEqual('ACTIVE', self.settled(kept))
        self.cloud.run('snapshot')
        self.addCleanup(self.forget, kept)
        began = time.monotonic()
        self.assertEqual('ACTIVE', self.settled(self.build('later')))
        built = time.monotonic()
        ports = self.neutron('ports')
        self.cloud.run('reset')
        print(f'a build took {built - began:.1f} s, a reset {time.monotonic() - built:.1f} s')
        self.assertEqual({'kept'}, self.names())
        self.assertEqual((2, 1), (len(ports), len(self.neutron('ports'))))

    def forget(self, server):
        """Take a new snapshot without a server, as the other tests expect."""
        server.delete()
        while self.names():
            time.sleep(0.2)
        self.cloud.run('snapshot')

    def test_a_server_restored_by_a_reset_can_be_stopped(self):
        server = self.build('back')
        self.assertEqual('ACTIVE', self.settled(server))
        self.cloud.run('snapshot')
        server.delete()
        while self.names():
            time.sleep(0.2)
        self.cloud.run('reset')
        self.addCleanup(self.forget, server)
        server.stop()
        end = time.monotonic() + BUILD_S
        while server.status != 'SHUTOFF' and time.monotonic() < end:
            time.sleep(0.2)
            server.get()
        self.assertEqual('SHUTOFF', server.status)

    def test_a_reset_during_builds_and_deletes_leaves_nothing(self):
        for server in [self.build(f'gone-{number}') for number in range(3)]:
            self.settled(server)
            server.delete()
        for number in range(5):
            self.build(f'storm-{number}')
        self.cloud.run('reset')
        self.assertEqual(set(), self.names())
        self.assertEqual([], self.neutron('ports'))
        # No interrupted build appears later.
        time.sleep(5)
        self.assertEqual(set(), self.names())
        self.assertEqual([], self.neutron('ports'))
        self.assertEqual('ACTIVE', self.settled(self.build('next')))

    def test_metadata_sets_the_knobs_of_the_hypervisor(self):
        servers = {
            knob: self.build(knob, meta={f'devcloud:{knob}': value})
            for knob, value in (
                ('spawn_abort', 'given up'),
                ('spawn_fail', 'out of paint'),
                ('spawn_delay', '2'),
                ('console', 'login:'),
            )
        }
        statuses = {knob: self.settled(server) for knob, server in servers.items()}
        self.assertEqual(
            {
                'spawn_abort': 'ERROR',
                'spawn_fail': 'ERROR',
                'spawn_delay': 'ACTIVE',
                'console': 'ACTIVE',
            },
            statuses,
        )
        self.assertEqual('login:', servers['console'].get_console_output())
        self.assertIn(
            'given up', self.nova.servers.get(servers['spawn_abort'].id).fault['message']
        )

    def test_a_knob_delays_a_delete_or_makes_it_fail(self):
        slow = self.build('slow', meta={'devcloud:destroy_delay': '2'})
        bad = self.build('bad', meta={'devcloud:destroy_fail': 'stuck'})
        self.assertEqual(['ACTIVE'] * 2, [self.settled(slow), self.settled(bad)])
        began = time.monotonic()
        slow.delete()
        bad.delete()
        with self.assertRaises(nova_exceptions.NotFound):
            while time.monotonic() < began + BUILD_S:
                time.sleep(0.2)
                slow.get()
        self.assertGreater(time.monotonic() - began, 2)
        while bad.status != 'ERROR' and time.monotonic() < began + BUILD_S:
            time.sleep(0.2)
            bad.get()
        self.assertEqual('ERROR', bad.status)

    def test_one_process_can_be_stopped_and_started_again(self):
        self.cloud.run('down', 'nova-compute-cmp1')
        status = self.cloud.run('status').stdout
        self.assertNotIn('nova-compute-cmp1', status)
        self.cloud.run('up')
        self.assertIn('nova-compute-cmp1', self.cloud.run('status').stdout)
        zone = {'availability_zone': 'az1'}
        self.assertEqual('ACTIVE', self.settled(self.build('again', **zone)))

    def test_all_first_requests_to_a_restarted_neutron_find_its_networks(self):
        self.cloud.run('down', 'neutron-api')
        self.cloud.run('up')
        user = self.cloud.session('kiln-user')
        user.get_token()

        def count(_):
            answer = user.get('/v2.0/networks', endpoint_filter={'service_type': 'network'})
            return len(answer.json()['networks'])

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            counts = list(pool.map(count, range(32)))
        self.assertEqual({max(counts)}, set(counts))
        self.assertGreater(max(counts), 0)

    def test_users_can_do_only_what_their_roles_allow(self):
        small = client.Client('2.96', session=self.cloud.session('kiln-small'))
        self.assertEqual([], small.servers.list())
        with self.assertRaises(nova_exceptions.Forbidden):
            small.hypervisors.list()
