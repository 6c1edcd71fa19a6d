"""Life cycle of load balancers of the real Octavia on amphorae that kiln builds.

Includes outages of Nova, lost answers and dead workers. One worker serves all tests,
because starting a worker takes longer than most tests. KILN_OUTAGE_S sets the length of
the outage; a soak uses 60.
"""

import json
import os
import time

from kiln.testing.proxy import Answer, Hang, LoseAnswer, Reset
from tests.functional.nova.site import Knob
from tests.functional.octavia.site import OctaviaCase

AWAY_S = float(os.environ.get('KILN_OUTAGE_S', '15'))


class Lifecycle(OctaviaCase):
    options = {  # noqa: RUF012
        'nova': {'enable_anti_affinity': True},
        # The timeout of kiln's requests; the default is a minute.
        'compute:nova': {'timeout': 5},
    }

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

    def pair_flavor(self):
        # The API reads the topology from the flavor, or else from its own file.
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

    def test_flows_interrupted_by_an_outage_of_nova_finish_after_it(self):
        old = [self.create(f'old-{number}') for number in range(2)]
        self.all_settle(old, 'ACTIVE')
        self.proxy.forget()
        early = self.create('early')
        self.assertTrue(self.proxy.wait_for(1, 'POST', '/servers', seconds=300))
        self.delete(old[0])
        self.nova_down()
        down_at = time.monotonic()
        late = self.create('late')
        self.delete(old[1])
        time.sleep(max(0.0, down_at + AWAY_S - time.monotonic()))
        self.nova_up()
        back_at = time.monotonic()
        self.all_settle(old, None)
        self.all_settle([early, late], 'ACTIVE')
        print(f'Nova away for {AWAY_S:.0f} s: all done {time.monotonic() - back_at:.1f} s later')
        self.assert_served(early, late)
        for identity in (early, late):
            self.delete(identity)
        self.all_settle([early, late], None)
        self.assert_nothing_left()

    def test_a_build_with_a_lost_answer_creates_one_server(self):
        faults = (LoseAnswer(Reset()), LoseAnswer(Answer(502)), LoseAnswer(Hang()))
        rule = self.proxy.fault(faults, 'POST', '/servers')
        made = [self.create(f'lost-{number}') for number in range(len(faults))]
        self.all_settle(made, 'ACTIVE')
        self.assertEqual(len(faults), rule.hits)
        self.assert_served(*made)
        self.assertEqual(len(faults), len(self.servers()))
        for identity in made:
            self.delete(identity)
        self.all_settle(made, None)
        self.assert_nothing_left()

    def test_a_failover_repairs_a_load_balancer_whose_worker_died(self):
        self.proxy.fault(Knob('spawn_delay', '6'), 'POST', '/servers', times=1)
        identity = self.create('left alone')
        self.eventually(lambda: self.compute_ids(identity) and self.servers())
        self.worker.kill()
        self.eventually(lambda: self.servers()[0]['status'] == 'ACTIVE')
        self.worker.start()
        time.sleep(3)
        # No worker has its flow; Octavia's guide says to set its status by hand.
        self.assertEqual('PENDING_CREATE', self.status(identity))
        self.database.query(
            "update octavia.load_balancer set provisioning_status = 'ERROR' "
            f"where id = '{identity}'"
        )
        self.failover(identity)
        self.assertEqual('ACTIVE', self.settled(identity))
        self.assert_served(identity)
        self.delete(identity)
        self.assertIsNone(self.settled(identity))
        self.assert_nothing_left()

    def compute_ids(self, identity):
        rows = self.database.query(
            f"select compute_id from octavia.amphora where load_balancer_id = '{identity}' "
            'and compute_id is not null'
        )
        return [row[0] for row in rows]
