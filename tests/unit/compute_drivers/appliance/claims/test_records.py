"""Claims: exclusive, found by key and never lost, with any number of processes."""

import dataclasses
import functools
import pathlib
import sqlite3
import tempfile
import unittest

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kiln.compute_drivers.appliance.claims import state_machine
from kiln.compute_drivers.appliance.claims.matching import Record
from kiln.compute_drivers.appliance.claims.records import Claims
from kiln.compute_drivers.appliance.claims.state_machine import COMMANDS, Claim, Ended, Phase
from kiln.compute_drivers.appliance.claims.store import Store
from kiln.compute_drivers.appliance.inventory.reading import parse
from kiln.exceptions import (
    BuildDiffers,
    InstanceNotFoundError,
    InstanceStateConflict,
    InsufficientCapacity,
)
from kiln.models import AmphoraType
from tests.examples import examples
from tests.unit.compute_drivers.appliance.samples import RULES, PoolCase, pool, request


def keep(claim):
    return claim


class Claiming(PoolCase):
    def setUp(self):
        super().setUp()
        self.claims = self.open_claims()
        self.inventory = parse(pool(3), 'i')

    def claim(self, key, *, claims=None, **given):
        return (claims or self.claims).claim(request(build_key=key, **given), self.inventory, 1.0)

    def test_a_key_claims_one_machine_no_matter_how_often_it_is_used(self):
        self.assertEqual(self.claim('k'), self.claim('k'))
        self.assertEqual(1, len(self.claims.all()))

    def test_a_key_used_with_other_arguments_is_refused_and_claims_nothing(self):
        first = self.claim('k', name='web', image_id='i')
        for other in (
            {'name': 'other'},
            {'image_id': 'j'},
            {'amphora_type': AmphoraType.HW_LOAD_BALANCER},
        ):
            with self.subTest(other), self.assertRaises(BuildDiffers) as caught:
                self.claim('k', **{'image_id': 'i', **other})
            self.assertEqual(first.id, caught.exception.amphora_id)
        self.assertEqual([first], self.claims.all())
        self.assertEqual(first, self.claim('k'))

    def test_equal_keys_of_two_owners_are_different(self):
        self.assertNotEqual(self.claim('k').machine, self.claim('k', owner='them').machine)
        self.assertEqual('them', self.claims.with_key('them', 'k').owner)

    def test_each_claim_has_its_own_machine(self):
        self.assertEqual({'m1', 'm2', 'm3'}, {self.claim(key).machine for key in 'abc'})
        with self.assertRaises(InsufficientCapacity):
            self.claim('d')

    def test_a_clock_that_was_set_back_makes_no_work_wait(self):
        one = self.claim('k')
        waits = functools.partial(dataclasses.replace, due=11.0)
        self.claims.change(one.id, waits, 1.0)
        self.assertEqual([], self.claims.due(0.5))
        self.claims.follow_clock(0.5)
        self.assertEqual([0.5], [one.due for one in self.claims.due(0.5)])
        self.assertEqual([0.5], [one.since for one in self.claims.all()])

    def test_a_clock_that_was_set_back_leaves_work_alone_that_began_before(self):
        for key, since, due in (('a', 9.0, 11.0), ('b', 0.2, 7.0)):
            waits = functools.partial(dataclasses.replace, since=since, due=due)
            self.claims.change(self.claim(key).id, waits, 1.0)
        probed = functools.partial(dataclasses.replace, probed_at=0.1)
        self.claims.change(self.claim('b').id, probed, 1.0)
        self.claims.follow_clock(0.5)
        self.assertEqual({(0.5, 0.5), (0.2, 7.0)}, {(c.since, c.due) for c in self.claims.all()})

    def test_a_clock_that_was_set_back_makes_no_quarantine_longer(self):
        self.claims.follow_clock(5.0)
        claimed = [self.claim(key) for key in 'ab']
        for one in claimed:
            self.enter(one, Phase.STARTING, Phase.FAILED, now=86400.0)
            self.claims.change(one.id, lambda _: None, 86400.0)
        for now, begins in ((86400.0, 86400.0), (5.0, 5.0), (6.0, 5.0)):
            self.claims.follow_clock(now)
            self.assertEqual(
                [begins + RULES.quarantine_s] * 2,
                [self.claims.records()[one.machine].until for one in claimed],
            )

    def test_a_repeated_claim_needs_no_free_machine(self):
        first = [self.claim(key) for key in 'abc']
        self.assertEqual(first, [self.claim(key) for key in 'abc'])

    def test_claims_are_visible_to_other_processes(self):
        other = self.open_claims()
        one = self.claim('a', name='web', metadata={'x': 'y'})
        self.assertEqual(one, other.get(one.id))
        self.assertEqual([one], other.find('us', 'web'))
        self.assertEqual(one, other.of_machine(one.machine))
        self.assertIsNone(other.of_machine('m2'))
        self.assertNotEqual(one.machine, self.claim('b', claims=other).machine)

    def test_a_new_claim_has_the_facts_of_its_request_and_of_its_machine(self):
        text = pool(1, each='zone = "z1"\nflavors = ["big", "small"]\nclaim = ["/bin/true"]\n')
        self.inventory = parse(text, 'i')
        one = self.claim('K', name='Web', image_id='i1', metadata={'x': 'Y'})
        self.assertEqual(
            Claim(
                id=one.id,
                machine='m1',
                owner='us',
                build_key='K',
                name='Web',
                amphora_type=AmphoraType.BARE_METAL,
                flavor='big',
                image_id='i1',
                zone='z1',
                metadata={'x': 'Y'},
                created_at=1.0,
                table=self.inventory.machines['m1'].table,
                phase=Phase.CLAIMING,
                since=1.0,
                due=1.0,
                epoch=1,
            ),
            one,
        )
        self.claims.change(one.id, lambda _: None, 2.0)
        self.assertEqual('small', self.claim('L', amphora_flavor='small').flavor)

    def test_machines_that_were_renamed_stay_claimed(self):
        self.assertEqual(['m1', 'm2'], [self.claim(key).machine for key in 'ab'])
        self.inventory = parse(pool(3).replace('machines.m', 'machines.a'), 'i')
        self.assertEqual('a3', self.claim('c').machine)
        with self.assertRaises(InsufficientCapacity):
            self.claim('d')

    def test_what_is_due_or_at_rest_is_read_each_time(self):
        first, second = (self.claim(key) for key in 'ab')
        self.assertEqual([first, second], self.claims.resting())
        self.assertIsNone(self.claims.next_due(0.0))
        for one, due in ((first, 9.0), (second, 7.0)):
            self.claims.change(one.id, functools.partial(dataclasses.replace, due=due), 1.0)
        self.assertEqual([], self.claims.resting())
        self.enter(self.claim('c'), Phase.FAILED)
        self.assertEqual([], self.claims.resting())
        self.assertEqual((7.0, 9.0), (self.claims.next_due(0.0), self.claims.next_due(7.0)))
        self.assertEqual([7.0, 9.0], [one.due for one in self.claims.due(9.0)])

    def test_a_released_machine_is_the_last_to_be_claimed_again(self):
        self.claims.change(self.claim('a').id, lambda _: None, 2.0)
        self.assertEqual(['m2', 'm3', 'm1'], [self.claim(key).machine for key in 'bcd'])

    def test_a_failed_change_has_no_effect(self):
        one = self.claim('a')

        def change(claim):
            raise InstanceStateConflict('no')

        with self.assertRaises(InstanceStateConflict):
            self.claims.change(one.id, change, 2.0)
        self.assertEqual(one, self.claims.get(one.id))

    def test_an_unknown_id_is_not_found(self):
        for ask in (
            self.claims.get,
            self.claims.with_payload,
            lambda id_: self.claims.change(id_, keep, 2.0),
        ):
            with self.assertRaises(InstanceNotFoundError) as caught:
                ask('nothing')
            self.assertEqual('nothing', caught.exception.amphora_id)

    def test_each_failed_claim_lengthens_the_quarantine(self):
        untils = []
        for number in range(3):
            self.inventory = parse(pool(1, each='claim = ["/bin/c"]\n'), 'i')
            now = 1000.0 * number
            one = self.claims.claim(request(), self.inventory, now)
            machine = self.inventory.machines['m1']
            ended = functools.partial(
                state_machine.command_ended,
                machine=machine,
                ended=Ended(False, 'x'),
                now=now,
                rules=RULES,
            )
            self.claims.change(one.id, ended, now)
            record = self.claims.records()['m1']
            untils.append(record.until - now)
            self.assertEqual('claim command: x', record.reason)
            self.claims.change(one.id, lambda _: None, now)
            with self.assertRaises(InsufficientCapacity):
                self.claims.claim(request(), self.inventory, now)
        self.assertEqual([60.0, 120.0, 240.0], untils)

    def test_a_machine_that_comes_up_or_is_pardoned_has_its_failures_reset(self):
        reset = Record(used=0, failures=0, until=0.0, reason=None)
        one = self.claim('a')
        for again in (
            lambda: self.claims.pardon('m1'),
            lambda: self.enter(one, Phase.STARTING, Phase.UP),
        ):
            self.enter(one, Phase.STARTING, Phase.FAILED, fault='no power')
            failed = Record(failures=1, until=2.0 + RULES.quarantine_s, reason='no power')
            self.assertEqual(failed, self.claims.records()['m1'])
            again()
            self.assertEqual(reset, self.claims.records()['m1'])

    def test_a_machine_that_fails_and_then_comes_up_has_not_come_up_by_itself(self):
        self.enter(self.claim('a'), Phase.STARTING, Phase.FAILED, Phase.UP)
        self.assertEqual(1, self.claims.records()['m1'].failures)

    def test_a_machine_that_is_up_at_once_has_its_failures_reset(self):
        self.inventory = parse(pool(1), 'i')
        one = self.claim('a')
        self.enter(one, Phase.STARTING, Phase.FAILED)
        self.claims.change(one.id, lambda _: None, 2.0)
        self.claims.claim(request(), self.inventory, 500.0)
        self.assertEqual(0, self.claims.records()['m1'].failures)

    def test_a_fact_about_a_machine_is_not_one_about_others(self):
        self.claims.maintain('m1', 'a fan')
        self.claims.maintain('m2', 'a disk')
        reasons = {name: one.maintenance for name, one in self.claims.records().items()}
        self.assertEqual({'m1': 'a fan', 'm2': 'a disk'}, reasons)

    def test_claims_are_listed_oldest_first_whoever_asks(self):
        made = [
            self.claims.claim(request(build_key=key, name=name), self.inventory, now)
            for key, name, now in (('a', 'web', 1.0), ('b', 'web', 2.0), ('c', 'db', 3.0))
        ]
        self.assertEqual(made, self.claims.all())
        self.assertEqual(made, self.claims.of_owner('us'))
        self.assertEqual(made[:2], self.claims.find('us', 'web'))

    def test_a_key_is_looked_up_each_time(self):
        self.assertIsNone(self.claims.with_key('us', 'k'))
        one = self.claim('k')
        self.assertEqual(one, self.claims.with_key('us', 'k'))
        self.claims.change(one.id, lambda _: None, 2.0)
        self.assertIsNone(self.claims.with_key('us', 'k'))

    def enter(self, claim, *phases, now=2.0, **facts):
        for phase in phases:
            entered = functools.partial(dataclasses.replace, phase=phase, epoch=1, **facts)
            self.claims.change(claim.id, entered, now)

    def test_changes_report_visible_changes_and_ends(self):
        one, two = self.claim('a'), self.claim('b')
        told = self.claims.changes('us', '')
        self.assertTrue(told.complete)
        self.assertEqual({one.id, two.id}, {claim.id for claim in told.claims})
        cursor = told.cursor
        # Nobody waits for the time of a probe, so it is not a change.
        self.claims.change(one.id, lambda c: state_machine.probed(c, Ended(True), 5.0, RULES), 5.0)
        self.assertEqual([], list(self.claims.changes('us', cursor).claims))
        for phase in (Phase.DOWN, Phase.UP):
            self.enter(one, phase)
            told = self.claims.changes('us', cursor)
            self.assertEqual([phase], [claim.phase for claim in told.claims])
            cursor = told.cursor
        self.claims.change(one.id, lambda _: None, 6.0)
        told = self.claims.changes('us', cursor)
        self.assertEqual(([], (one.id,), False), ([*told.claims], told.gone, told.complete))
        self.assertEqual((), self.claims.changes('us', told.cursor).gone)
        self.assertEqual((), self.claims.changes('them', cursor).gone)

    def test_a_cursor_from_another_pool_or_the_future_returns_everything(self):
        one = self.claim('a')
        prefix, _, last = self.claims.changes('us', '').cursor.partition('-')
        for cursor in ('other-1', f'{prefix}-{int(last) + 1}', f'{prefix}-0x'):
            told = self.claims.changes('us', cursor)
            self.assertEqual(([one], True), ([*told.claims], told.complete))

    def test_a_cursor_older_than_the_recorded_ends_returns_everything(self):
        cursor = self.claims.changes('us', '').cursor
        one = self.claim('a')
        with sqlite3.connect(self.folder / 'claims.db') as db:
            db.execute("UPDATE sqlite_sequence SET seq = 10000 WHERE name = 'ends'")
            db.execute("INSERT INTO ends VALUES (10001, 'us', 'gone', 5)")
        db.close()
        self.assertTrue(self.claims.changes('us', cursor).complete)
        self.claims.change(one.id, lambda _: None, 2.0)
        self.assertTrue(self.claims.changes('us', cursor).complete)


class ClaimMachine(RuleBasedStateMachine):
    """Two processes on one pool, each of which can die at any time."""

    keys = st.sampled_from([f'k{number}' for number in range(6)])
    who = st.integers(0, 1)

    @initialize(commands=st.booleans())
    def begin(self, commands):
        self.folder = tempfile.TemporaryDirectory()
        each = 'claim = ["/bin/c"]\nprobe = {tcp = 1}\n' if commands else ''
        defaults = pool(3, each=each)
        if commands:
            defaults = defaults.replace('wipe = []', 'wipe = ["/bin/w"]')
        self.inventory = parse(defaults, 'i')
        self.stores = [Store(self.path), Store(self.path)]
        self.known = {}
        self.now = 0.0

    @property
    def path(self):
        return pathlib.Path(self.folder.name, 'claims.db')

    def claims(self, who):
        return Claims(self.stores[who], RULES)

    @rule(key=keys, who=who)
    def build(self, key, who):
        self.now += 1.0
        try:
            one = self.claims(who).claim(request(build_key=key), self.inventory, self.now)
        except InsufficientCapacity:
            records = self.claims(who).records()
            free = {
                name for name in self.inventory.machines
                if name not in {c.machine for c in self.known.values()}
                and (name not in records or records[name].until <= self.now)
            }  # fmt: skip
            assert not free, f'{free} were free'
            assert key not in self.known
            return
        if key in self.known:
            assert one.id == self.known[key].id
        else:
            assert one.machine not in {c.machine for c in self.known.values()}
        self.known[key] = one

    def change(self, key, who, change):
        if key not in self.known:
            return
        self.now += 1.0
        _, new = self.claims(who).change(self.known[key].id, change, self.now)
        if new is None:
            del self.known[key]
        else:
            self.known[key] = new

    @rule(key=keys, who=who)
    def delete(self, key, who):
        self.change(
            key,
            who,
            lambda c: state_machine.deleted(c, self.inventory.machines[c.machine], self.now),
        )

    @rule(key=keys, who=who, ok=st.booleans())
    def happen(self, key, who, ok):
        def change(claim):
            machine = self.inventory.machines[claim.machine]
            if claim.phase in COMMANDS:
                return state_machine.command_ended(claim, machine, Ended(ok, 'x'), self.now, RULES)
            if claim.due is None:
                return claim
            return state_machine.probed(claim, Ended(ok, 'x'), self.now, RULES)

        self.change(key, who, change)

    @rule(who=who)
    def die(self, who):
        """Die without closing: only what was written remains."""
        self.stores[who].close()
        self.stores[who] = Store(self.path)

    @rule(seconds=st.floats(1, 1000))
    def pass_time(self, seconds):
        self.now += seconds

    @invariant()
    def both_see_exactly_what_is_claimed(self):
        expected = {one.id: one for one in self.known.values()}
        for who in (0, 1):
            assert {one.id: one for one in self.claims(who).all()} == expected
        machines = [one.machine for one in self.known.values()]
        assert len(set(machines)) == len(machines)

    @invariant()
    def what_waits_for_a_command_is_due(self):
        for one in self.known.values():
            assert one.phase not in COMMANDS or one.due is not None
            assert one.phase is not Phase.WIPING or self.inventory.machines[one.machine]

    def teardown(self):
        for store in getattr(self, 'stores', ()):
            store.close()
        if hasattr(self, 'folder'):
            self.folder.cleanup()


class ClaimMachineTest(ClaimMachine.TestCase, unittest.TestCase):
    settings = settings(max_examples=examples(12), stateful_step_count=25, deadline=None)
