"""Orphans are found by two sightings, and nothing else is taken for an orphan."""

import dataclasses
import unittest

from hypothesis import given, settings
from hypothesis import strategies as st

from kiln.compute.facade import Compute
from kiln.compute.orphans import (
    Inventory,
    Rules,
    Suspect,
    find_orphans,
    is_orphan,
    poll_amphorae,
    remove,
)
from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.compute_drivers.noop.faults import Fault
from kiln.exceptions import InvalidRequest
from kiln.models import Ability, Amphora, Resource, State
from kiln.testing.clock import VirtualClock
from tests.examples import examples

NOW = 10_000.0
GRACE = 100.0
OLD = NOW - 5 * GRACE


def rules(**more):
    return Rules(**{'owner': 'us', 'grace_s': GRACE, **more})


def port(**more):
    return Resource(**{'kind': 'port', 'id': 'p', 'owner': 'us', 'created_at': OLD, **more})


def amphora(**more):
    given = {
        'id': 'a', 'name': 'web', 'state': State.ACTIVE, 'owner': 'us', 'build_key': 'k',
        'created_at': OLD,
    }  # fmt: skip
    return Amphora(**{**given, **more})


def look(*things, at=NOW):
    return Inventory(
        at=at,
        amphorae=[one for one in things if isinstance(one, Amphora)],
        resources=[one for one in things if isinstance(one, Resource)],
    )


def suspected(*things, **more):
    return [suspect.id for suspect in find_orphans(look(*things), rules(**more))]


class OneLook(unittest.TestCase):
    def test_a_port_whose_amphora_is_gone_is_suspect(self):
        (suspect,) = find_orphans(look(port(amphora_id='gone')), rules())
        self.assertEqual('its amphora gone is gone', suspect.reason)
        self.assertEqual(5 * GRACE, suspect.age_s())

    def test_a_machine_given_up_with_its_cluster_is_suspect_if_it_exists(self):
        for word in ('a', 'k'):
            self.assertEqual(['a'], suspected(amphora(), abandoned=frozenset({word})))
        self.assertEqual([], suspected(amphora(), abandoned=frozenset({'another'})))

    def test_a_volume_without_an_amphora_is_suspect(self):
        self.assertEqual(['p'], suspected(port(kind='volume')))

    def test_a_port_of_an_existing_amphora_is_not_suspect(self):
        self.assertEqual([], suspected(port(amphora_id='a'), amphora()))

    def test_a_port_of_a_deleted_amphora_is_suspect(self):
        deleted = amphora(state=State.DELETED)
        self.assertEqual(['p'], suspected(port(amphora_id='a'), deleted))

    def test_an_empty_server_group_is_not_suspect(self):
        self.assertEqual([], suspected(port(kind='server_group')))

    def test_resources_of_another_site_or_without_owner_are_never_suspect(self):
        for owner in ('them', '', None):
            mine = {'owner': owner}
            self.assertEqual([], suspected(port(**mine), amphora(**mine), known=frozenset('x')))

    def test_resources_younger_than_the_grace_are_left_alone(self):
        young = {'created_at': NOW - GRACE + 1}
        self.assertEqual([], suspected(port(**young), amphora(**young), known=frozenset('x')))

    def test_resources_created_in_the_future_are_left_alone(self):
        self.assertEqual([], suspected(port(created_at=NOW + 1)))

    def test_without_a_list_of_known_amphorae_no_amphora_is_suspect(self):
        self.assertEqual([], suspected(amphora(), amphora(id='b', state=State.ERROR)))

    def test_amphorae_are_known_by_id_or_by_build_key(self):
        self.assertEqual(['a'], suspected(amphora(), known=frozenset({'x'})))
        self.assertEqual([], suspected(amphora(), known=frozenset({'a'})))
        self.assertEqual([], suspected(amphora(), known=frozenset({'k'})))

    def test_an_amphora_without_a_key_is_not_known_by_an_empty_key(self):
        self.assertEqual(['a'], suspected(amphora(build_key=None), known=frozenset({'None'})))

    def test_an_amphora_in_error_is_suspect_only_on_request(self):
        (suspect,) = find_orphans(
            look(amphora(state=State.ERROR, fault='no host'), amphora(id='b')),
            rules(errors=True),
        )
        self.assertEqual(('a', 'in error: no host'), (suspect.id, suspect.reason))
        self.assertEqual(['a'], suspected(amphora(state=State.ERROR), errors=True))

    def test_a_known_amphora_in_error_is_left_alone(self):
        broken = amphora(state=State.ERROR)
        self.assertEqual([], suspected(broken, errors=True, known=frozenset({'k'})))

    def test_an_amphora_in_transition_or_unknown_is_left_alone(self):
        moving = {State.PENDING, State.BUILDING, State.DELETING, State.DELETED, State.UNKNOWN}
        for state in State:
            expected = [] if state in moving else ['a']
            self.assertEqual(expected, suspected(amphora(state=state), known=frozenset('x')))
        busy = amphora(task_state='rebuilding')
        self.assertEqual([], suspected(busy, known=frozenset('x')))


class Rulings(unittest.TestCase):
    def test_an_empty_list_of_known_amphorae_is_refused(self):
        with self.assertRaisesRegex(InvalidRequest, 'all would be orphans'):
            rules(known=frozenset())

    def test_a_missing_owner_and_a_zero_grace_are_refused(self):
        for wrong in ({'owner': ''}, {'grace_s': 0}, {'grace_s': float('nan')}):
            with self.assertRaises(InvalidRequest):
                rules(**wrong)


class TwoLooks(unittest.TestCase):
    def looks(self, *pairs, **more):
        suspects = []
        for at, things in pairs:
            suspects = find_orphans(look(*things, at=at), rules(**more), suspects)
        return [(one.id, one.sightings, one.confirmed(GRACE)) for one in suspects]

    def test_one_sighting_proves_nothing(self):
        self.assertEqual([('p', 1, False)], self.looks((NOW, [port()])))

    def test_two_sightings_a_grace_apart_prove_an_orphan(self):
        seen = self.looks((NOW, [port()]), (NOW + GRACE, [port()]))
        self.assertEqual([('p', 2, True)], seen)

    def test_many_sightings_within_the_grace_prove_nothing(self):
        times = [NOW + step for step in range(0, int(GRACE), 10)]
        self.assertEqual([('p', 10, False)], self.looks(*((at, [port()]) for at in times)))

    def test_a_suspect_that_was_fine_in_between_starts_over(self):
        fine = [port(amphora_id='a'), amphora()]
        seen = self.looks((NOW, [port()]), (NOW + GRACE, fine), (NOW + 2 * GRACE, [port()]))
        self.assertEqual([('p', 1, False)], seen)

    def test_another_resource_with_the_same_id_starts_over(self):
        later = port(created_at=OLD + 1)
        self.assertEqual([('p', 1, False)], self.looks((NOW, [port()]), (NOW + GRACE, [later])))

    def test_after_a_clock_was_set_back_a_suspect_starts_over(self):
        seen = self.looks((NOW, [port()]), (NOW - 1, [port()]))
        self.assertEqual([('p', 1, False)], seen)

    def test_if_the_age_is_unknown_it_counts_from_the_first_sighting(self):
        ageless = port(created_at=None)
        seen = self.looks((NOW, [ageless]), (NOW + GRACE, [ageless]))
        self.assertEqual([('p', 2, True)], seen)

    def test_sightings_survive_as_plain_data(self):
        (suspect,) = find_orphans(look(port(created_at=None)), rules())
        self.assertEqual(suspect, Suspect.from_dict(suspect.to_dict()))
        for wrong in ({}, [], {**suspect.to_dict(), 'x': 1}, {**suspect.to_dict(),
                      'first_seen': 'now'}):  # fmt: skip
            with self.assertRaises(ValueError):
                Suspect.from_dict(wrong)


ports = st.builds(
    port,
    id=st.sampled_from('pq'),
    kind=st.sampled_from(['port', 'volume', 'server_group']),
    owner=st.sampled_from(['us', 'them', None]),
    amphora_id=st.sampled_from(['a', 'b', None]),
    created_at=st.sampled_from([None, OLD, NOW - 1, NOW + 2 * GRACE]),
)
amphorae = st.builds(
    amphora,
    id=st.sampled_from('ab'),
    owner=st.sampled_from(['us', 'them', None]),
    state=st.sampled_from(State),
    task_state=st.sampled_from([None, 'rebooting']),
    build_key=st.sampled_from([None, 'k', 'l']),
    created_at=st.sampled_from([None, OLD, NOW - 1, NOW + 2 * GRACE]),
)
histories = st.lists(
    st.tuples(
        st.floats(-GRACE / 2, 3 * GRACE),
        st.lists(ports, max_size=3, unique_by=lambda one: one.id),
        st.lists(amphorae, max_size=2, unique_by=lambda one: one.id),
    ),
    min_size=1,
    max_size=6,
)
rulings = st.builds(
    rules,
    known=st.sampled_from([None, frozenset({'x'}), frozenset({'a'}), frozenset({'k'})]),
    errors=st.booleans(),
)


class Properties(unittest.TestCase):
    @given(histories, rulings)
    @settings(max_examples=examples(25), deadline=None)
    def test_an_orphan_was_suspect_in_two_polls_a_grace_apart_and_all_between(
        self, history, ruling
    ):
        looks, at = [], NOW
        for pause, resources, machines in history:
            at += pause
            looks.append(Inventory(at=at, amphorae=machines, resources=resources))
        suspects = []
        for one in looks:
            suspects = find_orphans(one, ruling, suspects)
        last = looks[-1]
        for orphan in (one for one in suspects if one.confirmed(GRACE)):
            alone = [{s.key for s in find_orphans(one, ruling)} for one in looks]
            seen = 0
            while seen < len(looks) and orphan.key in alone[-1 - seen]:
                seen += 1
            self.assertGreater(seen, 1)
            self.assertGreaterEqual(last.at - min(one.at for one in looks[-seen:]), GRACE)

    @given(histories, rulings)
    @settings(max_examples=examples(25), deadline=None)
    def test_no_suspect_is_foreign_young_busy_or_known(self, history, ruling):
        _, resources, machines = history[0]
        things = {('amphora', one.id): one for one in machines}
        things |= {(one.kind, one.id): one for one in resources}
        seen = Inventory(at=NOW, amphorae=machines, resources=resources)
        for suspect in find_orphans(seen, ruling):
            thing = things[suspect.kind, suspect.id]
            self.assertEqual('us', thing.owner)
            self.assertTrue(thing.created_at is None or NOW - thing.created_at >= GRACE)
            if isinstance(thing, Amphora):
                self.assertIsNone(thing.task_state)
                self.assertFalse({thing.id, thing.build_key} & (ruling.known or set()))
                self.assertTrue(ruling.known or (ruling.errors and thing.state is State.ERROR))

    @given(histories, rulings)
    @settings(max_examples=examples(40), deadline=None)
    def test_a_poll_keeps_only_the_suspects_that_it_finds(self, history, ruling):
        _, resources, machines = history[0]
        seen = Inventory(at=NOW, amphorae=machines, resources=resources)
        again = find_orphans(dataclasses.replace(seen, at=NOW + GRACE), ruling,
                             find_orphans(seen, ruling))  # fmt: skip
        self.assertEqual({2}, {one.sightings for one in again if one.created_at in (None, OLD)}
                         or {2})  # fmt: skip
        self.assertEqual([], find_orphans(Inventory(at=NOW), ruling, again))


class AtTheBackend(unittest.TestCase):
    def setUp(self):
        self.clock = VirtualClock()
        self.cloud = NoopCloud(clock=self.clock)
        self.compute = self.open('us')
        self.rules = rules()

    def open(self, owner):
        driver = NoopDriver(cloud=self.cloud)
        driver.owner = owner
        compute = Compute(driver)
        self.addCleanup(compute.close, 0.1)
        return compute

    def resources(self, owner):
        return list(NoopDriver(cloud=self.cloud).list_resources(owner=owner))

    def leak(self, compute=None):
        compute = compute or self.compute
        self.cloud.faults.add(Fault(action='leak', call='build', times=1))
        amphora_id = compute.build().result()
        compute.delete(amphora_id).result()
        return [one.id for one in self.resources(compute.driver.owner)]

    def two_looks(self, ruling=None):
        ruling = ruling or self.rules
        self.clock.advance(GRACE)
        first = find_orphans(poll_amphorae(self.compute, 'us'), ruling)
        self.clock.advance(GRACE)
        return find_orphans(poll_amphorae(self.compute, 'us'), ruling, first)

    def test_a_leaked_port_is_found_and_removed(self):
        (port_id,) = self.leak()
        self.compute.build().result()
        (orphan,) = self.two_looks()
        self.assertEqual(('port', port_id), (orphan.kind, orphan.id))
        self.assertTrue(remove(self.compute, orphan, self.rules))
        self.assertEqual(1, len(self.resources('us')))

    def test_another_sites_leak_is_not_listed(self):
        self.leak(self.open('them'))
        self.assertEqual([], self.two_looks())
        self.assertEqual(1, len(self.resources('them')))

    def test_a_suspect_seen_once_is_not_removed(self):
        self.leak()
        self.clock.advance(GRACE)
        (suspect,) = find_orphans(poll_amphorae(self.compute, 'us'), self.rules)
        self.assertFalse(remove(self.compute, suspect, self.rules))
        self.assertEqual(1, len(self.resources('us')))

    def test_a_port_that_is_used_again_is_spared(self):
        (port_id,) = self.leak()
        (orphan,) = self.two_looks()
        amphora_id = self.compute.build().result()
        self.compute.attach_port(amphora_id, port_id).result()
        self.assertFalse(is_orphan(self.compute, orphan, self.rules))
        self.assertFalse(remove(self.compute, orphan, self.rules))

    def test_a_resource_removed_from_outside_is_no_longer_an_orphan(self):
        self.leak()
        (orphan,) = self.two_looks()
        self.compute.delete_resource(
            Resource(kind='port', id=orphan.id, owner='us')).result()  # fmt: skip
        self.assertFalse(remove(self.compute, orphan, self.rules))

    def test_an_unknown_amphora_is_removed_and_a_known_one_is_not(self):
        kept = self.compute.build(build_key='kept').result()
        lost = self.compute.build(build_key='lost').result()
        ruling = rules(known=frozenset({'kept'}))
        (orphan,) = self.two_looks(ruling)
        self.assertEqual(lost, orphan.id)
        self.assertTrue(remove(self.compute, orphan, ruling))
        self.assertEqual([kept], [one.id for one in self.cloud.instances()])

    def test_an_amphora_that_became_known_at_the_last_moment_is_spared(self):
        lost = self.compute.build().result()
        (orphan,) = self.two_looks(rules(known=frozenset({'x'})))
        self.assertFalse(remove(self.compute, orphan, rules(known=frozenset({lost}))))
        self.assertEqual(1, self.cloud.count())

    def test_an_amphora_that_is_gone_at_the_last_moment_is_no_longer_an_orphan(self):
        ruling = rules(known=frozenset({'x'}))
        lost = self.compute.build().result()
        (orphan,) = self.two_looks(ruling)
        self.cloud.vanish(lost)
        self.assertFalse(remove(self.compute, orphan, ruling))

    def test_a_port_is_spared_if_its_amphora_exists_but_no_list_has_it(self):
        self.compute.build().result()
        (held,) = self.resources('us')
        suspect = Suspect(
            kind='port', id=held.id, name='', reason='', created_at=held.created_at,
            first_seen=self.clock.time(), last_seen=self.clock.time() + GRACE, sightings=2,
        )  # fmt: skip
        self.clock.advance(2 * GRACE)
        self.assertFalse(is_orphan(self.compute, suspect, self.rules))

    def test_a_backend_without_resources_is_polled_only_for_amphorae(self):
        self.compute.driver.missing_abilities = frozenset({Ability.LIST_RESOURCES})
        self.compute.build().result()
        seen = poll_amphorae(self.compute, 'us')
        self.assertEqual((1, 0), (len(seen.amphorae), len(seen.resources)))
