import dataclasses
import random
import unittest

from kiln.compute_drivers.calls import Call
from kiln.exceptions import (
    AmphoraBuildError,
    AmphoraComputeError,
    AuthenticationFailed,
    BuildDiffers,
    BuildOutcomeUnknown,
    BuildTimeout,
    CircuitOpenError,
    ConfigurationError,
    DeleteFailed,
    OperationTimeout,
    Outcome,
    QuotaExceeded,
    ServiceTimeout,
    ServiceUnavailable,
)
from kiln.models import Amphora, AmphoraType, State
from kiln.testing.clock import VirtualClock
from kiln.wrappers.executor.attempts import Again, Backoff, Done, Failed
from kiln.wrappers.executor.build_attempts import BuildPlan, DiscardPlan
from kiln.wrappers.operations.build_key import BuildKey
from kiln.wrappers.operations.errand import Errand
from tests.unit.wrappers.scripted import request

BACKOFF = Backoff(first_s=0.5, max_s=30, rng=random.Random(1))


def operation(kind='build', amphora_id=None, *, drawn=False):
    key = BuildKey('k', drawn=drawn)
    op = Errand(kind, backend='east', subject='name', clock=VirtualClock(), build_key=key)
    op.amphora_id = amphora_id
    return op


def amphora(state=State.ACTIVE, amphora_id='id-1', served=None):
    return Amphora(id=amphora_id, name='name-of-k', state=state, build_key='k', served=served)


class Building(unittest.TestCase):
    def setUp(self):
        self.plan = BuildPlan(operation(), request('k'), BACKOFF)

    def lose(self, error=None):
        step = self.plan.failed(error or BuildOutcomeUnknown('no answer'))
        self.assertIsInstance(step, Again)
        self.assertGreater(step.pause_s, 0)
        self.assertEqual((self.plan.call, self.plan.args), (Call.FIND_BUILD, ('k',)))
        self.assertTrue(self.plan.doubt)

    def test_the_result_is_the_id(self):
        self.assertEqual(self.plan.answered('id-1'), Done('id-1'))
        self.assertEqual(self.plan.operation.amphora_id, 'id-1')

    def test_after_an_uncertain_result_the_key_is_looked_up_and_adopted(self):
        self.lose()
        self.assertEqual(self.plan.answered(amphora()), Done('id-1'))
        self.assertEqual([event.name for event in self.plan.operation.events], ['lost', 'adopted'])

    def test_a_machine_with_other_arguments_is_refused_and_left(self):
        for other in ({'name': 'other'}, {'amphora_type': AmphoraType.CONTAINER}):
            with self.subTest(other):
                self.setUp()
                self.lose()
                step = self.plan.answered(dataclasses.replace(amphora(), **other))
                self.assertIsInstance(step, Failed)
                self.assertIsInstance(step.error, BuildDiffers)
                self.assertEqual(('id-1', 'east'), (step.error.amphora_id, step.error.backend))
                self.assertFalse(self.plan.doubt)
                self.assertIsNone(self.plan.operation.amphora_id)

    def test_other_names_of_flavor_and_image_are_ignored_after_an_uncertain_result(self):
        self.plan = BuildPlan(
            operation(), dataclasses.replace(request('k'), flavor='s', image_id='i'), BACKOFF
        )
        self.lose()
        found = dataclasses.replace(amphora(), flavor='uuid-1', image_id='sha256:1')
        self.assertEqual(self.plan.answered(found), Done('id-1'))

    def test_a_refusal_for_another_machine_of_the_key_is_final(self):
        self.lose()
        self.plan.answered(None)
        error = BuildDiffers('other', amphora_id='id-1')
        self.assertEqual(self.plan.failed(error), Failed(error))
        self.assertFalse(self.plan.doubt)

    def test_it_is_sent_again_if_nothing_was_built(self):
        self.lose(ServiceTimeout('no answer'))
        self.assertIsInstance(self.plan.answered(None), Again)
        self.assertEqual(self.plan.call, Call.BUILD)
        self.assertEqual(self.plan.args[0].build_key, 'k')

    def test_after_a_driver_defect_the_key_is_looked_up_but_the_call_not_repeated(self):
        defect = AmphoraComputeError('KeyError')
        self.lose(defect)
        self.assertEqual(self.plan.answered(None), Failed(defect))

    def test_a_request_that_never_arrived_is_sent_again_without_a_look_up(self):
        self.assertIsInstance(self.plan.failed(ServiceUnavailable('refused')), Again)
        self.assertEqual((self.plan.call, self.plan.doubt), (Call.BUILD, False))

    def test_a_refusal_is_the_outcome(self):
        error = QuotaExceeded('no quota')
        self.assertEqual(self.plan.failed(error), Failed(error))
        self.assertFalse(self.plan.doubt)

    def test_a_refusal_after_an_uncertain_result_is_not_final(self):
        self.lose()
        self.plan.answered(None)
        error = QuotaExceeded('no quota')
        step = self.plan.failed(error)
        self.assertIsInstance(step.error, BuildOutcomeUnknown)
        self.assertIs(step.error.__cause__, error)
        self.assertTrue(self.plan.doubt)

    def test_a_failed_build_is_left_for_removal(self):
        error = BuildTimeout('accepted, then broken', amphora_id='id-1')
        self.assertEqual(self.plan.failed(error), Failed(error))
        self.assertTrue(self.plan.doubt)
        self.assertEqual(self.plan.operation.amphora_id, 'id-1')

    def test_an_error_without_an_outcome_is_uncertain(self):
        self.lose(ConfigurationError('odd'))

    def test_a_look_up_that_cannot_succeed_ends_in_an_unknown_outcome(self):
        self.lose()
        denied = AuthenticationFailed('unknown user')
        step = self.plan.failed(denied)
        self.assertIsInstance(step.error, BuildOutcomeUnknown)
        self.assertIs(step.error.__cause__, denied)
        self.assertEqual(step.error.build_key, 'k')

    def test_a_look_up_is_retried_through_an_outage(self):
        self.lose()
        self.assertIsInstance(self.plan.failed(ServiceUnavailable('down')), Again)
        self.assertIs(self.plan.call, Call.FIND_BUILD)

    def test_at_the_deadline_an_uncertain_build_is_reported_as_unknown(self):
        self.assertIsInstance(self.plan.overdue(in_flight=True), BuildOutcomeUnknown)
        self.lose()
        self.assertIsInstance(self.plan.overdue(in_flight=False), BuildOutcomeUnknown)

    def test_at_the_deadline_in_the_queue_nothing_was_built(self):
        error = self.plan.overdue(in_flight=False)
        self.assertIsInstance(error, OperationTimeout)
        self.assertIs(error.outcome, Outcome.NOT_APPLIED)

    def test_at_the_deadline_after_refusals_the_last_one_is_the_error(self):
        error = ServiceUnavailable('refused')
        self.plan.failed(error)
        self.assertIs(self.plan.overdue(in_flight=False), error)


class Recovering(unittest.TestCase):
    def setUp(self):
        self.plan = BuildPlan(operation(), None, BACKOFF)

    def test_a_recovered_build_is_only_looked_up(self):
        self.assertIs(self.plan.call, Call.FIND_BUILD)
        self.assertEqual(self.plan.answered(amphora()), Done('id-1'))

    def test_if_nothing_is_found_the_caller_can_build_again(self):
        error = self.plan.answered(None).error
        self.assertIsInstance(error, AmphoraBuildError)
        self.assertIs(error.outcome, Outcome.NOT_APPLIED)
        self.assertIn("build_key='k'", str(error))

    def test_a_machine_that_could_not_be_found_in_time_is_not_removed(self):
        self.assertIsInstance(self.plan.overdue(in_flight=True), BuildOutcomeUnknown)
        self.assertFalse(self.plan.doubt)


class Discarding(unittest.TestCase):
    def plan(self, amphora_id=None):
        discard = operation('discard', amphora_id, drawn=True)
        return DiscardPlan(discard, grace_s=5, backoff=BACKOFF)

    def test_a_known_id_is_deleted_and_then_looked_up(self):
        plan = self.plan('id-1')
        self.assertEqual((plan.call, plan.args), (Call.DELETE, ('id-1',)))
        self.assertEqual(plan.answered(None), Again())
        self.assertEqual((plan.call, plan.args), (Call.FIND_BUILD, ('k',)))
        self.assertEqual(plan.answered(None), Done(None))

    def test_without_a_known_id_the_last_look_up_comes_after_a_grace(self):
        plan = self.plan()
        self.assertEqual(plan.answered(None), Again(5))
        self.assertFalse(plan.outlives_closing)
        self.assertEqual(plan.answered(amphora()), Again())
        self.assertTrue(plan.outlives_closing)
        self.assertEqual((plan.call, plan.args), (Call.DELETE, ('id-1',)))
        plan.answered(None)
        self.assertEqual(plan.answered(None), Done(None))

    def test_a_remaining_machine_is_deleted_again_after_a_pause(self):
        plan = self.plan('id-1')
        plan.answered(None)
        self.assertGreater(plan.answered(amphora()).pause_s, 0)
        self.assertIs(plan.call, Call.DELETE)

    def test_a_machine_being_deleted_is_awaited_and_deleted_means_gone(self):
        plan = self.plan('id-1')
        plan.answered(None)
        self.assertGreater(plan.answered(amphora(State.DELETING)).pause_s, 0)
        self.assertIs(plan.call, Call.FIND_BUILD)
        self.assertEqual(plan.answered(amphora(State.DELETED)), Done(None))

    def test_errors_do_not_end_it_and_a_requested_pause_is_kept(self):
        plan = self.plan('id-1')
        for error in (
            AuthenticationFailed('no'),
            CircuitOpenError('open'),
            DeleteFailed('locked'),
        ):
            step = plan.failed(error)
            self.assertIsInstance(step, Again)
            self.assertLess(step.pause_s, 31)
            self.assertIs(plan.call, Call.DELETE)
        self.assertGreaterEqual(plan.failed(CircuitOpenError('o', retry_after=77)).pause_s, 77)

    def test_a_possible_leftover_is_named_by_key_and_id(self):
        plan = self.plan('id-1')
        plan.failed(DeleteFailed('locked'))
        error = plan.overdue(in_flight=False)
        self.assertIsInstance(error, DeleteFailed)
        self.assertIs(error.outcome, Outcome.UNKNOWN)
        for word in ('build k ', 'id id-1', 'locked'):
            self.assertIn(word, str(error))


class Seeing:
    """A stand-in for a driver with a given result, which records each call."""

    def __init__(self, *found):
        self.found, self.calls = list(found), []

    def perform(self, call, *args):
        self.calls.append((call, *args))
        return self.found.pop(0) if call is Call.FIND_BUILD else None


class DiscardingUnderAChosenKey(unittest.TestCase):
    LOOK, DELETE = (Call.FIND_BUILD, 'k'), (Call.DELETE, 'id-1')

    def plan(self, amphora_id='id-1'):
        discard = operation('discard', amphora_id)
        return DiscardPlan(discard, grace_s=5, backoff=BACKOFF)

    def after(self, plan, found):
        """The calls of one step, and the next step."""
        driver = Seeing(found)
        return driver.calls, plan.answered(plan.send(driver))

    def test_each_delete_directly_follows_a_look_up(self):
        plan = self.plan()
        building = amphora(State.BUILDING)
        self.assertEqual(([self.LOOK, self.DELETE], Again()), self.after(plan, building))
        calls, step = self.after(plan, building)
        self.assertEqual([self.LOOK, self.DELETE], calls)
        self.assertGreater(step.pause_s, 0)
        self.assertEqual(([self.LOOK], Done(None)), self.after(plan, None))

    def test_it_counts_as_a_change_in_the_queue(self):
        self.assertIs(Call.DELETE, self.plan().call)

    def test_a_machine_that_has_run_is_left_and_is_the_result(self):
        for found in (
            amphora(State.ACTIVE),
            amphora(State.SUSPENDED),
            amphora(State.STOPPED),
            amphora(State.ACTIVE, served=False),
            amphora(State.ERROR),
            amphora(State.ERROR, served=True),
            amphora(State.BUILDING, served=True),
        ):
            with self.subTest(found):
                plan = self.plan()
                self.assertEqual(([self.LOOK], Done(found)), self.after(plan, found))
                self.assertEqual([event.name for event in plan.operation.events], ['left'])

    def test_a_machine_that_never_ran_is_removed(self):
        for found in (
            amphora(State.PENDING),
            amphora(State.BUILDING),
            amphora(State.BUILDING, served=False),
            amphora(State.ERROR, served=False),
            amphora(State.UNKNOWN, served=False),
            dataclasses.replace(amphora(State.ERROR), fault_code='insufficient_capacity'),
        ):
            with self.subTest(found):
                self.assertEqual(
                    ([self.LOOK, self.DELETE], Again()), self.after(self.plan(), found)
                )

    def test_an_unknown_state_is_looked_up_again(self):
        calls, step = self.after(self.plan(), amphora(State.UNKNOWN))
        self.assertEqual([self.LOOK], calls)
        self.assertGreater(step.pause_s, 0)

    def test_a_machine_being_deleted_is_awaited(self):
        calls, step = self.after(self.plan(), amphora(State.DELETING))
        self.assertEqual([self.LOOK], calls)
        self.assertGreater(step.pause_s, 0)

    def test_a_machine_that_became_active_before_its_delete_is_left(self):
        plan = self.plan()
        self.after(plan, amphora(State.BUILDING))
        self.assertIsInstance(plan.failed(ServiceUnavailable('down')), Again)
        self.assertEqual(([self.LOOK], Done(amphora())), self.after(plan, amphora()))
