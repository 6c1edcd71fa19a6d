import dataclasses
import json
import unittest

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kiln.clock import Deadline, current_deadline, deadline_scope
from kiln.compute_drivers.calls import Call
from kiln.exceptions import (
    AmphoraBuildError,
    AmphoraComputeError,
    BuildOutcomeUnknown,
    BuildTimeout,
    OperationCancelled,
    OperationRejected,
    Outcome,
    QuotaExceeded,
    ServiceUnavailable,
)
from kiln.models import Amphora, Resource, State
from kiln.wrappers.executor.settings import ExecutorSettings
from kiln.wrappers.operations.build_key import BuildKey
from kiln.wrappers.operations.errand import Errand
from kiln.wrappers.operations.operation import OperationState
from tests.unit.wrappers.scripted import Stage, StageCase, request


def hooks(stage):
    return [hook for hook, _ in stage.driver.sent]


class Stages(StageCase):
    """An operation whose call is only its first stage."""

    def operation(self, stage):
        deadline = Deadline.after(60, stage.clock)
        return Errand('build', backend='east', clock=stage.clock, deadline=deadline)

    def test_the_answer_is_handed_on_once_the_executor_has_let_the_operation_go(self):
        stage, accepted = self.stage(), []

        def continues(operation, answer):
            accepted.append((operation, answer))

        operation = self.operation(stage)
        stage.executor.submit(Call.BUILD, request(), operation=operation, accepted=continues)
        self.assertEqual([(operation, 'id-1')], accepted)
        self.assertFalse(operation.done())
        stage.clock.sleep(100)
        stage.executor.close(0)
        self.assertFalse(operation.done())
        self.assertEqual(stage.driver.keys(), ['key-1'])

    def test_an_operation_cancelled_during_its_call_is_not_continued_and_leaves_nothing(self):
        stage, accepted = self.stage(threads=True), []
        gate, inside = self.hung(stage, 'build')
        operation = self.operation(stage)
        stage.executor.submit(
            Call.BUILD, request(), operation=operation, accepted=lambda *one: accepted.append(one)
        )
        self.arrive(inside)
        operation.cancel()
        gate.set()
        stage.until(stage.idle)
        self.assertEqual(([], []), (accepted, stage.driver.keys()))

    def test_a_call_that_fails_ends_the_operation(self):
        stage, accepted = self.stage(build=['quota']), []
        operation = self.operation(stage)
        stage.executor.submit(
            Call.BUILD, request(), operation=operation, accepted=lambda *one: accepted.append(one)
        )
        self.assertIsInstance(operation.exception(0), QuotaExceeded)
        self.assertEqual([], accepted)


class Building(StageCase):
    def test_after_a_lost_answer_the_machine_is_looked_up_and_adopted(self):
        for word in ('lose', 'crash', 'exit'):
            with self.subTest(word):
                stage = self.stage(build=[word], find_build=['refuse'])
                operation = stage.settle(stage.executor.submit(Call.BUILD, request()))
                self.assertEqual(operation.result(), 'id-1')
                self.assertEqual(hooks(stage), ['build', 'find_build', 'find_build'])
                self.assertIn('adopted', [event.name for event in operation.events])
                self.assertEqual(stage.driver.keys(), ['key-1'])

    def test_it_is_sent_again_only_if_certainly_nothing_was_built(self):
        stage = self.stage(build=['vanish', 'vanish'])
        operation = stage.settle(stage.executor.submit(Call.BUILD, request()))
        self.assertEqual(operation.result(), 'id-1')
        self.assertEqual(hooks(stage), ['build', 'find_build'] * 2 + ['build'])

    def test_a_build_sent_twice_is_looked_up_again_later(self):
        stage = self.stage(build=['vanish'], find_build=['ok', 'refuse'])
        stage.settle(stage.executor.submit(Call.BUILD, request()))
        self.assertEqual(hooks(stage), ['build', 'find_build', 'build'])
        stage.until(stage.idle)
        self.assertEqual(hooks(stage), ['build', 'find_build', 'build'] + ['find_build'] * 3)
        self.assertEqual(stage.driver.keys(), ['key-1'])

    def test_a_build_sent_once_is_not_looked_up_again(self):
        stage = self.stage(build=['lose'])
        stage.settle(stage.executor.submit(Call.BUILD, request()))
        self.assertTrue(stage.idle())
        self.assertEqual(hooks(stage), ['build', 'find_build'])

    def test_a_pending_look_up_of_a_twin_does_not_delay_closing(self):
        stage = self.stage(build=['vanish'])
        stage.settle(stage.executor.submit(Call.BUILD, request()))
        self.assertFalse(stage.idle())
        stage.executor.close(0)
        self.assertTrue(stage.idle())

    def test_a_refusal_is_reported_and_leaves_nothing_to_remove(self):
        stage = self.stage(build=['quota'])
        operation = stage.executor.submit(Call.BUILD, request())
        self.assertIsInstance(operation.exception(0), QuotaExceeded)
        self.assertTrue(stage.idle())
        self.assertEqual(hooks(stage), ['build'])

    def test_at_the_deadline_an_uncertain_build_is_reported_and_removed(self):
        down = [ServiceUnavailable('down')] * 40
        stage = self.stage(build=['lose'], find_build=down)
        operation = stage.settle(stage.executor.submit(Call.BUILD, request(), timeout_s=20))
        error = operation.exception()
        self.assertIsInstance(error, BuildOutcomeUnknown)
        self.assertEqual(error.build_key, 'key-1')
        self.assertEqual(stage.driver.keys(), ['key-1'])
        stage.until(stage.idle)
        self.assertEqual(stage.driver.keys(), [])

    def test_an_accepted_build_that_failed_is_removed(self):
        stage = self.stage()
        stage.driver.scripts['build'] = [BuildTimeout('never came up', amphora_id='id-9')]
        stage.driver.instances['id-9'] = Amphora(
            id='id-9', name='it', state=State.ERROR, build_key='key-1', served=False
        )
        operation = stage.executor.submit(Call.BUILD, request())
        self.assertIsInstance(operation.exception(0), BuildTimeout)
        self.assertNotIn('id-9', stage.driver.instances)

    def test_a_hanging_build_is_given_up_and_its_late_machine_removed(self):
        stage = self.stage(threads=True)
        gate, inside = self.hung(stage, 'build')
        operation = stage.executor.submit(Call.BUILD, request(), timeout_s=5)
        self.arrive(inside)
        stage.settle(operation)
        self.assertIsInstance(operation.exception(), BuildOutcomeUnknown)
        self.assertEqual(hooks(stage), ['build'])
        gate.set()
        stage.until(stage.idle)
        self.assertEqual(hooks(stage), ['build', 'find_build', 'delete', 'find_build'])
        self.assertEqual(stage.driver.keys(), [])

    def test_a_hanging_build_that_made_nothing_is_not_looked_up(self):
        stage = self.stage(threads=True)
        gate, inside = stage.gate(), stage.gate()

        def refuse_late():
            inside.set()
            gate.wait(120)
            raise QuotaExceeded('no quota')

        stage.driver.scripts['build'] = [refuse_late]
        operation = stage.executor.submit(Call.BUILD, request(), timeout_s=5)
        self.assertTrue(inside.wait(120))
        stage.settle(operation)
        gate.set()
        stage.until(stage.idle)
        self.assertEqual(hooks(stage), ['build'])

    def test_a_build_cancelled_in_flight_ends_at_once_and_is_removed(self):
        stage = self.stage(threads=True)
        gate, inside = self.hung(stage, 'build')
        operation = stage.executor.submit(Call.BUILD, request())
        self.arrive(inside)
        self.assertTrue(operation.cancel())
        with self.assertRaises(OperationCancelled):
            operation.result(0)
        gate.set()
        stage.until(stage.idle)
        self.assertEqual(stage.driver.keys(), [])

    def test_a_late_machine_that_has_run_is_left_under_its_key(self):
        stage = self.stage(threads=True)
        stage.driver.born = State.ACTIVE
        gate, inside = self.hung(stage, 'build')
        operation = stage.executor.submit(Call.BUILD, request('k'), timeout_s=5)
        self.arrive(inside)
        stage.settle(operation)
        self.assertIsInstance(operation.exception(), BuildOutcomeUnknown)
        gate.set()
        stage.until(stage.idle)
        self.assertEqual(hooks(stage), ['build', 'find_build'])
        self.assertEqual(stage.driver.keys(), ['k'])

    def test_a_late_machine_with_a_private_key_is_removed_even_if_it_runs(self):
        stage = self.stage(threads=True)
        stage.driver.born = State.ACTIVE
        gate, inside = self.hung(stage, 'build')
        fresh = dataclasses.replace(request('k'), fresh=True)
        operation = stage.executor.submit(Call.BUILD, fresh)
        self.arrive(inside)
        operation.cancel()
        gate.set()
        stage.until(stage.idle)
        self.assertEqual(hooks(stage), ['build', 'delete', 'find_build'])
        self.assertEqual(stage.driver.keys(), [])


class OneAtATimeForEachKey(StageCase):
    def test_a_repeat_during_the_first_build_makes_no_second_machine(self):
        stage = self.stage(threads=True)
        gate, inside = self.hung(stage, 'build')
        first = stage.executor.submit(Call.BUILD, request('k'))
        self.arrive(inside)
        second = stage.executor.submit(Call.BUILD, request('k'))
        third = stage.executor.submit(Call.BUILD, request('k'))
        self.assertTrue(third.cancel())
        other = stage.executor.submit(Call.BUILD, request('other'))
        self.assertEqual(other.result(120), 'id-1')
        self.assertEqual(hooks(stage).count('build'), 2)
        self.assertIs(second.state, OperationState.QUEUED)
        gate.set()
        self.assertEqual((first.result(120), second.result(120)), ('id-2', 'id-3'))
        stage.until(stage.idle)
        self.assertEqual(hooks(stage).count('build'), 3)

    def test_a_build_repeated_after_a_hang_is_not_removed_with_the_first(self):
        stage = self.stage(threads=True)
        gate, inside = self.hung(stage, 'build')
        first = stage.executor.submit(Call.BUILD, request('k'), timeout_s=5)
        self.arrive(inside)
        stage.settle(first)
        second = stage.executor.submit(Call.BUILD, request('k'), timeout_s=500)
        gate.set()
        self.assertEqual(stage.settle(second).result(), 'id-2')
        stage.until(stage.idle)
        self.assertEqual(list(stage.driver.instances), ['id-2'])

    def test_a_build_waits_until_the_one_before_it_is_removed(self):
        stage = self.stage(threads=True, delete=['refuse'] * 3)
        gate, inside = self.hung(stage, 'build')
        first = stage.executor.submit(Call.BUILD, request('k'))
        self.arrive(inside)
        first.cancel()
        second = stage.executor.submit(Call.BUILD, request('k'))
        gate.set()
        self.assertEqual(stage.settle(second).result(), 'id-2')
        self.assertEqual(list(stage.driver.instances), ['id-2'])
        looked_first = ['find_build', 'delete'] * 4
        self.assertEqual(hooks(stage), ['build', *looked_first, 'find_build', 'build'])

    def test_a_requested_removal_waits_for_the_build_and_is_shared(self):
        stage = self.stage(threads=True)
        gate, inside = self.hung(stage, 'build')
        stage.executor.submit(Call.BUILD, request('k'))
        self.arrive(inside)
        discard = stage.executor.discard_build(BuildKey('k'), None)
        self.assertIs(stage.executor.discard_build(BuildKey('k'), None), discard)
        gate.set()
        self.assertIsNone(stage.settle(discard).result())
        self.assertEqual(stage.driver.instances, {})
        again = stage.executor.discard_build(BuildKey('k'), None)
        self.assertIsNot(again, discard)


class Discarding(StageCase):
    def test_a_removal_continues_through_an_outage(self):
        down = [ServiceUnavailable('down')] * 6
        stage = self.stage(delete=list(down), find_build=list(down))
        stage.executor.submit(Call.BUILD, request('k')).result()
        discard = stage.settle(stage.executor.discard_build(BuildKey('k'), 'id-1'))
        self.assertIsNone(discard.result())
        self.assertEqual(stage.driver.instances, {})

    def test_a_removal_has_its_own_time_limit(self):
        stage, seen = self.stage(), []
        stage.driver.scripts['find_build'] = [lambda: seen.append(current_deadline().at)]
        with deadline_scope(Deadline.after(1, stage.clock)):
            discard = stage.executor.discard_build(BuildKey('k'), None)
        self.assertEqual([discard.deadline.at - 0.3], seen)

    def test_a_late_machine_is_found_by_the_second_look_up(self):
        stage = self.stage()
        discard = stage.executor.discard_build(BuildKey('k'), None)
        self.assertFalse(discard.done())
        stage.driver._made(request('k'))
        stage.settle(discard)
        self.assertEqual(stage.driver.instances, {})

    def test_after_its_time_limit_one_error_names_a_possible_leftover(self):
        options = ExecutorSettings(max_workers=3, cleanup_timeout_s=60)
        stage = self.stage(settings=options, delete=[ServiceUnavailable('down')] * 99)
        stage.driver._made(request('k'))
        with self.assertLogs('kiln.wrappers.executor.executor', 'ERROR') as logs:
            discard = stage.settle(stage.executor.discard_build(BuildKey('k'), 'id-1'))
        self.assertEqual(len(logs.output), 1)
        for word in ('build k', 'id-1', 'down'):
            self.assertIn(word, logs.output[0])
        self.assertEqual(discard.exception().build_key, 'k')

    def test_closing_waits_for_a_removal_but_not_for_a_last_look_up(self):
        stage = self.stage(threads=True)
        gate, inside = self.hung(stage, 'build')
        build = stage.executor.submit(Call.BUILD, request('k'))
        self.arrive(inside)
        looked = stage.executor.discard_build(BuildKey('nothing'), None)
        stage.until(lambda: 'find_build' in hooks(stage))
        build.cancel()
        gate.set()
        stage.executor.close(10)
        self.assertTrue(looked.done())
        self.assertEqual(stage.driver.instances, {})

    def test_a_machine_that_arrives_after_closing_is_logged_by_its_key(self):
        stage = self.stage(threads=True)
        gate, inside = self.hung(stage, 'build')
        stage.executor.submit(Call.BUILD, request('k'))
        self.arrive(inside)
        stage.executor.close(0.01)
        with self.assertLogs('kiln.wrappers.executor.executor', 'ERROR') as logs:
            gate.set()
            stage.until(stage.idle)
        self.assertIn('build k', logs.output[0])
        self.assertIn('id-1', logs.output[0])

    def test_a_removal_cut_off_by_closing_is_logged(self):
        stage = self.stage(delete=[ServiceUnavailable('down')] * 99)
        stage.driver._made(request('k'))
        discard = stage.executor.discard_build(BuildKey('k'), 'id-1')
        with self.assertLogs('kiln.wrappers.executor.executor', 'ERROR'):
            stage.executor.close(0.01)
        self.assertTrue(discard.done())


class Recovering(StageCase):
    def saved(self, kind, **facts):
        saved = Errand(
            kind, backend='east', clock=self.stage_.clock, subject='id-1', build_key=None
        ).to_dict()
        return Errand.from_dict(json.loads(json.dumps(saved | facts)), clock=self.stage_.clock)

    def setUp(self):
        self.stage_ = self.stage()

    def recover(self, kind, **facts):
        operation = self.stage_.executor.recover(self.saved(kind, **facts))
        return self.stage_.settle(operation)

    def test_a_build_that_was_made_is_found_and_never_sent(self):
        self.stage_.driver._made(request('k'))
        self.stage_.driver.scripts['find_build'] = ['refuse']
        operation = self.recover('build', build_key='k')
        self.assertEqual(operation.result(), 'id-1')
        self.assertEqual(set(hooks(self.stage_)), {'find_build'})

    def test_a_build_that_is_not_found_is_reported(self):
        error = self.recover('build', build_key='k').exception()
        self.assertIsInstance(error, AmphoraBuildError)
        self.assertIs(error.outcome, Outcome.NOT_APPLIED)

    def test_a_build_that_cannot_be_found_in_time_is_left_alone(self):
        self.stage_.driver._made(request('k'))
        self.stage_.driver.scripts['find_build'] = [ServiceUnavailable('down')] * 99
        operation = self.recover('build', build_key='k')
        self.assertIsInstance(operation.exception(), BuildOutcomeUnknown)
        self.assertTrue(self.stage_.idle())
        self.assertEqual(self.stage_.driver.keys(), ['k'])

    def test_a_cancelled_recovery_removes_the_build(self):
        self.stage_.driver._made(request('k'))
        self.stage_.driver.scripts['find_build'] = ['refuse']
        operation = self.stage_.executor.recover(self.saved('build', build_key='k'))
        operation.cancel()
        self.stage_.until(self.stage_.idle)
        self.assertEqual(self.stage_.driver.keys(), [])

    def test_closing_during_a_recovery_removes_nothing(self):
        self.stage_.driver._made(request('k'))
        self.stage_.driver.scripts['find_build'] = ['refuse']
        operation = self.stage_.executor.recover(self.saved('build', build_key='k'))
        self.stage_.executor.close(0.1)
        self.assertIsInstance(operation.exception(0), OperationCancelled)
        self.assertIn('Recover', str(operation.exception()))
        self.assertEqual(self.stage_.driver.keys(), ['k'])

    def test_a_call_that_is_safe_to_repeat_is_sent_again(self):
        self.assertIsNone(self.recover('delete').result())
        attached = self.recover('attach_port', arguments=['id-1', 'port-1'])
        self.assertEqual(attached.result(), 'attached')
        port = Resource(kind='port', id='p', owner='kiln')
        self.recover('statuses', arguments=[['id-1']])
        before = Errand('delete_resource', backend='east', clock=self.stage_.clock)
        before.arguments = (port,)
        self.recover('delete_resource', arguments=before.to_dict()['arguments'])
        self.assertEqual(
            self.stage_.driver.sent,
            [
                ('delete', 'id-1'),
                ('attach_port', ('id-1', 'port-1')),
                ('list', 'kiln'),
                ('get', 'id-1'),
                ('delete_resource', port),
            ],
        )

    def test_any_other_call_has_an_unknown_outcome(self):
        for kind, facts in (
            ('suspend', {}), ('attach_port', {}), ('check', {}), ('follow', {}), ('build', {}),
        ):  # fmt: skip
            with self.subTest(kind):
                error = self.recover(kind, **facts).exception()
                self.assertIs(type(error), AmphoraComputeError)
                self.assertIs(error.outcome, Outcome.UNKNOWN)
                self.assertIn('Check the status', str(error))
        self.assertEqual(self.stage_.driver.sent, [])

    def test_after_closing_nothing_is_recovered(self):
        self.stage_.executor.close(0)
        with self.assertRaises(OperationRejected):
            self.stage_.executor.recover(self.saved('delete'))


WORDS = ['refuse', 'lose', 'vanish', 'crash', 'exit', 'quota', 'hang', 'hang_late', None]


class Storm(unittest.TestCase):
    def script(self, stage, **scripts):
        def late(error):
            def hang():
                stage.clock.sleep(70)
                if error:
                    raise error('hung, then fell')

            return hang

        meanings = {'hang': late(None), 'hang_late': late(BuildOutcomeUnknown)}
        for hook, words in scripts.items():
            stage.driver.scripts[hook] = [meanings.get(word, word) for word in words]

    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(
        builds=st.lists(st.sampled_from(WORDS), max_size=30),
        looks=st.lists(st.sampled_from(['refuse', 'vanish', 'crash', 'hang', None]), max_size=20),
        deletes=st.lists(st.sampled_from(['refuse', 'lose', 'crash', 'hang', None]), max_size=20),
        keys=st.lists(st.integers(0, 9), min_size=1, max_size=14),
        cancelled=st.sets(st.integers(0, 13), max_size=4),
    )
    def test_the_machines_are_the_successful_builds(self, builds, looks, deletes, keys, cancelled):
        options = ExecutorSettings(
            max_workers=5, timeout_s=30, cleanup_timeout_s=10_000, max_delay_s=5
        )
        with Stage(threads=True, settings=options) as stage:
            self.script(stage, build=builds, find_build=looks, delete=deletes)
            operations = {}
            for number, key in enumerate(keys):
                # A key is asked for again only where the build before it failed.
                before = operations.get(key)
                if before is not None:
                    stage.settle(before)
                if before is None or before.exception() is not None:
                    operations[key] = stage.executor.submit(Call.BUILD, request(f'k{key}'))
                    if number in cancelled:
                        operations[key].cancel()
            for operation in operations.values():
                stage.settle(operation)
            stage.until(stage.idle)
            wanted = {
                operation.result(): operation.build_key
                for operation in operations.values()
                if operation.exception() is None
            }
            there = {id_: each.build_key for id_, each in stage.driver.instances.items()}
            self.assertEqual(there, wanted)
