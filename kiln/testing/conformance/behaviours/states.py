"""Behaviours of status: states of the contract, true when requested."""

from __future__ import annotations

from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.exceptions import InstanceNotFoundError
from kiln.models import Amphora, ComputeStatus, State
from kiln.testing.conformance.fixture import ConformanceFixture

_DAY_S = 86_400.0
_COMING_UP = frozenset({State.PENDING, State.BUILDING, State.ACTIVE})


class States(ConformanceFixture, contract=(AmphoraComputeDriver.status, ComputeStatus, Amphora)):
    """States."""

    def test_a_new_instance_becomes_active(self) -> None:
        self.assertIs(self.settle(self.build()).state, State.ACTIVE)

    def test_an_active_instance_without_a_task_is_ready(self) -> None:
        self.assertTrue(self.settle(self.build()).ready, 'ready')

    def test_an_active_instance_has_no_fault(self) -> None:
        status = self.settle(self.build())
        self.assertIsNone(status.fault, 'fault is None')
        self.assertIsNone(status.fault_code, 'fault_code is None')

    def test_a_new_instance_is_pending_building_or_active(self) -> None:
        self.assertIn(self.driver.status(self.build()).state, _COMING_UP)

    def test_no_instance_is_ready_sooner_than_the_driver_declares(self) -> None:
        started = self.time.monotonic()
        status = self.driver.status(self.build())
        if self.time.monotonic() - started < self.driver.soonest_build_s:
            self.assertFalse(status.ready, f'soonest_build_s is {self.driver.soonest_build_s:g}')

    def test_an_instance_that_is_active_stays_so(self) -> None:
        amphora_id = self.build_active()
        self.pass_time(0.1)
        self.assertIs(self.driver.status(amphora_id).state, State.ACTIVE)

    def test_a_running_instance_is_not_reported_as_never_served(self) -> None:
        key = self.new_key()
        amphora_id = self.build_active(build_key=key)
        # With a build key from the caller, kiln may remove an instance that never ran.
        for found in (self.driver.get_amphora(amphora_id=amphora_id), self.driver.find_build(key)):
            # Another behaviour covers that the instance is found by its key.
            self.assertIsNot(found and found.served, False, 'served')

    def test_a_building_instance_is_not_reported_as_served(self) -> None:
        described = self.described()
        if described.state in (State.PENDING, State.BUILDING):
            self.assertIsNot(described.served, True, 'served')

    def test_states_are_members_of_the_state_enum(self) -> None:
        for value in self.both(self.build()):
            self.assertIsInstance(value.state, State)

    def test_a_status_has_the_requested_id(self) -> None:
        amphora_id = self.build()
        self.assertEqual(self.driver.status(amphora_id).amphora_id, amphora_id)

    def test_a_status_and_a_description_agree_on_the_state(self) -> None:
        amphora_id = self.build_active()
        described, status = self.both(amphora_id)
        self.assertEqual(described.state, status.state)

    def test_a_status_has_its_time_of_observation(self) -> None:
        amphora_id = self.build()
        before = self.time.time()
        observed_at = self.driver.status(amphora_id).observed_at
        # A wall clock can be set back a little in between.
        self.assertGreaterEqual(observed_at, before - 1.0, 'observed_at')
        self.assertLessEqual(observed_at, self.time.time() + 1.0, 'observed_at')

    def test_statuses_have_their_time_of_observation(self) -> None:
        amphora_id = self.build()
        before = self.time.time()
        for status in self.driver.statuses([amphora_id]).values():
            self.assertGreaterEqual(status.observed_at, before - 1.0, 'observed_at')
            self.assertLessEqual(status.observed_at, self.time.time() + 1.0, 'observed_at')

    def test_a_status_that_was_just_requested_is_not_stale(self) -> None:
        self.assertFalse(self.driver.status(self.build()).stale)

    def test_an_unknown_id_has_no_status(self) -> None:
        with self.assertRaises(InstanceNotFoundError):
            self.driver.status(self.unknown_id())

    def test_the_time_of_creation_is_in_seconds_since_the_epoch(self) -> None:
        created_at = self.described().created_at
        # A backend might not know it, and its clock can differ from the local one.
        if created_at is not None:
            self.assertLess(abs(created_at - self.time.time()), _DAY_S, 'seconds since created_at')
