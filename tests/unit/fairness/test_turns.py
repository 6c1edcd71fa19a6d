"""The order of turns: by what was used, whatever is waiting."""

import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.fairness.turns import NOBODY, FairTurns, current_party, on_behalf_of


class Line:
    """A queue in which each thing of a party uses one unit."""

    def __init__(self):
        self.turns, self.waiting, self.order = FairTurns(), [], 0

    def put(self, *parties):
        for party in parties:
            self.order += 1
            self.waiting.append((self.turns.place(party), self.order, party))
            self.turns.use(party, 1)

    def take(self):
        first = min(self.waiting)
        self.waiting.remove(first)
        self.turns.serve(first[0])
        return first[2]

    def take_all(self):
        return ''.join(self.take() for _ in range(len(self.waiting)))


class Turns(unittest.TestCase):
    def setUp(self):
        self.line = Line()

    def test_one_party_alone_comes_in_order(self):
        self.line.put(*'aaa')
        self.assertEqual('aaa', self.line.take_all())

    def test_parties_take_turns_however_many_things_one_of_them_wants(self):
        self.line.put(*'aaaaaa', *'bb', 'c')
        self.assertEqual('abcabaaaa', self.line.take_all())

    def test_a_party_that_comes_late_waits_for_one_turn_of_each_other(self):
        self.line.put(*'a' * 1000)
        for _ in range(500):
            self.line.take()
        self.line.put('b')
        self.assertIn('b', self.line.take() + self.line.take())

    def test_a_party_that_was_away_has_no_claim_to_what_it_did_not_use(self):
        self.line.put('b', *'a' * 100)
        self.line.take_all()
        self.line.put(*'bbbb', *'aaaa')
        self.assertLessEqual(self.line.take_all().index('a'), 2)

    def test_seconds_count_as_well_as_calls(self):
        turns = FairTurns()
        turns.use('slow', 2.0)
        turns.use('quick', 0.1)
        self.assertLess(turns.place('quick'), turns.place('slow'))
        self.assertEqual(0.0, turns.place('new'))

    def test_parties_without_a_debt_are_forgotten(self):
        turns = FairTurns()
        for number in range(100_000):
            turns.serve(turns.place(str(number)))
            turns.use(str(number), 1)
            turns.serve(number)
        self.assertLess(len(turns._next), 3000)

    @given(st.lists(st.sampled_from('abcd'), max_size=60), st.integers(0, 30))
    def test_no_party_waits_for_more_than_one_thing_of_each_other_before_each_of_its_own(
        self, parties, taken
    ):
        line = Line()
        line.put(*parties)
        for _ in range(min(taken, len(parties))):
            line.take()
        line.put('late')
        before = line.take_all().partition('late')[0]
        self.assertLessEqual(len(before), 4)


class Parties(unittest.TestCase):
    def test_a_block_works_for_the_party_that_it_names(self):
        self.assertEqual(NOBODY, current_party())
        with on_behalf_of('web'):
            with on_behalf_of('other'):
                self.assertEqual('other', current_party())
            self.assertEqual('web', current_party())
        self.assertEqual(NOBODY, current_party())
