"""Octavia on the development cloud, with amphorae on the real Nova."""

import functools
import time

from novaclient import client

from tests.functional.cloud import CloudTestCase

LOAD_BALANCER_S = 600


class OctaviaTest(CloudTestCase):
    services = ('octavia',)

    def setUp(self):
        super().setUp()
        self.session = self.cloud.session()
        self.addCleanup(self.cloud.run, 'reset')
        self.ask = functools.partial(
            self.session.request, endpoint_filter={'service_type': 'load-balancer'}
        )

    def amphorae(self):
        nova = client.Client('2.96', session=self.session)
        return [server.id for server in nova.servers.list(search_opts={'all_tenants': True})]

    def settled(self, identity):
        """Return the status of a load balancer, or None when it has gone."""
        end = time.monotonic() + LOAD_BALANCER_S
        while time.monotonic() < end:
            answer = self.ask(f'/v2/lbaas/loadbalancers/{identity}', 'GET', raise_exc=False)
            if answer.status_code == 404:
                return None
            status = answer.json()['loadbalancer']['provisioning_status']
            if not status.startswith('PENDING'):
                return None if status == 'DELETED' else status
            time.sleep(0.3)
        return status

    def test_a_load_balancer_is_built_fails_over_and_is_deleted(self):
        networks = self.session.get('/v2.0/subnets', endpoint_filter={'service_type': 'network'})
        subnet = next(each for each in networks.json()['subnets'] if each['name'] == 'sub1')
        began = time.monotonic()
        body = {'loadbalancer': {'name': 'one', 'vip_subnet_id': subnet['id']}}
        answer = self.ask('/v2/lbaas/loadbalancers', 'POST', json=body)
        identity = answer.json()['loadbalancer']['id']
        self.assertEqual('ACTIVE', self.settled(identity))
        built = time.monotonic()
        first = self.amphorae()
        self.assertEqual(1, len(first))
        self.ask(f'/v2/lbaas/loadbalancers/{identity}/failover', 'PUT')
        self.assertEqual('ACTIVE', self.settled(identity))
        replaced = time.monotonic()
        self.assertNotEqual(first, self.amphorae())
        self.ask(f'/v2/lbaas/loadbalancers/{identity}?cascade=true', 'DELETE')
        self.assertIsNone(self.settled(identity))
        gone = time.monotonic()
        # Octavia does not wait until Nova has finished its requests.
        while self.amphorae() and time.monotonic() < gone + LOAD_BALANCER_S:
            time.sleep(0.3)
        self.assertEqual([], self.amphorae())
        print(
            f'a load balancer was built in {built - began:.1f} s, failed over in '
            f'{replaced - built:.1f} s, and gone after {gone - replaced:.1f} s'
        )
