"""Tests of leases: which owner can write to a cluster."""

import threading

from kiln.clusters.exceptions import LeaseLost
from tests.unit.db import samples
from tests.unit.db.case import TERM_S, ClusterCase, StoreCase, take_over


class Leases(StoreCase):
    def test_a_scope_has_one_owner_at_a_time(self):
        lease = self.claim('s')
        self.assertEqual(('s', 'me', 1), (lease.scope, lease.owner, lease.epoch))
        self.assertIsNone(self.store.leases.claim('s', 'you', TERM_S))
        self.assertEqual(lease, self.store.leases.get('s'))

    def test_scopes_are_independent(self):
        self.claim('s')
        self.claim('t', 'you')

    def test_an_expired_lease_can_be_claimed_in_a_higher_epoch(self):
        self.claim('s')
        self.pass_time(TERM_S - 5)
        self.assertIsNone(self.store.leases.claim('s', 'you', TERM_S))
        self.pass_time(10)
        self.assertEqual(('you', 2), (lambda it: (it.owner, it.epoch))(self.claim('s', 'you')))

    def test_a_renewed_lease_does_not_expire(self):
        lease = self.claim('s')
        for _ in range(3):
            self.pass_time(TERM_S - 5)
            renewed = self.store.leases.renew(lease, TERM_S)
        self.assertEqual(1, renewed.epoch)
        self.assertGreater(renewed.expires_at, lease.expires_at)
        self.assertIsNone(self.store.leases.claim('s', 'you', TERM_S))

    def test_an_expired_lease_can_be_renewed_if_unclaimed(self):
        lease = self.claim('s')
        self.pass_time(TERM_S + 5)
        self.store.leases.renew(lease, TERM_S)
        self.assertIsNone(self.store.leases.claim('s', 'you', TERM_S))

    def test_a_lease_that_another_owner_claimed_is_not_renewed(self):
        lease = self.claim('s')
        self.pass_time(TERM_S + 5)
        taken = self.claim('s', 'you')
        with self.assertRaisesRegex(LeaseLost, 'me held its lease in epoch 1'):
            self.store.leases.renew(lease, TERM_S)
        self.assertEqual(taken, self.store.leases.get('s'))

    def test_a_lease_that_ends_later_than_in_two_terms_is_shortened_to_one(self):
        self.claim('s')
        self.assertEqual(0, self.store.leases.shorten(TERM_S))
        self.store.leases.renew(self.store.leases.get('s'), 3600.0)
        self.assertEqual(0, self.store.leases.shorten(TERM_S, besides='s'))
        self.assertEqual(0, self.store.leases.shorten(TERM_S, scope='t'))
        self.assertEqual(1, self.store.leases.shorten(TERM_S))
        self.assertIsNone(self.store.leases.claim('s', 'you', TERM_S))
        self.pass_time(TERM_S + 5)
        self.claim('s', 'you')

    def test_the_lease_of_an_owner_that_died_ends_and_keeps_its_name(self):
        lease = self.claim('s', 'host%1.7.x')
        self.assertEqual((lease,), self.store.leases.held_on('host%1'))
        self.assertEqual((), self.store.leases.held_on('host%1', besides=lease.owner))
        for other in ('host', 'host11', 'host_1', 'host%1.7.x'):
            self.assertEqual((), self.store.leases.held_on(other))
        self.store.leases.expire(lease)
        self.assertEqual((), self.store.leases.held_on('host%1'))
        self.assertEqual('host%1.7.x', self.store.leases.get('s').owner)
        taken = self.claim('s', 'you')
        self.store.leases.expire(lease)
        self.assertEqual(taken, self.store.leases.get('s'))

    def test_a_released_lease_can_be_claimed_at_once(self):
        lease = self.claim('s')
        self.store.leases.release(lease)
        self.store.leases.release(lease)
        self.assertEqual(2, self.claim('s', 'you').epoch)
        self.store.leases.release(lease)
        self.assertEqual('you', self.store.leases.get('s').owner)

    def test_an_unsettled_release_keeps_the_name_of_the_owner(self):
        lease = self.claim()
        self.store.leases.release(lease, unsettled=True)
        left = self.store.leases.get('c-web')
        self.assertEqual(('me', 0.0), (left.owner, left.expires_at))
        # The name alone does not allow writing.
        with self.assertRaises(LeaseLost):
            self.store.leases.renew(lease, TERM_S)
        self.store.leases.release(lease, unsettled=True)
        self.assertEqual(left, self.store.leases.get('c-web'))
        self.assertGreater(self.claim('c-web', 'you').epoch, left.epoch)

    def test_an_unclaimed_scope_has_no_lease(self):
        self.assertIsNone(self.store.leases.get('s'))

    def test_one_of_many_concurrent_claims_succeeds(self):
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

    def test_an_expired_unclaimed_lease_still_writes(self):
        self.pass_time(TERM_S + 5)
        self.write(self.lease, node=samples.node())
        self.assertEqual(1, len(self.store.nodes.of('c-web')))

    def test_a_released_lease_writes_nothing(self):
        self.store.leases.release(self.lease)
        self.refused(self.lease)

    def test_an_owner_that_claims_again_has_another_epoch(self):
        self.pass_time(TERM_S + 5)
        self.claim()
        self.refused(self.lease)

    def test_a_batch_without_changes_still_proves_the_lease(self):
        self.write(self.lease)
        take_over(self.store, 'c-web', 'you')
        self.refused(self.lease)
        with self.assertRaises(LeaseLost):
            self.write(self.lease)

    def test_a_lease_of_one_cluster_does_not_allow_writing_another(self):
        self.create('other')
        for change in (
            {'node': samples.node(cluster_id='c-other')},
            {'event': samples.event(cluster_id='c-other')},
            {'cluster': samples.cluster('other')},
        ):
            with self.subTest(change), self.assertRaisesRegex(ValueError, 'c-other'):
                self.write(self.lease, **change)
