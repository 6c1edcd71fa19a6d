"""Load balancers of the real Octavia live and end on amphorae that kiln builds."""

import json
import time

from tests.functional.octavia.site import OctaviaCase


class Single(OctaviaCase):
    def test_a_load_balancer_is_built_fails_over_and_leaves_nothing(self):
        began = time.monotonic()
        identity = self.create('one', whole=True)
        self.assertEqual('ACTIVE', self.settled(identity))
        built = time.monotonic()
        self.assert_served(identity)
        (first,) = self.amphorae(identity)
        self.assertTrue(first['lb_network_ip'])
        self.failover(identity)
        self.assertEqual('ACTIVE', self.settled(identity))
        replaced = time.monotonic()
        self.assert_served(identity)
        self.assertNotEqual(first['compute_id'], self.amphorae(identity)[0]['compute_id'])
        self.delete(identity)
        self.assertIsNone(self.settled(identity))
        gone = time.monotonic()
        self.assert_nothing_left()
        print(
            f'built in {built - began:.1f} s, failed over in {replaced - built:.1f} s, '
            f'gone after {gone - replaced:.1f} s'
        )


class Pair(OctaviaCase):
    options = {'nova': {'enable_anti_affinity': True}}  # noqa: RUF012

    def pair_flavor(self):
        # The API takes the topology from the flavor, or else from its own file.
        profile = {
            'name': 'pair',
            'provider_name': 'amphora',
            'flavor_data': json.dumps({'loadbalancer_topology': 'ACTIVE_STANDBY'}),
        }
        made = self.ask('POST', '/flavorprofiles', json={'flavorprofile': profile}).json()
        flavor = {'name': 'pair', 'flavor_profile_id': made['flavorprofile']['id']}
        return self.ask('POST', '/flavors', json={'flavor': flavor}).json()['flavor']['id']

    def test_the_amphorae_of_a_pair_are_on_two_hosts(self):
        identity = self.create('pair', flavor_id=self.pair_flavor())
        self.assertEqual('ACTIVE', self.settled(identity))
        self.assert_served(identity)
        hosts = [server['OS-EXT-SRV-ATTR:host'] for server in self.servers()]
        self.assertEqual(2, len(set(hosts)), hosts)
        self.assertEqual(1, len(self.groups()))
        self.delete(identity)
        self.assertIsNone(self.settled(identity))
        self.assert_nothing_left()
