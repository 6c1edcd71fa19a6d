"""Who may act on a cluster, and who not any more."""

import threading

from kiln.cluster_exceptions import LeaseLost
from tests.unit.db import samples
from tests.unit.db.case import TERM_S, ClusterCase, StoreCase, take_over


class Leases(StoreCase):
    def test_a_scope_is_had_by_one_at_a_time(self):
        lease = self.claim('s')
        self.assertEqual(('s', 'me', 1), (lease.scope, lease.owner, lease.epoch))
        self.assertIsNone(self.store.leases.claim('s', 'you', TERM_S))
        self.assertEqual(lease, self.store.leases.get('s'))

    def test_scopes_are_apart(self):
        self.claim('s')
        self.claim('t', 'you')

    def test_a_lease_that_is_over_can_be_had_in_a_higher_epoch(self):
        self.claim('s')
        self.pass_time(TERM_S - 5)
        self.assertIsNone(self.store.leases.claim('s', 'you', TERM_S))
        self.pass_time(10)
        self.assertEqual(('you', 2), (lambda it: (it.owner, it.epoch))(self.claim('s', 'you')))

    def test_what_is_renewed_does_not_end(self):
        lease = self.claim('s')
        for _ in range(3):
            self.pass_time(TERM_S - 5)
            renewed = self.store.leases.renew(lease, TERM_S)
        self.assertEqual(1, renewed.epoch)
        self.assertGreater(renewed.expires_at, lease.expires_at)
        self.assertIsNone(self.store.leases.claim('s', 'you', TERM_S))

    def test_it_may_be_renewed_late_if_nobody_took_it(self):
        lease = self.claim('s')
        self.pass_time(TERM_S + 5)
        self.store.leases.renew(lease, TERM_S)
        self.assertIsNone(self.store.leases.claim('s', 'you', TERM_S))

    def test_what_somebody_took_is_not_renewed(self):
        lease = self.claim('s')
        self.pass_time(TERM_S + 5)
        taken = self.claim('s', 'you')
        with self.assertRaisesRegex(LeaseLost, 'me held its lease in epoch 1'):
            self.store.leases.renew(lease, TERM_S)
        self.assertEqual(taken, self.store.leases.get('s'))

    def test_what_is_given_up_can_be_had_at_once(self):
        lease = self.claim('s')
        self.store.leases.release(lease)
        self.store.leases.release(lease)
        self.assertEqual(2, self.claim('s', 'you').epoch)
        self.store.leases.release(lease)
        self.assertEqual('you', self.store.leases.get('s').owner)

    def test_who_leaves_in_the_middle_of_something_leaves_its_name(self):
        lease = self.claim()
        self.store.leases.release(lease, unsettled=True)
        left = self.store.leases.get('c-web')
        self.assertEqual(('me', 0.0), (left.owner, left.expires_at))
        # The name is no leave to go on.
        with self.assertRaises(LeaseLost):
            self.store.leases.renew(lease, TERM_S)
        self.store.leases.release(lease, unsettled=True)
        self.assertEqual(left, self.store.leases.get('c-web'))
        self.assertGreater(self.claim('c-web', 'you').epoch, left.epoch)

    def test_nobody_has_what_nobody_claimed(self):
        self.assertIsNone(self.store.leases.get('s'))

    def test_of_many_who_claim_at_once_one_gets_it(self):
        barrier, got = threading.Barrier(6), []

        def claim(owner):
            barrier.wait()
            got.append(self.store.leases.claim('s', owner, TERM_S))

        threads = [threading.Thread(target=claim, args=[f'o{i}']) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (won,) = filter(None, got)
        self.assertEqual((6, 1), (len(got), won.epoch))
        self.assertEqual(won, self.store.leases.get('s'))


class Fences(ClusterCase):
    def refused(self, lease):
        with self.assertRaises(LeaseLost):
            self.write(lease, node=samples.node(), event=samples.event())
        self.assertEqual((), self.store.nodes.of('c-web'))
        self.assertEqual((), self.store.events.after())

    def test_finding_8_after_a_takeover_the_former_owner_writes_nothing(self):
        self.pass_time(TERM_S + 5)
        taken = self.claim('c-web', 'you')
        self.refused(self.lease)
        self.write(taken, node=samples.node())
        self.assertEqual(1, len(self.store.nodes.of('c-web')))

    def test_a_lease_that_is_over_and_that_nobody_took_still_writes(self):
        self.pass_time(TERM_S + 5)
        self.write(self.lease, node=samples.node())
        self.assertEqual(1, len(self.store.nodes.of('c-web')))

    def test_who_gave_it_up_writes_nothing(self):
        self.store.leases.release(self.lease)
        self.refused(self.lease)

    def test_an_owner_that_comes_back_has_another_epoch(self):
        self.pass_time(TERM_S + 5)
        self.claim()
        self.refused(self.lease)

    def test_a_batch_without_changes_asks_whether_the_lease_is_still_ours(self):
        self.write(self.lease)
        take_over(self.store, 'c-web', 'you')
        self.refused(self.lease)
        with self.assertRaises(LeaseLost):
            self.write(self.lease)

    def test_a_lease_of_one_cluster_is_no_leave_to_write_another(self):
        self.create('other')
        for change in (
            {'node': samples.node(cluster_id='c-other')},
            {'event': samples.event(cluster_id='c-other')},
            {'cluster': samples.cluster('other')},
        ):
            with self.subTest(change), self.assertRaisesRegex(ValueError, 'c-other'):
                self.write(self.lease, **change)
