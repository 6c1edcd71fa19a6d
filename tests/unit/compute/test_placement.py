"""Placement: builds go where there is room, and full places are avoided."""

import threading
import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.compute.facade import Compute
from kiln.compute.goals import Until
from kiln.compute.placement import FIRST_S, LONGEST_S, FullPlaces
from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.compute_drivers.noop.faults import Fault
from kiln.exceptions import (
    BuildDiffers,
    CircuitOpenError,
    InsufficientCapacity,
    InvalidBuildRequest,
    QuotaExceeded,
)
from kiln.models import Placement
from kiln.testing.clock import VirtualClock
from tests.self_moving_clock import MovingTime

A, B, C = [(zone, 'small', None) for zone in 'abc']


class FullPlacesTest(unittest.TestCase):
    def setUp(self):
        self.clock = VirtualClock()
        self.full = FullPlaces(self.clock)

    def test_places_keep_the_order_in_which_they_were_given(self):
        self.assertEqual([B, A, C], self.full.in_order([B, A, C, B]))

    def test_a_full_place_comes_last_for_a_while(self):
        self.full.record_full(A)
        self.assertEqual([B, A], self.full.in_order([A, B]))
        self.clock.advance(FIRST_S)
        self.assertEqual([A, B], self.full.in_order([A, B]))

    def test_if_all_places_are_full_the_longest_full_is_tried_first(self):
        self.full.record_full(B)
        self.clock.advance(1)
        self.full.record_full(A)
        self.assertEqual([B, A], self.full.in_order([A, B]))

    def test_a_place_that_stays_full_is_avoided_for_longer_up_to_a_limit(self):
        waits = []
        for _ in range(8):
            self.full.record_full(A)
            waits.append(self.full.wait_s(A))
            self.clock.advance(waits[-1])
        self.assertEqual(waits[:3], [FIRST_S, 2 * FIRST_S, 4 * FIRST_S])
        self.assertEqual(waits[-1], LONGEST_S)

    def test_concurrent_builds_count_one_lack_of_room(self):
        for _ in range(20):
            self.full.record_full(A)
        self.assertEqual(FIRST_S, self.full.wait_s(A))

    def test_room_ends_the_avoidance_of_a_place(self):
        self.full.record_full(A)
        self.full.record_room(A)
        self.assertEqual(0, self.full.wait_s(A))

    def test_another_group_is_another_place(self):
        self.full.record_full(('a', 'small', 'group-1'))
        self.assertEqual(0, self.full.wait_s(A))

    @given(st.lists(st.sampled_from([A, B, C]), min_size=1), st.lists(st.sampled_from([A, B, C])))
    def test_no_place_is_ever_omitted_or_duplicated(self, places, full):
        fulls = FullPlaces(VirtualClock())
        for place in full:
            fulls.record_full(place)
        self.assertCountEqual(set(places), fulls.in_order(places))


class PlacedBuildTest(MovingTime, unittest.TestCase):
    def setUp(self):
        self.clock = self.open_clock()
        self.cloud = NoopCloud(clock=self.clock, capacity={'az1': 0}, build_s=5)
        self.compute = Compute(NoopDriver(cloud=self.cloud))
        self.addCleanup(self.compute.close, 0.1)

    def build(self, *placements, **given):
        given = {'amphora_flavor': 'small', 'availability_zone': 'az1', **given}
        operation = self.compute.build(placements=placements, **given)
        self.until(operation.done)
        return operation

    def zone(self, operation):
        amphora_id = operation.result()
        return self.compute.driver.get_amphora(amphora_id=amphora_id).availability_zone

    def tried(self, operation):
        return [event.detail for event in operation.events if event.name == 'tries']

    def test_a_build_goes_to_the_next_zone_with_room(self):
        operation = self.build(Placement(availability_zone='az2'), until=Until.ACTIVE)
        self.assertEqual('az2', self.zone(operation))
        self.assertEqual(
            ['zone az1, flavor small', 'zone az2, flavor small'], self.tried(operation)
        )

    def test_the_next_build_does_not_try_the_full_zone_first(self):
        other = Placement(availability_zone='az2')
        self.build(other)
        self.assertEqual(['zone az2, flavor small'], self.tried(self.build(other)))

    def test_another_flavor_is_tried_and_the_failed_amphora_is_removed(self):
        operation = self.build(
            Placement(amphora_flavor='tiny'),
            availability_zone='az3', amphora_flavor='impossible', until=Until.ACTIVE,
            build_key='k',
        )  # fmt: skip
        (instance,) = self.cloud.instances()
        self.assertEqual((operation.result(), 'tiny'), (instance.id, instance.flavor))

    def test_if_all_places_are_full_the_last_lack_of_room_is_the_error(self):
        operation = self.build(Placement(amphora_flavor='tiny'))
        self.assertIsInstance(operation.exception(), InsufficientCapacity)
        self.assertEqual(2, len(self.tried(operation)))
        self.assertEqual((), self.cloud.instances())

    def test_a_repeat_adopts_the_machine_in_the_second_place(self):
        tiny = Placement(availability_zone='az2', amphora_flavor='tiny')
        first = self.build(tiny, build_key='k')
        again = self.build(tiny, build_key='k')
        self.assertEqual(first.result(), again.result())
        # Later, when the first place is no longer avoided, it is tried first.
        self.clock.sleep(2 * FIRST_S)
        later = self.build(tiny, build_key='k', until=Until.ACTIVE)
        self.assertEqual(first.result(), later.result())
        self.assertEqual(['zone az1, flavor small', 'zone az2, flavor tiny'], self.tried(later))
        self.assertEqual(1, len(self.cloud.instances()))

    def test_a_repeat_that_matches_no_place_is_refused_and_leaves_the_machine(self):
        other = Placement(amphora_flavor='tiny')
        first = self.build(availability_zone='az2', amphora_flavor='large', build_key='k')
        again = self.build(other, availability_zone='az2', build_key='k', until=Until.ACTIVE)
        error = again.exception()
        self.assertIsInstance(error, BuildDiffers)
        self.assertEqual(
            (first.result(), 'k', 'noop'), (error.amphora_id, error.build_key, error.backend)
        )
        self.assertEqual(2, len(self.tried(again)))
        self.clock.sleep(3600)
        self.assertEqual([first.result()], [one.id for one in self.cloud.instances()])

    def test_any_other_error_ends_the_build_at_once(self):
        self.cloud.faults.add(Fault(call='build', action='quota'))
        operation = self.build(Placement(availability_zone='az2'))
        self.assertIsInstance(operation.exception(), QuotaExceeded)
        self.assertEqual(1, len(self.tried(operation)))

    def test_a_build_refused_at_once_is_not_counted_as_in_progress(self):
        self.compute.open_circuit('build')
        with self.assertRaises(CircuitOpenError):
            self.compute.build(placements=[Placement(availability_zone='az2')])
        self.assertEqual(set(), self.compute._stack.operations)

    def test_a_lack_of_room_does_not_open_a_circuit(self):
        for _ in range(20):
            self.build(Placement(amphora_flavor='tiny'))
        self.assertEqual({'closed'}, {one.state for one in self.compute.circuits()})

    def test_a_cancelled_build_leaves_nothing(self):
        operation = self.compute.build(
            availability_zone='az1', placements=[Placement(availability_zone='az2')],
            until=Until.ACTIVE,
        )  # fmt: skip
        self.until(lambda: self.tried(operation)[1:])
        operation.cancel()
        self.until(lambda: not self.cloud.instances())
        self.assertTrue(operation.cancelled())

    def begin(self, until=Until.ACTIVE, **given):
        return self.compute.build(
            availability_zone='az1', placements=[Placement(availability_zone='az2')],
            until=until, **given,
        )  # fmt: skip

    def test_a_cancel_while_the_next_place_is_submitted_leaves_nothing(self):
        builder = self.compute._builder
        submit, begun, submitted = builder._build, threading.Event(), []

        def cancel_and_submit(*arguments):
            if submitted:
                begun.wait(120)
                self.assertTrue(operation.cancel())
            submitted.append(submit(*arguments))
            return submitted[-1]

        builder._build = cancel_and_submit
        operation = self.begin(build_key='k')
        begun.set()
        self.until(lambda: submitted[1:] and submitted[1].done())
        self.assertTrue(operation.cancelled() and submitted[1].cancelled())
        self.until(lambda: self.compute._stack.idle and not self.cloud.instances())

    def cancel_at_success(self, until):
        places, known = self.compute._builder._full_places, threading.Event()
        record_room = places.record_room

        def cancel_and_record_room(place):
            known.wait(120)
            self.assertTrue(operation.cancel())
            record_room(place)

        places.record_room = cancel_and_record_room
        operation = self.begin(until)
        known.set()
        self.until(operation.done)
        self.assertTrue(operation.cancelled())
        self.until(lambda: not self.cloud.instances())

    def test_a_cancel_at_the_moment_of_success_leaves_nothing(self):
        self.cancel_at_success(Until.ACTIVE)

    def test_a_cancel_at_the_moment_of_acceptance_leaves_nothing(self):
        self.cancel_at_success(Until.ACCEPTED)

    def test_an_invalid_placement_is_refused_before_anything_is_sent(self):
        for wrong in ('az2', ['az2'], 7, [Placement(availability_zone='')]):
            with self.subTest(wrong), self.assertRaises(InvalidBuildRequest):
                self.compute.build(placements=wrong)
        self.assertEqual((), self.cloud.instances())
