"""Tests of events: returned in commit order, without gaps."""

import dataclasses
import threading

from tests.unit.db import samples
from tests.unit.db.case import ClusterCase

WRITERS, EACH = 4, 15


class Events(ClusterCase):
    def messages(self, seq=0, **more):
        return [one.message for one in self.store.events.after(seq, **more)]

    def test_an_event_keeps_its_fields(self):
        told = samples.event(
            at=12.5, operation_id='op-web', node_id='n-1', facts={'seconds': 1.5, 'ids': ['a']}
        )
        self.write(self.lease, event=told)
        (found,) = self.store.events.after()
        self.assertEqual(
            (told.message, told.at, told.facts), (found.message, found.at, found.facts)
        )
        self.assertEqual(('op-web', 'n-1', 1), (found.operation_id, found.node_id, found.seq))

    def test_an_event_without_a_time_gets_the_current_time(self):
        self.write(self.lease, event=samples.event())
        self.assertEqual(self.clock.time(), self.store.events.after()[0].at)

    def test_events_are_returned_in_order_after_any_number(self):
        self.write(self.lease, event=[samples.event(f'{i}') for i in range(3)])
        self.store.events.add(samples.event('3', 'c-other'))
        self.write(self.lease, event=samples.event('4'))
        self.assertEqual(['0', '1', '2', '3', '4'], self.messages())
        self.assertEqual(['3', '4'], self.messages(3))
        self.assertEqual(['4'], self.messages(3, cluster_id='c-web'))
        self.assertEqual(['1', '2'], self.messages(1, limit=2))
        self.assertEqual(5, self.store.events.last_seq())

    def test_events_of_one_kind_are_found_among_many(self):
        kind = samples.event('x').kind
        other = dataclasses.replace(samples.event('skipped'), kind='hook-skip')
        self.store.events.add(samples.event('0'), other, samples.event('1'))
        self.assertEqual(['skipped'], self.messages(kind='hook-skip'))
        self.assertEqual(['1'], self.messages(1, kind=kind))

    def test_before_the_first_event_the_last_number_is_0(self):
        self.assertEqual((0, []), (self.store.events.last_seq(), self.messages()))

    def test_characters_that_databases_refuse_are_replaced(self):
        self.write(self.lease, event=samples.event('a\0b \U0001f525 \ud800'))
        self.assertEqual(['a\ufffdb \U0001f525 ?'], self.messages())

    def test_while_many_write_a_reader_misses_none(self):
        others = [self.create(f'c{i}') for i in range(WRITERS)]
        leases = [self.claim(other.id, f'o{i}') for i, other in enumerate(others)]

        def tell(lease):
            for i in range(EACH):
                self.write(lease, event=samples.event(f'{i}', lease.scope))

        threads = [threading.Thread(target=tell, args=[lease]) for lease in leases]
        for thread in threads:
            thread.start()
        seen = []
        while len(seen) < WRITERS * EACH:
            alive = any(thread.is_alive() for thread in threads)
            more = self.store.events.after(seen[-1].seq if seen else 0)
            self.assertTrue(more or alive, f'{len(seen)} of {WRITERS * EACH}')
            seen.extend(more)
        for thread in threads:
            thread.join()
        self.assertEqual([*range(1, WRITERS * EACH + 1)], [one.seq for one in seen])
        for lease in leases:
            mine = [one.message for one in seen if one.cluster_id == lease.scope]
            self.assertEqual([f'{i}' for i in range(EACH)], mine)
