"""Behaviours under backend faults, for backends with faults on demand."""

from __future__ import annotations

import functools
from collections.abc import Callable

from kiln.compute_drivers.authoring.bench import CannotBeShown, Refusal
from kiln.compute_drivers.calls import Call
from kiln.compute_drivers.hooks import ComputeHooks
from kiln.exceptions import (
    Advice,
    AmphoraComputeError,
    BuildOutcomeUnknown,
    ComputeServiceError,
    DeleteTimeout,
    InstanceNotFoundError,
    InsufficientCapacity,
    OperationTimeout,
    Outcome,
    QuotaExceeded,
    RateLimited,
)
from kiln.models import Ability, Amphora, Resource, State
from kiln.testing.conformance.behaviours.planted import FILE, USER_DATA
from kiln.testing.conformance.behaviours.ports import Attaching
from kiln.testing.conformance.failing import DEFECT, NO_ANSWER, FaultFixture
from kiln.testing.conformance.fixture import needs, takes
from kiln.testing.conformance.secrets import SecretsFixture
from kiln.testing.conformance.wording import in_words
from kiln.wrappers.base import DriverWrapper

_RETRY_AFTER_S = 0.25
#: Codes of faults that have a reason of their own.
_CODES_OF_REASONS = (InsufficientCapacity.code, QuotaExceeded.code)
#: Refusals by a backend that is well, so that no circuit opens because of them.
_ANSWERS = (Refusal.WRONG, Refusal.UNKNOWN, Refusal.FORBIDDEN, Refusal.CONFLICT)
#: Errors for the silence of a backend, of a driver and of a guard around it.
_SILENCE = (ComputeServiceError, OperationTimeout, DeleteTimeout)


class Failures(
    FaultFixture,
    Attaching,
    SecretsFixture,
    contract=(ComputeHooks._build, ComputeHooks._find_build, AmphoraComputeError),
):
    """Faults."""

    def test_a_build_whose_answer_was_lost_says_so_and_names_its_key(self) -> None:
        key = self.new_key()
        self.faults.lose_answer(Call.BUILD)
        if error := self.build_error(key):
            self.assertIsInstance(error, BuildOutcomeUnknown)
            self.assertEqual(error.build_key, key, 'build_key of the error')
            self.assertIs(error.outcome, Outcome.UNKNOWN, 'outcome of the error')

    def test_a_build_whose_answer_was_lost_advises_repeating_it(self) -> None:
        self.faults.lose_answer(Call.BUILD)
        if error := self.build_error(self.new_key()):
            self.assertIs(error.advice, Advice.REPEAT, 'advice of the error')

    def test_a_build_whose_answer_was_lost_is_found_by_its_key(self) -> None:
        key = self.new_key()
        self.faults.lose_answer(Call.BUILD)
        self.build_error(key)
        self.assertIsNotNone(self.driver.find_build(key))

    def test_building_again_after_a_lost_answer_adopts_what_was_built(self) -> None:
        key = self.new_key()
        self.faults.lose_answer(Call.BUILD)
        self.build_error(key)
        self.assertEqual(self.with_key(key), [self.build(build_key=key)])
        self.assertEqual(len(self.with_key(key)), 1, f'the number of amphorae with key {key}')

    def test_a_repeated_build_whose_answer_was_lost_leaves_the_running_instance(self) -> None:
        key = self.new_key()
        amphora_id = self.build_active(build_key=key)
        self.faults.lose_answer(Call.BUILD)
        self.build_error(key)
        self.assert_still(State.ACTIVE, amphora_id, 'the answer to a repeated build was lost')

    def test_a_refused_build_says_that_nothing_was_done(self) -> None:
        self.faults.refuse(Call.BUILD)
        if error := self.build_error(self.new_key()):
            self.assertIs(error.outcome, Outcome.NOT_APPLIED, 'outcome of the error')

    def test_a_build_that_says_nothing_was_done_has_left_nothing(self) -> None:
        key = self.new_key()
        self.faults.refuse(Call.BUILD)
        error = self.build_error(key)
        if error is not None and error.outcome is Outcome.NOT_APPLIED:
            self.assertEqual(self.with_key(key), [])

    def test_a_refused_build_can_be_repeated(self) -> None:
        key = self.new_key()
        self.faults.refuse(Call.BUILD)
        self.build_error(key)
        self.assert_exists(self.build(build_key=key))

    def test_a_refused_delete_says_so_and_leaves_the_instance(self) -> None:
        amphora_id = self.build_active()
        self.faults.refuse(Call.DELETE)
        if self.error_in(lambda: self.driver.delete(amphora_id)):
            self.assert_exists(amphora_id)
        else:
            self.gone(amphora_id)

    def test_a_delete_whose_answer_was_lost_can_be_repeated(self) -> None:
        amphora_id = self.build_active()
        self.faults.lose_answer(Call.DELETE)
        self.error_in(lambda: self.driver.delete(amphora_id))
        self.assertIsNone(self.error_in(lambda: self.driver.delete(amphora_id)))
        self.gone(amphora_id)

    def test_a_delete_whose_answer_was_lost_says_so(self) -> None:
        amphora_id = self.build_active()
        self.faults.lose_answer(Call.DELETE)
        if error := self.error_in(lambda: self.driver.delete(amphora_id)):
            self.assertIsInstance(error, NO_ANSWER)
            self.assertIs(error.outcome, Outcome.UNKNOWN, 'outcome of the error')
            self.assertEqual(error.amphora_id, amphora_id, 'amphora_id of the error')
        else:
            self.gone(amphora_id)

    def test_a_rate_limit_says_when_to_retry(self) -> None:
        self.faults.limit_rate(Call.BUILD, _RETRY_AFTER_S)
        if error := self.build_error(self.new_key()):
            self.assertIsInstance(error, RateLimited)
            self.assertEqual(error.retry_after, _RETRY_AFTER_S, 'retry_after of the error')

    def test_an_exhausted_quota_differs_from_other_failures(self) -> None:
        self.faults.exhaust_quota()
        error = self.build_error(self.new_key())
        self.assertIsInstance(error, QuotaExceeded)

    def test_a_lack_of_capacity_differs_from_other_failures(self) -> None:
        self.faults.exhaust_capacity()
        error = self.build_error(self.new_key())
        self.assertIsInstance(error, InsufficientCapacity)

    def test_a_build_that_fails_later_ends_in_error_with_its_reason(self) -> None:
        amphora_id = self.failed()
        described, status = self.both(amphora_id)
        self.assertIn('the kit failed it', status.fault or '', 'fault of the status')
        self.assertEqual(described.fault, status.fault, 'fault of the description')
        for seen in (described, status):
            self.assertNotIn(seen.fault_code, _CODES_OF_REASONS, 'fault_code, of another reason')

    def test_a_build_that_fails_later_has_the_code_of_its_reason(self) -> None:
        if not self.faults.fault_codes:
            raise CannotBeShown('the bench has no reasons of failed builds (fault_codes)')
        for reason, code in self.faults.fault_codes.items():
            amphora_id = self.failed(reason)
            for seen in self.both(amphora_id):
                kind = type(seen).__name__
                self.assertEqual(seen.fault_code, code, f'fault_code of {kind}, for {reason!r}')

    def test_a_build_that_fails_later_leaves_no_orphaned_instance(self) -> None:
        key = self.new_key()
        self.faults.fail_build('the kit failed it')
        compute, _ = self.behind_guards()
        error = self.error_of(self.start_build(compute, build_key=key))
        self.close_guards(compute)
        if not isinstance(error, AmphoraComputeError):
            self.broken('a build that was made to fail raises its error', in_words(error))
        # A driver that cannot know if the instance ever ran leaves it, and names it in the error.
        known = [error.amphora_id] if error.outcome is Outcome.APPLIED else []
        self.becomes(
            lambda: self.with_key(key),
            lambda left: left in ([], known),
            'the instance of a failed build is gone, or the error names it',
        )

    def test_an_instance_in_error_is_listed(self) -> None:
        amphora_id = self.failed()
        self.assertIn(amphora_id, {one.id for one in self.driver.list_amphorae()})

    def test_an_instance_in_error_can_be_deleted(self) -> None:
        amphora_id = self.failed()
        self.driver.delete(amphora_id)
        self.gone(amphora_id)

    def test_a_build_of_an_instance_that_does_not_come_up_returns_soon(self) -> None:
        self.assert_exists(self.stalled())

    def test_an_instance_that_does_not_come_up_is_not_reported_active(self) -> None:
        amphora_id = self.stalled()
        self.pass_time(0.1)
        self.assertIsNot(self.driver.status(amphora_id).state, State.ACTIVE, 'state')

    def test_instances_that_do_not_come_up_can_be_deleted_in_any_order(self) -> None:
        stuck = [self.stalled() for _ in range(2)]
        for amphora_id in reversed(stuck):
            self.driver.delete(amphora_id)
            self.gone(amphora_id)

    def test_an_instance_that_vanished_is_noticed(self) -> None:
        amphora_id, other = self.build_active(), self.build_active()
        self.faults.vanish(amphora_id)
        self.gone(amphora_id, 'a vanished instance is gone')
        self.assert_exists(other)

    def test_a_call_ends_by_its_deadline_even_if_the_backend_is_silent(self) -> None:
        amphora_id, key = self.build_active(), self.new_key()
        given = self.arguments(build_key=key)
        for call, act in (
            (Call.STATUS, lambda: self.driver.status(amphora_id)),
            (Call.DELETE, lambda: self.driver.delete(amphora_id)),
            (Call.BUILD, lambda: self.driver.build(**given)),
        ):
            self.silence(call)
            error = self.ends_by_its_deadline(call, act)
            if call is not Call.BUILD and error is not None:
                # It says nothing about the amphora.
                named = f'the error of {call.label}()'
                self.assertIsInstance(error, _SILENCE, named)
            elif call is Call.DELETE:
                self.gone(amphora_id)
            elif error is not None and error.outcome is Outcome.NOT_APPLIED:
                self.assertIsNone(self.driver.find_build(key), 'a build that was not applied')

    def test_a_failing_backend_is_not_taken_for_a_deleted_instance(self) -> None:
        amphora_id = self.build_active()
        for call in (Call.STATUS, Call.GET):
            self.faults.refuse(call)
            if isinstance(self.error_in(lambda: self.both(amphora_id)), InstanceNotFoundError):
                self.broken(
                    f'an error that {call.label} has failed, as the instance exists',
                    'InstanceNotFoundError',
                )

    def test_a_failing_backend_is_not_taken_for_an_empty_one(self) -> None:
        amphora_id = self.build_active()
        self.faults.refuse(Call.LIST)
        try:
            listed = [amphora.id for amphora in self.driver.list_amphorae()]
        except AmphoraComputeError as exc:
            self.assertNotIn(DEFECT, str(exc), 'the driver translates the error')
            return
        self.assertIn(amphora_id, listed)

    def test_a_failing_backend_is_not_taken_for_one_without_the_key(self) -> None:
        key = self.new_key()
        self.build_active(build_key=key)
        self.faults.refuse(Call.FIND_BUILD)
        try:
            found: Amphora | None = self.driver.find_build(key)
        except AmphoraComputeError as exc:
            self.assertNotIn(DEFECT, str(exc), 'the driver translates the error')
            return
        self.assertIsNotNone(
            found, 'find_build() raises an error, as the backend could not be read'
        )

    @takes(port_ids=['some'])
    def test_a_refused_build_gives_its_ports_back(self) -> None:
        port_id = self.port_id()
        self.faults.refuse(Call.BUILD)
        if self.build_error(self.new_key(), port_ids=[port_id]):
            self.can_be_used_again(port_id)

    @takes(port_ids=['some'])
    def test_the_ports_of_an_instance_in_error_are_free_when_it_is_deleted(self) -> None:
        port_id = self.port_id()
        failed = self.failed(port_ids=[port_id])
        self.driver.delete(failed)
        self.gone(failed)
        self.can_be_used_again(port_id)

    @needs(Ability.LIST_RESOURCES)
    def test_a_refused_build_leaves_no_resource_behind(self) -> None:
        def listed() -> set[tuple[str, str]]:
            return {(one.kind, one.id) for one in self.driver.list_resources()}

        before = listed()
        self.faults.refuse(Call.BUILD)
        if self.build_error(self.new_key()):
            self.vanishes(lambda: listed() - before)

    @needs(Ability.LIST_RESOURCES, Ability.DELETE_RESOURCE)
    def test_a_refused_delete_of_a_resource_says_so_and_leaves_it(self) -> None:
        def still_listed(one: Resource) -> bool:
            known = one.kind, one.id
            return any((left.kind, left.id) == known for left in self.driver.list_resources())

        for one in self.leave_resources():
            self.refuse(Call.DELETE_RESOURCE)
            if self.error_in(functools.partial(self.driver.delete_resource, one)):
                self.assertTrue(still_listed(one), f'the {one.kind} is still there')
            else:
                # A guard has repeated the call.
                self.vanishes(functools.partial(still_listed, one))

    def test_a_health_check_fails_while_the_backend_cannot_be_used(self) -> None:
        # A result from before the failure must not be returned again.
        self.driver.check()
        self.refuse(Call.CHECK)
        error = self.error_in(self.driver.check)
        # A guard repeats the check; a driver returns or raises what it was answered.
        if error is not None or not isinstance(self.driver, DriverWrapper):
            self.assertIsInstance(error, ComputeServiceError)

    def test_the_error_of_each_failed_build_names_its_key_and_what_is_left(self) -> None:
        faults: tuple[tuple[Outcome, Callable[[], None]], ...] = (
            (Outcome.NOT_APPLIED, lambda: self.faults.refuse(Call.BUILD)),
            (Outcome.NOT_APPLIED, self.faults.exhaust_quota),
            (Outcome.NOT_APPLIED, self.faults.exhaust_capacity),
            (Outcome.UNKNOWN, lambda: self.faults.lose_answer(Call.BUILD)),
            # The last, as a guard refuses the next builds by itself.
            (Outcome.NOT_APPLIED, lambda: self.faults.limit_rate(Call.BUILD, _RETRY_AFTER_S)),
        )
        for outcome, _ in self.offered(faults):
            key = f'{self.new_key()}-Key'
            if error := self.build_error(key):
                self.assertEqual(error.build_key, key, f'build_key of {type(error).__name__}')
                self.assertIs(error.outcome, outcome, f'outcome of {type(error).__name__}')

    def test_the_error_of_a_failing_call_names_its_instance(self) -> None:
        amphora_id = self.build_active()
        for call, act in (
            (Call.STATUS, self.driver.status),
            (Call.GET, lambda one: self.driver.get_amphora(amphora_id=one)),
            (Call.DELETE, self.driver.delete),
        ):
            self.refuse(call)
            if error := self.error_in(functools.partial(act, amphora_id)):
                self.assertEqual(error.amphora_id, amphora_id, f'amphora_id, in {call.label}()')
                self.assertEqual(error.operation, call.label, 'operation')

    def test_no_secret_is_in_the_error_of_a_failed_build(self) -> None:
        self.assert_no_secret_after(
            lambda: self.faults.lose_answer(Call.BUILD), lambda: self.faults.refuse(Call.BUILD)
        )

    def test_no_secret_is_in_the_error_of_a_build_that_the_backend_refuses(self) -> None:
        self.assert_no_secret_after(
            self.faults.exhaust_quota,
            self.faults.exhaust_capacity,
            *(functools.partial(self.faults.refuse_for, Call.BUILD, one) for one in _ANSWERS),
        )

    def assert_no_secret_after(self, *faults: Callable[[], object]) -> None:
        """Build with each of the faults; fail if an error reveals a secret."""
        given = self.taken(user_data=USER_DATA, config_drive_files={'/etc/key.pem': FILE})
        for _ in self.offered((None, one) for one in faults):
            if error := self.build_error(self.new_key(), **given):
                self.assert_no_secret_in_error(error)
