"""Recovery: operations saved by one process continue in another to the same goal."""

import json

from hypothesis import given
from hypothesis import strategies as st

from kiln.compute.facade import Compute
from kiln.compute.goals import Until
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.compute_drivers.noop.faults import Fault
from kiln.exceptions import (
    AmphoraBuildError,
    AmphoraComputeError,
    BuildTimeout,
    InstanceNotFoundError,
    InvalidRequest,
    OperationCancelled,
    OperationRejected,
    Outcome,
    QuotaExceeded,
)
from kiln.models import Resource, State
from kiln.wrappers.operations.errand import Errand
from kiln.wrappers.watcher.probe import HttpProbe, TcpProbe, restored_probe, saved_probe
from tests.unit.compute.facade_case import FacadeTest


def saved(operation):
    return json.loads(json.dumps(operation.to_dict()))


class RecoveryTest(FacadeTest):
    def setUp(self):
        super().setUp()
        self.driver = NoopDriver(cloud=self.cloud)
        self.successor = Compute(self.driver)
        self.addCleanup(self.successor.close, 0.1)

    def building(self, **arguments):
        """Start a build; return it once the backend has accepted."""
        operation = self.compute.build(**({'until': Until.ACTIVE} | arguments))
        self.until(lambda: operation.amphora_id is not None)
        return operation


class TheSameGoal(RecoveryTest):
    def test_d2_a_build_until_active_is_done_when_its_machine_is_active(self):
        before = self.building(build_key='k')
        after = self.successor.recover(saved(before))
        self.assertEqual(before.id, after.id)
        self.assertEqual(before.amphora_id, self.settle(after))
        self.assertIs(State.ACTIVE, self.machine(before.amphora_id).state)
        self.assertEqual(1, self.cloud.count())

    def test_d2_a_build_that_goes_to_error_after_the_restart_fails_and_leaves_nothing(self):
        before = self.building(build_key='k', metadata={'noop:fault': 'error'})
        record = saved(before)
        error = self.settled_error(self.successor.recover(record))
        self.assertIsInstance(error, AmphoraBuildError)
        self.nothing_left()

    def test_a_stuck_build_misses_its_deadline_and_leaves_nothing(self):
        before = self.building(build_key='k', metadata={'noop:fault': 'stuck'}, timeout=60)
        after = self.successor.recover(saved(before))
        self.assertIsInstance(self.settled_error(after), BuildTimeout)
        self.nothing_left()

    def test_a_build_until_ready_continues_with_its_probe(self):
        before = self.building(build_key='k', until=Until.READY, probe=TcpProbe(9), timeout=60)
        error = self.settled_error(self.successor.recover(saved(before)))
        self.assertRegex(str(error), 'its probe never succeeded .*:9')

    def test_a_callers_own_probe_is_required_and_used(self):
        record = saved(self.building(build_key='k', until=Until.READY, probe=lambda _: False))
        with self.assertRaisesRegex(InvalidRequest, r'recover\(saved, probe='):
            self.successor.recover(record)
        heard, probed = [], []
        after = self.successor.recover(
            record, probe=lambda amphora: probed.append(amphora.id) or True, on_status=heard.append
        )
        self.assertEqual([self.settle(after)], probed)
        self.assertIn(State.ACTIVE, [status.state for status in heard])

    def test_a_build_until_accepted_is_done_when_it_is_found(self):
        before = self.building(build_key='k', until=Until.ACCEPTED)
        record = saved(before) | {'state': 'running'}
        after = self.successor.recover(record)
        self.assertEqual(before.amphora_id, self.settle(after))
        self.assertEqual(0, self.successor.builds_in_flight)

    def test_a_build_that_was_never_sent_reports_so_and_is_not_sent(self):
        record = saved(self.building(build_key='k')) | {'build_key': 'another'}
        error = self.settled_error(self.successor.recover(record))
        self.assertIs(Outcome.NOT_APPLIED, error.outcome)
        self.assertEqual('another', error.build_key)
        self.assertEqual(1, self.cloud.count())

    def test_a_build_cancelled_after_its_recovery_is_removed(self):
        after = self.successor.recover(saved(self.building(build_key='k')))
        self.until(lambda: after.amphora_id is not None)
        self.assertTrue(after.cancel())
        self.nothing_left()

    def test_a_machine_that_became_active_survives_a_failed_recovery(self):
        before = self.building(build_key='k')
        record = saved(before)
        amphora_id = self.settle(before)
        self.cloud.faults.add(Fault(call='status', action='refuse', times=500))
        for call in ('statuses', 'changes', 'list', 'get'):
            self.cloud.faults.add(Fault(call=call, action='refuse', times=500))
        error = self.settled_error(self.successor.recover(record | {'deadline': None}))
        self.assertIsInstance(error, AmphoraComputeError)
        self.cloud.faults.clear()
        self.clock.sleep(1000)
        self.assertIs(State.ACTIVE, self.machine(amphora_id).state)

    def test_a_delete_is_done_when_the_machine_is_gone(self):
        amphora_id = self.build()
        record = saved(self.compute.delete(amphora_id, wait=True))
        after = self.successor.recover(record)
        self.settle(after)
        with self.assertRaises(InstanceNotFoundError):
            self.machine(amphora_id)

    def test_an_accepted_reboot_is_awaited_and_not_sent_twice(self):
        self.cloud.reboot_s = 30
        amphora_id = self.build()
        before = self.compute.reboot(amphora_id, wait=True)
        self.until(lambda: 'accepted' in {event.name for event in before.events})
        # A second request would end in this error.
        self.cloud.faults.add(Fault(call='reboot', action='refuse', times=500))
        self.assertIsNone(self.settle(self.successor.recover(saved(before))))

    def test_a_reboot_without_an_answer_has_an_unknown_outcome(self):
        amphora_id = self.build()
        before = self.compute.reboot(amphora_id, wait=True)
        record = saved(before) | {'events': []}
        error = self.settled_error(self.successor.recover(record))
        self.assertIs(Outcome.UNKNOWN, error.outcome)
        self.assertIn('Check the status', str(error))

    def test_a_watch_continues_to_its_states(self):
        amphora_id = self.build()
        before = self.compute.watch(amphora_id, {State.SUSPENDED})
        after = self.successor.recover(saved(before))
        self.settle(self.compute.suspend(amphora_id))
        self.assertIs(State.SUSPENDED, self.settle(after).state)

    def test_a_look_up_returns_the_one_amphora(self):
        amphora_id = self.build(name='web')
        for before in (
            self.compute.get_amphora('web'),
            self.compute.get_amphora('web', amphora_id),
            self.compute.get_amphora(None, amphora_id),
        ):
            record = saved(before) | {'state': 'queued', 'error': None}
            self.assertEqual(amphora_id, self.settle(self.successor.recover(record)).id)

    def test_a_recovered_build_keeps_its_goal_for_the_next_restart(self):
        before = self.building(build_key='k', until=Until.READY, probe=TcpProbe(9))
        once = self.successor.recover(saved(before))
        self.assertEqual(saved(before)['goal'], saved(once)['goal'])

    def test_a_finished_operation_keeps_its_outcome(self):
        done, failed = self.compute.build(), self.compute.status('x')
        amphora_id = self.settle(done)
        self.settled_error(failed)
        self.assertEqual(amphora_id, self.successor.recover(saved(done)).result(0))
        error = self.successor.recover(saved(failed)).exception(0)
        self.assertIsInstance(error, InstanceNotFoundError)

    def test_an_expired_deadline_is_renewed_and_remaining_time_is_kept(self):
        record = saved(self.building(build_key='k', timeout=90))
        effect_s = self.settings.effect_timeout_s
        for deadline, left_s in ((-5, effect_s), (7, 7), (None, effect_s)):
            at = None if deadline is None else self.clock.time() + deadline
            after = self.successor.recover(record | {'deadline': at})
            self.assertAlmostEqual(left_s, after.deadline.remaining_s(), delta=1)
            after.cancel()

    def test_closing_during_a_recovered_build_advises_another_recovery(self):
        record = saved(self.building(build_key='k'))
        self.cloud.faults.add(Fault(call='find_build', action='refuse', times=50))
        after = self.successor.recover(record)
        self.successor.close(0.1)
        self.assertIsInstance(after.exception(0), OperationCancelled)
        self.assertIn('Recover the operation again', str(after.exception()))


class WrongRecords(RecoveryTest):
    def refused(self, record):
        with self.assertRaises(InvalidRequest) as raised:
            self.successor.recover(record)
        self.assertIs(Outcome.NOT_APPLIED, raised.exception.outcome)
        return str(raised.exception)

    def test_d5_the_record_of_another_backend_is_refused_and_nothing_is_built_twice(self):
        record = saved(self.building(build_key='k')) | {'backend': 'west'}
        self.assertIn("backend 'west'", self.refused(record))
        self.assertEqual(1, self.cloud.count())

    def test_each_wrong_field_is_named(self):
        record = saved(self.building(build_key='k'))
        for field, value in (
            ('id', 7), ('kind', 'follow'), ('kind', None), ('backend', ['noop']), ('subject', 1),
            ('state', 'asleep'), ('build_key', 5), ('build_key', None), ('amphora_id', {}),
            ('priority', 'high'), ('priority', 9), ('deadline', 'soon'),
            ('deadline', float('nan')), ('deadline', True), ('arguments', 'x'),
            ('goal', ['active']), ('events', {}), ('events', [7]), ('events', [{'at': 1}]),
            ('error', 'bad'), ('error', {'outcome': 'bad'}), ('error', {'message': 7}),
        ):  # fmt: skip
            with self.subTest(field=field, value=value):
                self.assertTrue(self.refused(record | {field: value}))

    def test_d5_a_value_that_is_not_a_record_is_refused(self):
        for record in (None, {}, [], 'k', {'kind': 'build'}):
            with self.subTest(record):
                self.assertRegex(self.refused(record), 'Cannot recover this: it ')

    def test_a_wrong_goal_is_refused(self):
        build = saved(self.building(build_key='k'))
        self.refused(build | {'goal': {'until': 'noon'}})
        self.refused(build | {'goal': {'until': 'ready', 'probe': {'kind': 'icmp'}}})
        watch = saved(self.compute.watch('x'))
        self.refused(watch | {'goal': {'states': ['asleep']}})
        self.refused(watch | {'goal': {}})
        self.refused(watch | {'goal': None})

    def test_d4_a_record_with_an_invalid_machine_is_refused_and_blocks_no_other_wait(self):
        amphora_id = self.build()
        records = [
            saved(self.compute.watch(amphora_id, {State.DELETED})),
            saved(self.compute.reboot(amphora_id, wait=True)),
        ]
        for record in records:
            for subject in ('', ' ', 'a\0', '\ud800', 'x' * 256):
                with self.subTest(record['kind'], subject=subject[:5]):
                    self.assertIn('subject', self.refused(record | {'subject': subject}))
        self.settle(self.successor.build(until=Until.ACTIVE))

    def test_arguments_of_another_call_are_refused(self):
        for kind, wrong in (
            ('status', [5]), ('status', [None]), ('status', [['x']]), ('delete', [[]]),
            ('statuses', ['x']), ('statuses', [[5]]), ('statuses', [['']]),
            ('delete_resource', ['x']),
        ):  # fmt: skip
            record = Errand(kind, backend='noop', subject='x').to_dict()
            with self.subTest(kind, arguments=wrong):
                self.refused(record | {'arguments': wrong})

    def test_a_resource_of_another_owner_is_not_deleted_by_a_record_of_its_deletion(self):
        theirs = {'kind': 'server_group', 'id': 'g-1', 'owner': 'somebody-else'}
        with self.assertRaisesRegex(InvalidRequest, 'not this site'):
            self.successor.delete_resource(Resource(**theirs))
        record = Errand('delete_resource', backend='noop').to_dict() | {'arguments': [theirs]}
        self.assertRegex(self.refused(record), '^Cannot recover this: .*not this site')

    def test_invalid_arguments_are_refused_and_open_no_circuit(self):
        for kind, wrong in (
            ('console_log', ['x', 'abc']), ('console_log', ['x', 0]), ('delete', ['../x\n']),
            ('status', ['']), ('status', ['x' * 256]), ('attach_port', ['x', '']),
            ('reboot', ['x', 'yes']), ('rebuild', ['x', '']), ('list', ['a b']),
            ('get', [5, None]), ('find', ['', None]), ('get', [None, None]),
            ('changes', [5]), ('reached', ['asleep', '']), ('find_build', [' k']),
            ('status', []), ('status', ['x', 'y']), ('check', ['x']),
        ):  # fmt: skip
            record = Errand(kind, backend='noop', subject='x').to_dict() | {'arguments': wrong}
            for _ in range(3):
                with self.subTest(kind, arguments=wrong):
                    self.assertRegex(self.refused(record), '^Cannot recover this: ')
        self.settle(self.successor.list_amphorae(), self.successor.build())
        self.assertEqual(set(), self.successor._stack.operations)

    def test_an_accepted_wait_with_invalid_arguments_is_refused_too(self):
        before = self.compute.reboot(self.build(), wait=True)
        record = saved(before) | {'arguments': [before.subject, 'yes']}
        self.assertIn('hard must be True or False', self.refused(record))

    def test_a_record_that_never_became_json_is_recovered_too(self):
        record = self.compute.check().to_dict() | {'state': 'queued', 'error': None}
        self.assertTrue(self.settle(self.successor.recover(record)).healthy)

    def test_a_record_of_a_successful_build_without_an_amphora_is_refused(self):
        done = self.compute.build(build_key='k')
        self.settle(done)
        for wrong in (None, '', ' '):
            with self.subTest(wrong):
                self.assertIn('amphora_id', self.refused(saved(done) | {'amphora_id': wrong}))

    def test_a_damaged_error_is_refused_by_the_name_of_its_field(self):
        failed = self.compute.status('x')
        self.settled_error(failed)
        record = saved(failed)
        for field, value in (
            ('message', {'a': 'b'}), ('message', 5), ('code', []), ('fault', {'a': 'b'}),
            ('advice', 'bad'), ('outcome', None), ('circuit', []), ('retryable', 'yes'),
            ('retry_after', float('nan')), ('http_status', '404'), ('build_key', 5),
        ):  # fmt: skip
            with self.subTest(field, value=value):
                said = self.refused(record | {'error': record['error'] | {field: value}})
                self.assertIn(f"its error's {field} is ", said)
                self.assertNotIn('object has no attribute', said)

    def test_a_refused_record_is_not_counted_as_in_progress(self):
        build = saved(self.building(build_key='k'))
        self.refused(build | {'goal': {'until': 'ready'}})
        self.refused(build | {'goal': {'until': 'noon'}})
        self.refused(Errand('status', backend='noop').to_dict() | {'arguments': [5]})
        self.successor.close(0.1)
        with self.assertRaises(OperationRejected):
            self.successor.recover(build)
        self.assertEqual(set(), self.successor._stack.operations)

    @given(
        field=st.sampled_from(sorted(Errand('status', backend='noop').to_dict())),
        value=st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.text(max_size=5), inner, max_size=3)
            ),
            max_leaves=4,
        ),
        kind=st.sampled_from(['build', 'delete', 'status', 'get', 'watch', 'attach_port']),
        state=st.sampled_from(['queued', 'failed', 'succeeded']),
    )
    def test_no_record_raises_an_untyped_error(self, field, value, kind, state):
        record = Errand(kind, backend='noop', subject='s', build_key='k').to_dict()
        try:
            operation = self.successor.recover(record | {'state': state, field: value})
        except AmphoraComputeError:
            return
        operation.cancel()
        self.assertIsInstance(operation.exception(0), AmphoraComputeError | None)


class SavedProbes(FacadeTest):
    def test_kilns_own_probes_are_restored_unchanged(self):
        for probe in (
            TcpProbe(22),
            TcpProbe(22, timeout_s=1.5),
            HttpProbe(80),
            HttpProbe(443, '/up', 2.0, {200, 204}, 'https'),
        ):
            kept = json.loads(json.dumps(saved_probe(probe)))
            restored = restored_probe(kept)
            self.assertEqual(saved_probe(probe), saved_probe(restored))
            self.assertIs(type(probe), type(restored))

    def test_other_probes_are_not_saved(self):
        class Odd:
            def __contains__(self, status):
                return status % 2

        for probe in (None, print, HttpProbe(80, statuses=Odd())):
            self.assertIsNone(saved_probe(probe))


class Failures(RecoveryTest):
    def test_an_error_is_restored_with_its_class(self):
        self.cloud.faults.add(Fault(call='build', action='quota'))
        failed = self.compute.build(build_key='k')
        self.settled_error(failed)
        self.assertIsInstance(self.successor.recover(saved(failed)).exception(0), QuotaExceeded)
