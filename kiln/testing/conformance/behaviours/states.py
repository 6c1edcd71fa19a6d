"""Behaviours of status: states of the contract, true when requested."""

from __future__ import annotations

from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.exceptions import (
    InstanceNotFoundError,
    InstanceStateConflict,
    NotSuspendedError,
    Outcome,
)
from kiln.models import Ability, Amphora, ComputeStatus, State
from kiln.testing.conformance.behaviours.ports import Attaching
from kiln.testing.conformance.fixture import needs
from kiln.testing.conformance.samples import ask

_DAY_S = 86_400.0
_COMING_UP = frozenset({State.PENDING, State.BUILDING, State.ACTIVE})


#: Abilities of calls that can change an instance, none of which ends it.
_CHANGES = (
    Ability.ATTACH_PORT,
    Ability.ATTACH_NETWORK,
    Ability.REBOOT,
    Ability.REBUILD,
    Ability.SUSPEND,
)


class States(Attaching, contract=(AmphoraComputeDriver.status, ComputeStatus, Amphora)):
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

    def test_a_conflict_with_what_is_being_built_is_retryable(self) -> None:
        amphora_id = self.build()
        for ability in _CHANGES:
            error = self.conflict(ability, amphora_id)
            if self.driver.status(amphora_id).state is State.ACTIVE:
                # It can have become active before it refused.
                return
            if error is not None:
                self.assert_retryable(error, f'{ability.value}()')

    @needs(Ability.SUSPEND)
    def test_a_conflict_with_what_is_suspended_is_not_retryable(self) -> None:
        amphora_id = self.suspended()
        for ability in _CHANGES[:-1]:
            if error := self.conflict(ability, amphora_id):
                self.assert_retryable(error, f'{ability.value}()', retryable=False)
            if self.driver.status(amphora_id).state is not State.SUSPENDED:
                # It has had its effect.
                return

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

    def conflict(self, ability: Ability, amphora_id: str) -> InstanceStateConflict | None:
        """Make a call about an instance; return its error, if its state did not allow it."""
        if ability not in self.driver.abilities:
            return None
        try:
            if ability is Ability.ATTACH_PORT:
                self.driver.attach_port(amphora_id, self.port_id())
            elif ability is Ability.ATTACH_NETWORK:
                self.driver.attach_network(amphora_id, self.network_id())
            else:
                ask(self.driver, ability, amphora_id)
        except CannotBeShown:
            # Without a port or a network to attach.
            return None
        except InstanceStateConflict as exc:
            if ability is Ability.ATTACH_PORT:
                self.assertIsNone(exc.resource_id, 'resource_id is None, as no port is to blame')
            self.assertIsNot(type(exc), NotSuspendedError, f'the error of {ability.value}()')
            self.assertEqual(exc.amphora_id, amphora_id, f'amphora_id, in {ability.value}()')
            self.assertIs(exc.outcome, Outcome.NOT_APPLIED, f'outcome, in {ability.value}()')
            return exc
        return None

    def test_the_time_of_creation_is_in_seconds_since_the_epoch(self) -> None:
        created_at = self.described().created_at
        # A backend might not know it, and its clock can differ from the local one.
        if created_at is not None:
            self.assertLess(abs(created_at - self.time.time()), _DAY_S, 'seconds since created_at')
