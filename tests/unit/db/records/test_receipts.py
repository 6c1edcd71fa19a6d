"""Tests of backend resources and of the receipts of deleted clusters."""

import dataclasses

from kiln.clusters.exceptions import ClusterNotFound
from tests.unit.db import samples
from tests.unit.db.case import ClusterCase


class Receipts(ClusterCase):
    def bury(self, lease, **how):
        with self.store.writing(lease) as batch:
            batch.bury(**how)

    def test_a_resource_seen_again_is_one_holding(self):
        self.write(self.lease, holding=samples.holding())
        later = samples.holding(seen_at=9.0)
        self.write(self.lease, holding=later)
        self.assertEqual((later,), self.store.receipts.holdings('c-web'))

    def test_ids_are_separate_by_backend_and_kind(self):
        same = [
            samples.holding('x'),
            samples.holding('x', kind='server'),
            samples.holding('x', backend='metal'),
        ]
        self.write(self.lease, holding=same)
        self.assertCountEqual(same, self.store.receipts.holdings('c-web'))

    def test_resources_that_can_be_in_a_backend_are_known(self):
        self.write(
            self.lease,
            holding=[
                samples.holding('p-1'),
                samples.holding('p-2', gone_at=4.0),
                samples.holding('p-3', backend='metal'),
                samples.holding('s-1', kind='server'),
            ],
        )
        self.assertEqual({'p-1'}, self.store.receipts.known('nova', 'port'))
        self.assertEqual({'s-1'}, self.store.receipts.known('nova', 'server'))

    def test_abandoned_resources_are_no_longer_known(self):
        self.write(self.lease, holding=samples.holding())
        self.bury(self.lease, forced=True)
        self.assertEqual(frozenset(), self.store.receipts.known('nova', 'port'))

    def test_the_receipt_of_a_name_is_that_of_the_last_cluster(self):
        self.bury(self.lease)
        self.pass_time(5)
        self.create('web', id='c-2')
        self.bury(self.claim('c-2'))
        self.assertEqual('c-2', self.store.receipts.get('web').cluster_id)

    def test_an_existing_cluster_has_no_receipt(self):
        with self.assertRaisesRegex(ClusterNotFound, "'web'"):
            self.store.receipts.get('web')

    def test_holdings_are_listed_by_time_of_sighting(self):
        late, early = samples.holding('a', seen_at=5.0), samples.holding('b', seen_at=4.0)
        self.write(self.lease, holding=[late, early])
        self.assertEqual((early, late), self.store.receipts.holdings('c-web'))
        gone = [dataclasses.replace(one, gone_at=6.0) for one in (late, early)]
        self.write(self.lease, holding=gone)
        self.bury(self.lease)
        self.assertEqual(tuple(reversed(gone)), self.store.receipts.get('web').holdings)
