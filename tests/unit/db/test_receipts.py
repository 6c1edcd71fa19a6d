"""What was made in backends, and what is left of a cluster that is gone."""

import dataclasses

from kiln.cluster_exceptions import ClusterNotFound
from tests.unit.db import samples
from tests.unit.db.case import ClusterCase


class Receipts(ClusterCase):
    def bury(self, lease, **how):
        with self.store.writing(lease) as batch:
            batch.bury(**how)

    def test_what_is_seen_again_is_one_holding(self):
        self.write(self.lease, holding=samples.holding())
        later = samples.holding(seen_at=9.0)
        self.write(self.lease, holding=later)
        self.assertEqual((later,), self.store.receipts.holdings('c-web'))

    def test_ids_are_apart_by_backend_and_kind(self):
        same = [
            samples.holding('x'),
            samples.holding('x', kind='server'),
            samples.holding('x', backend='metal'),
        ]
        self.write(self.lease, holding=same)
        self.assertCountEqual(same, self.store.receipts.holdings('c-web'))

    def test_what_may_be_in_a_backend_is_known(self):
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

    def test_what_was_abandoned_is_not_known_any_more(self):
        self.write(self.lease, holding=samples.holding())
        self.bury(self.lease, forced=True)
        self.assertEqual(frozenset(), self.store.receipts.known('nova', 'port'))

    def test_of_clusters_with_one_name_the_last_one_answers(self):
        self.bury(self.lease)
        self.pass_time(5)
        self.create('web', id='c-2')
        self.bury(self.claim('c-2'))
        self.assertEqual('c-2', self.store.receipts.get('web').cluster_id)

    def test_a_living_cluster_has_no_receipt(self):
        with self.assertRaisesRegex(ClusterNotFound, "'web'"):
            self.store.receipts.get('web')

    def test_holdings_are_listed_in_the_order_in_which_they_were_seen(self):
        late, early = samples.holding('a', seen_at=5.0), samples.holding('b', seen_at=4.0)
        self.write(self.lease, holding=[late, early])
        self.assertEqual((early, late), self.store.receipts.holdings('c-web'))
        gone = [dataclasses.replace(one, gone_at=6.0) for one in (late, early)]
        self.write(self.lease, holding=gone)
        self.bury(self.lease)
        self.assertEqual(tuple(reversed(gone)), self.store.receipts.get('web').holdings)
