"""What holds when the backend fails; shown where faults can be had on demand."""

from __future__ import annotations

from kiln.compute_drivers.authoring.bench import Bench, CannotBeShown, Faults
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.calls import Call
from kiln.exceptions import (
    Advice,
    AmphoraBuildError,
    AmphoraComputeError,
    BuildOutcomeUnknown,
    InstanceNotFoundError,
    InsufficientCapacity,
    Outcome,
    QuotaExceeded,
    RateLimited,
)
from kiln.models import Amphora, State
from kiln.testing.conformance.behaviours.errors import SECRET
from kiln.testing.conformance.guarded import GuardedFixture

_RETRY_AFTER_S = 0.25


class FaultConformance(GuardedFixture):
    """Faults.

    To be mixed in beside the other behaviours, by a vendor whose backend can
    be made to fail. A guard around a driver may absorb a fault, so each
    behaviour takes a success for an answer, and then looks whether it is one.
    """

    def make_faults(self, driver: AmphoraComputeDriver) -> Faults:
        """Return what makes the backend of this driver fail: its bench."""
        return self.bench

    def setUp(self) -> None:
        super().setUp()
        self.faults = self.make_faults(self.driver)
        if type(self.faults) in (Faults, Bench):
            raise CannotBeShown('no faults are offered')

    def test_a_build_whose_answer_was_lost_says_so_and_names_its_key(self) -> None:
        key = self.new_key()
        self.faults.lose_answer(Call.BUILD)
        error = self.build_error(key)
        if error is not None:
            self.assertIsInstance(error, BuildOutcomeUnknown)
            self.assertEqual((error.build_key, error.outcome), (key, Outcome.UNKNOWN))

    def test_a_build_whose_answer_was_lost_is_to_be_repeated_by_its_key(self) -> None:
        self.faults.lose_answer(Call.BUILD)
        error = self.build_error(self.new_key())
        if error is not None:
            self.assertIs(error.advice, Advice.REPEAT)

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
        self.assertEqual(len(self.with_key(key)), 1)

    def test_a_repeated_build_whose_answer_was_lost_leaves_the_instance_that_runs(self) -> None:
        key = self.new_key()
        amphora_id = self.build_active(build_key=key)
        self.faults.lose_answer(Call.BUILD)
        self.build_error(key)
        self.assert_still(State.ACTIVE, amphora_id, 'A repeated build lost its answer')

    def test_a_refused_build_says_that_nothing_was_done(self) -> None:
        self.faults.refuse(Call.BUILD)
        error = self.build_error(self.new_key())
        if error is not None:
            self.assertIs(error.outcome, Outcome.NOT_APPLIED)

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
        self.assertTrue(self.exists(self.build(build_key=key)))

    def test_a_refused_delete_says_so_and_leaves_the_instance(self) -> None:
        amphora_id = self.build_active()
        self.faults.refuse(Call.DELETE)
        try:
            self.driver.delete(amphora_id)
        except AmphoraComputeError:
            self.assertTrue(self.exists(amphora_id))
        else:
            self.gone(amphora_id, 'what was deleted is gone')

    def test_a_delete_whose_answer_was_lost_can_be_repeated(self) -> None:
        amphora_id = self.build_active()
        self.faults.lose_answer(Call.DELETE)
        for _ in range(2):
            error = None
            try:
                self.driver.delete(amphora_id)
            except AmphoraComputeError as exc:
                error = exc
        self.assertIsNone(error)
        self.gone(amphora_id, 'what was deleted is gone')

    def test_a_rate_limit_says_when_to_come_back(self) -> None:
        self.faults.limit_rate(Call.BUILD, _RETRY_AFTER_S)
        error = self.build_error(self.new_key())
        if error is not None:
            self.assertIsInstance(error, RateLimited)
            self.assertEqual(error.retry_after, _RETRY_AFTER_S)

    def test_a_used_up_quota_is_told_from_other_failures(self) -> None:
        self.faults.exhaust_quota()
        error = self.build_error(self.new_key())
        self.assertIsInstance(error, QuotaExceeded)

    def test_a_lack_of_room_is_told_from_other_failures(self) -> None:
        self.faults.exhaust_capacity()
        error = self.build_error(self.new_key())
        self.assertIsInstance(error, InsufficientCapacity)

    def test_a_build_that_fails_later_ends_in_error_with_its_reason(self) -> None:
        amphora_id = self.failed()
        self.assertIn('the kit says so', self.driver.status(amphora_id).fault or '')

    def test_a_build_that_fails_later_leaves_no_instance_that_nobody_knows(self) -> None:
        key = self.new_key()
        self.faults.fail_build('the kit says so')
        compute, _ = self.behind_guards()
        error = self.error_of(self.start_build(compute, build_key=key))
        self.close_guards(compute)
        if not isinstance(error, AmphoraComputeError):
            self.fail(f'a build that is to fail ends with {error!r}')
        # A driver that cannot tell whether it ever ran has it left, and named.
        known = [error.amphora_id] if error.outcome is Outcome.APPLIED else []
        self.becomes(
            lambda: self.with_key(key),
            lambda left: left in ([], known),
            'what a failed build has made is gone, or its error says what is left',
        )

    def test_an_instance_in_error_is_listed(self) -> None:
        amphora_id = self.failed()
        self.assertIn(amphora_id, {one.id for one in self.driver.list_amphorae()})

    def test_an_instance_in_error_can_be_deleted(self) -> None:
        amphora_id = self.failed()
        self.driver.delete(amphora_id)
        self.gone(amphora_id, 'what was deleted is gone')

    def test_an_instance_that_does_not_come_up_is_not_called_active(self) -> None:
        self.faults.stall_build()
        amphora_id = self.build()
        self.pass_time(0.1)
        self.assertIsNot(self.driver.status(amphora_id).state, State.ACTIVE)

    def test_an_instance_that_vanished_is_noticed(self) -> None:
        amphora_id = self.build_active()
        self.faults.vanish(amphora_id)
        self.gone(amphora_id, 'what vanished is gone')

    def test_a_backend_that_fails_is_not_taken_for_an_instance_that_is_gone(self) -> None:
        amphora_id = self.build_active()
        for call in (Call.STATUS, Call.GET):
            self.faults.refuse(call)
            try:
                self.driver.status(amphora_id)
                self.driver.get_amphora(amphora_id=amphora_id)
            except InstanceNotFoundError:
                self.fail(f'{call.label} failed, and the driver says that the instance is gone')
            except AmphoraComputeError:
                continue

    def test_a_backend_that_fails_is_not_taken_for_one_without_instances(self) -> None:
        amphora_id = self.build_active()
        self.faults.refuse(Call.LIST)
        try:
            listed = [amphora.id for amphora in self.driver.list_amphorae()]
        except AmphoraComputeError:
            return
        self.assertIn(amphora_id, listed)

    def test_a_backend_that_fails_is_not_taken_for_one_without_the_key(self) -> None:
        key = self.new_key()
        self.build_active(build_key=key)
        self.faults.refuse(Call.FIND_BUILD)
        try:
            found: Amphora | None = self.driver.find_build(key)
        except AmphoraComputeError:
            return
        self.assertIsNotNone(found, 'a build is said not to exist by who could not look')

    def test_no_secret_is_in_the_error_of_a_failed_build(self) -> None:
        self.faults.lose_answer(Call.BUILD)
        refused = self.driver.limits.refused_options
        secrets = {'user_data': SECRET, 'config_drive_files': {'/etc/key.pem': SECRET}}
        given = {option: value for option, value in secrets.items() if option not in refused}
        error = self.build_error(self.new_key(), **given)
        self.assertNotIn(SECRET, f'{error} {error!r} {error and error.to_dict()}')

    def build_error(self, key: str, **given: object) -> AmphoraComputeError | None:
        """Build, and return the error; where there is none, it must be true."""
        try:
            amphora_id = self.build(build_key=key, **given)
        except AmphoraComputeError as exc:
            return exc
        self.assertTrue(self.exists(amphora_id), 'a build is said to be done, and was not')
        return None

    def failed(self) -> str:
        """Build an instance that ends in error."""
        self.faults.fail_build('the kit says so')
        try:
            amphora_id = self.build()
        except AmphoraBuildError as exc:
            raise CannotBeShown('this backend fails a build at once') from exc
        self.settle(amphora_id, State.ERROR)
        return amphora_id

    def with_key(self, key: str) -> list[str]:
        """Return the ids of all instances that were built with a key."""
        return [one.id for one in self.driver.list_amphorae() if one.build_key == key]
