"""The next action of a node, and the effect of a failure on it."""

import itertools
import unittest

from kiln.clusters.models import Node, NodeState
from kiln.clusters.spec import Place
from kiln.engine.plan.lifecycle import (
    FIRST_POLL_S,
    LONGEST_PAUSE_S,
    LONGEST_POLL_S,
    ActionKind,
    after_failure,
    cause_of,
    next_action,
    pause_after,
    pause_s,
    poll_pause_s,
)
from kiln.exceptions import (
    AmphoraBuildError,
    BuildOutcomeUnknown,
    ChangeFailed,
    CircuitOpenError,
    InstanceNotFoundError,
    InstanceStateConflict,
    InsufficientCapacity,
    InvalidBuildRequest,
    OperationTimeout,
    Outcome,
    PermissionDenied,
    QuotaExceeded,
    ServiceTimeout,
    ServiceUnavailable,
)


def node(state=NodeState.PLANNED, **more):
    given = {'compute_id': 'c-1'} if state is not NodeState.PLANNED else {}
    return Node(
        id='n-1', cluster_id='c', group='work', name='web-work-x', place=Place(), backend='noop',
        state=state, **given | more,
    )  # fmt: skip


class NextAct(unittest.TestCase):
    def test_a_node_that_stays_becomes_ready_and_rests(self):
        acts = {state: next_action(node(state)) for state in NodeState}
        self.assertEqual(
            {
                NodeState.PLANNED: ActionKind.BUILD, NodeState.BUILDING: ActionKind.BUILD,
                NodeState.BOOTING: ActionKind.WATCH, NodeState.JOINING: ActionKind.ASK_READY,
                NodeState.READY: ActionKind.REST, NodeState.UNHEALTHY: ActionKind.REST,
                NodeState.DRAINING: ActionKind.DRAIN, NodeState.DELETING: ActionKind.DELETE,
                NodeState.RESETTING: ActionKind.WATCH, NodeState.GONE: ActionKind.REST,
                NodeState.FAILED: ActionKind.REST, NodeState.UNKNOWN: ActionKind.READ_STATE,
            },
            acts,
        )  # fmt: skip

    def test_a_node_to_be_removed_never_rests_until_it_is_gone(self):
        resting = {
            state
            for state in NodeState
            if next_action(node(state, doomed='asked')) is ActionKind.REST
        }
        self.assertEqual({NodeState.GONE}, resting)

    def test_a_node_without_a_build_request_is_only_dropped(self):
        self.assertIs(ActionKind.FORGET, next_action(node(doomed='asked')))
        refused = node(NodeState.FAILED, compute_id=None, doomed='failed')
        self.assertIs(ActionKind.FORGET, next_action(refused))

    def test_a_request_that_might_have_been_sent_is_searched_first(self):
        self.assertIs(ActionKind.FIND, next_action(node(NodeState.BUILDING, doomed='asked')))
        self.assertIs(ActionKind.FIND, next_action(node(NodeState.BUILDING), sought=True))
        for state in (NodeState.DELETING, NodeState.UNKNOWN):
            self.assertIs(ActionKind.FIND, next_action(node(state, compute_id=None)))

    def test_a_machine_of_unknown_state_is_not_deleted(self):
        self.assertIs(ActionKind.READ_STATE, next_action(node(NodeState.UNKNOWN, doomed='asked')))

    def test_a_resetting_node_follows_its_operation_unless_it_is_to_be_removed(self):
        out = NodeState.RESETTING
        self.assertIs(ActionKind.REBOOT, next_action(node(out), reset=ActionKind.REBOOT))
        self.assertIs(
            ActionKind.DRAIN, next_action(node(out, doomed='asked'), reset=ActionKind.REBOOT)
        )
        self.assertIs(ActionKind.REST, next_action(node(NodeState.READY), reset=ActionKind.REBOOT))

    def test_a_node_without_room_is_deleted_before_it_is_tried_elsewhere(self):
        self.assertIs(ActionKind.DELETE, next_action(node(NodeState.FAILED), elsewhere=True))


class AfterFailure(unittest.TestCase):
    def after(self, act, error, state=NodeState.BUILDING, tries=1):
        return after_failure(act, node(state), error, tries)

    def test_a_build_that_might_have_been_sent_is_sent_again_with_its_key(self):
        verdict = self.after(ActionKind.BUILD, ServiceTimeout('No answer.'))
        self.assertIs(NodeState.BUILDING, verdict.state)
        self.assertIsNotNone(verdict.again_s)

    def test_a_build_that_was_not_sent_is_planned_again(self):
        full = (InsufficientCapacity('No room.'), QuotaExceeded('No quota.'))
        away = ServiceUnavailable('Away.', outcome=Outcome.NOT_APPLIED)
        for error in (*full, away, CircuitOpenError('Open.', retry_after=7)):
            with self.subTest(error.code):
                verdict = self.after(ActionKind.BUILD, error)
                self.assertIs(NodeState.PLANNED, verdict.state)
                self.assertGreaterEqual(verdict.again_s, error.retry_after or 1)

    def test_an_impossible_build_has_failed(self):
        defect = ValueError('a defect')
        for error in (InvalidBuildRequest('Wrong.'), defect):
            with self.subTest(type(error).__name__):
                verdict = self.after(ActionKind.BUILD, error)
                self.assertEqual((NodeState.FAILED, None), (verdict.state, verdict.again_s))

    def test_a_machine_that_fails_or_vanishes_while_it_boots_has_failed(self):
        for error in (
            AmphoraBuildError('In error.'),
            ChangeFailed('In error.'),
            InstanceNotFoundError('Gone.'),
        ):
            self.assertIs(NodeState.FAILED, self.after(ActionKind.WATCH, error).state)

    def test_an_unavailable_backend_does_not_change_a_node(self):
        verdict = self.after(ActionKind.WATCH, ServiceUnavailable('Away.'), NodeState.BOOTING)
        self.assertIs(NodeState.BOOTING, verdict.state)
        self.assertIsNotNone(verdict.again_s)

    def test_a_reset_is_repeated_unless_it_would_fail_each_time(self):
        passing = (
            ServiceTimeout('No answer.'),
            InstanceStateConflict('It is rebooting.'),
            OperationTimeout('Not active yet.'),
            PermissionDenied('No.', outcome=Outcome.UNKNOWN),
        )
        final = (
            InstanceNotFoundError('Gone.'),
            AmphoraBuildError('In error.'),
            PermissionDenied('No.'),
            ValueError('a defect'),
        )
        for act, error in itertools.product(
            (ActionKind.REBOOT, ActionKind.REBUILD), (*passing, *final)
        ):
            with self.subTest(act, error=type(error).__name__):
                verdict = self.after(act, error, NodeState.RESETTING)
                failed = (
                    (NodeState.FAILED, True) if error in final else (NodeState.RESETTING, False)
                )
                self.assertEqual(failed, (verdict.state, verdict.again_s is None))

    def test_removal_is_never_given_up(self):
        for act, error in itertools.product(
            (ActionKind.DELETE, ActionKind.FIND, ActionKind.DRAIN, ActionKind.READ_STATE),
            (ServiceTimeout('x'), ValueError('y')),
        ):
            self.assertIsNotNone(self.after(act, error, NodeState.DELETING, 1000).again_s)

    def test_an_open_circuit_is_waited_for_as_long_as_it_says_however_often(self):
        circuit = CircuitOpenError('Open.', retry_after=7.0)
        unknown = BuildOutcomeUnknown('Unknown.', retry_after=7.0)
        unknown.__cause__ = circuit
        self.assertEqual([7.0, 7.0], [pause_after(one, 9) for one in (circuit, unknown)])
        by_hand = CircuitOpenError('Opened by hand.')
        self.assertEqual(LONGEST_PAUSE_S, pause_after(by_hand, 9))
        self.assertEqual(LONGEST_PAUSE_S, pause_after(ServiceUnavailable('Away.'), 9))

    def test_each_failure_in_a_row_doubles_the_pause_up_to_a_minute(self):
        self.assertEqual([1, 2, 4, 8], [pause_s(tries) for tries in range(1, 5)])
        self.assertEqual(LONGEST_PAUSE_S, pause_s(10_000))
        self.assertEqual(90, pause_s(1, retry_after=90))


class Causes(unittest.TestCase):
    def test_the_providers_message_is_the_innermost_cause(self):
        error = AmphoraBuildError('Cannot build web-1: it is in error.', fault='No valid host')
        cause = cause_of(error)
        self.assertEqual(AmphoraBuildError.code, cause.code)
        self.assertEqual('No valid host', cause.because.message)
        self.assertTrue(cause.hint)

    def test_an_error_keeps_its_cause(self):
        try:
            try:
                raise ServiceUnavailable('Nova is away.')
            except ServiceUnavailable as exc:
                raise CircuitOpenError('The circuit is open.') from exc
        except CircuitOpenError as exc:
            cause = cause_of(exc)
        self.assertEqual('circuit_open', cause.code)
        self.assertEqual('Nova is away.', cause.because.message)
        self.assertIsNone(cause.because.because)

    def test_a_defect_is_reported_as_a_defect(self):
        cause = cause_of(KeyError())
        self.assertEqual(('unforeseen', 'KeyError'), (cause.code, cause.message))


class Looks(unittest.TestCase):
    def test_a_poll_is_late_by_a_tenth_of_the_wait_up_to_a_limit(self):
        pauses = [poll_pause_s(waited_s, 6) for waited_s in (0, 1, 5, 20, 3600)]
        self.assertEqual([FIRST_POLL_S, FIRST_POLL_S, 0.5, LONGEST_POLL_S, LONGEST_POLL_S], pauses)

    def test_a_clock_that_steps_back_causes_no_busy_loop(self):
        self.assertEqual(FIRST_POLL_S, poll_pause_s(-3600, 6))

    def test_many_nodes_are_polled_less_often(self):
        self.assertEqual(0.5, poll_pause_s(0, 100))
        self.assertEqual(LONGEST_POLL_S, poll_pause_s(0, 1000))
