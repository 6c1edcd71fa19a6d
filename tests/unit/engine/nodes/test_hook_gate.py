"""Hooks of an operation: where it waits for them, and the effect of their answers."""

import collections
import dataclasses
import threading

from kiln.cluster_drivers.values import READY
from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.models import Event, NodeState, OperationKind, OperationState, StepState
from kiln.engine.conductor import Conductor
from kiln.hooks.hook import Hook, Plugin
from kiln.hooks.points import OnFailure, Point
from kiln.hooks.registry import Hooks
from kiln.hooks.replies import Answer
from kiln.hooks.run import SKIP_EVENT
from tests.unit.db.case import take_over
from tests.unit.engine.site import Plain, Site, group


class HookSite(Site):
    """Has ``calls``: what was called with what; and ``answers``, by POINT/NAME."""

    def setUp(self):
        super().setUp()
        self.calls = []
        self.answers = {}

    def hooked(self, *hooks):
        """Replace the conductor without hooks by one that has some."""
        self.conductor.close()
        hooks = Hooks(hooks, clock=self.clock)
        self.addCleanup(hooks.close)
        self.parts = dataclasses.replace(self.parts, hooks=hooks)
        self.conductor = Conductor(self.parts)
        self.addCleanup(self.conductor.close)
        self.conductor.start()

    def hook(self, point, name='a', **more):
        def function(document):
            self.calls.append(document)
            answer = self.answers.get(f'{document["point"]}/{document["hook"]}')
            return answer(document) if callable(answer) else answer

        return Hook(name=name, point=point, target=Plugin(function), **more)

    def called(self):
        return [f'{one["point"]}/{one["hook"]}' for one in self.calls]

    def failed(self, operation, *words):
        ended = self.ended(operation)
        self.assertIs(OperationState.FAILED, ended.state)
        for word in words:
            self.assertIn(word, ended.cause.message)
        return ended.cause

    def waits(self, operation, word):
        def so():
            there = self.store.operations.get(operation.id)
            return there.state is OperationState.WAITING and word in there.cause.message

        self.until(so)

    def skip(self, operation, name):
        self.store.events.add(
            Event(
                cluster_id=operation.cluster_id, kind=SKIP_EVENT, message='', at=0.0,
                operation_id=operation.id, facts={'hook': name, 'reason': 'it is known'},
            )
        )  # fmt: skip

    def events(self, cluster):
        return [one.kind for one in self.store.events.after(cluster_id=cluster.id)]


class Creating(HookSite):
    def test_000_7_hooks_are_called_before_the_first_build_and_after_the_last(self):
        there = []
        self.answers = dict.fromkeys(
            ('pre_create/a', 'post_create/a'),
            lambda document: there.append(len(self.machines())),
        )
        self.hooked(self.hook(Point.PRE_CREATE), self.hook(Point.POST_CREATE))
        self.created(group(2))
        self.assertEqual(['pre_create/a', 'post_create/a'], self.called())
        self.assertEqual([0, 2], there)
        self.assertEqual('succeeded', self.calls[1]['outcome'])

    def test_a_hook_that_fails_before_a_creation_leaves_nothing_to_clean_up(self):
        self.answers['pre_create/b'] = Answer.failed('no address is left')
        self.hooked(
            self.hook(Point.PRE_CREATE), self.hook(Point.PRE_CREATE, 'b'),
            self.hook(Point.POST_CREATE), self.hook(Point.POST_CREATE, 'b'),
        )  # fmt: skip
        cluster, operation = self.create(group(2))
        self.failed(operation, 'pre_create/b', 'no address is left')
        self.assertEqual(({}, []), (self.machines(), self.nodes(cluster, gone=True)))
        # A hook that had succeeded is notified that the operation failed.
        self.assertEqual(['pre_create/a', 'pre_create/b', 'post_create/a'], self.called())
        self.assertEqual('failed', self.calls[2]['outcome'])
        self.assertIn('hook-failed', self.events(cluster))

    def test_a_hook_that_fails_after_a_creation_leaves_the_cluster(self):
        self.answers['post_create/a'] = Answer.failed('the check found no service')
        self.hooked(self.hook(Point.POST_CREATE))
        cluster, operation = self.create(group(2))
        self.failed(operation, 'post_create/a')
        self.assert_whole(cluster, 2)

    def test_22_the_hook_that_holds_it_up_is_reported_at_once(self):
        answers = iter([Answer.later('the rack is locked', 1.0), None])
        self.answers['pre_create/a'] = lambda _: next(answers)
        self.hooked(self.hook(Point.PRE_CREATE))
        cluster, operation = self.create(group(1))
        self.waits(operation, 'the rack is locked')
        self.assertEqual({}, self.machines())
        self.succeeded(operation)
        self.assertIn('hook-blocked', self.events(cluster))
        keys = {one['invocation'] for one in self.calls}
        self.assertEqual((1, [1, 2]), (len(keys), [one['attempt'] for one in self.calls]))

    def test_each_hook_is_a_step_of_the_operation(self):
        self.hooked(self.hook(Point.PRE_CREATE))
        _, operation = self.create(group(1))
        self.succeeded(operation)
        (step,) = [one for one in self.store.journal.of(operation.id) if one.kind == 'hook']
        self.assertEqual((self.calls[0]['invocation'], StepState.DONE), (step.token, step.state))

    def test_the_first_control_node_calls_its_hook_and_nothing_waits_for_it(self):
        go_on = threading.Event()
        self.addCleanup(go_on.set)
        self.answers['post_control_plane/a'] = lambda _: go_on.wait(120) and None
        self.hooked(self.hook(Point.POST_CONTROL_PLANE), self.hook(Point.POST_CREATE))
        cluster, operation = self.create(group(2, 'control', role='control'), group(2))
        self.until(lambda: self.states(cluster) == {NodeState.READY: 4})
        # Only the end of the hook is: otherwise a crash would lose it.
        self.waits(operation, 'post_control_plane/a')
        self.assertEqual(['post_control_plane/a'], self.called())
        go_on.set()
        self.succeeded(operation)
        self.assertEqual(['post_control_plane/a', 'post_create/a'], self.called())

    def test_a_hook_for_other_clusters_is_not_called(self):
        self.hooked(self.hook(Point.PRE_CREATE, clusters=('db',)))
        self.created(group(1))
        self.assertEqual([], self.calls)


class Changing(HookSite):
    def test_000_7_every_change_has_its_hook_points(self):
        self.hooked(self.hook(Point.PRE_UPDATE), self.hook(Point.POST_UPDATE))
        cluster = self.created(group(1))
        self.succeeded(self.change(cluster, group(2), kind=OperationKind.RESIZE))
        self.assertEqual(['pre_update/a', 'post_update/a'], self.called())
        self.assertEqual({'resize'}, {one['operation']['kind'] for one in self.calls})

    def test_a_hook_that_fails_before_a_change_prevents_it(self):
        self.answers['pre_update/a'] = Answer.failed('a backup runs')
        self.hooked(self.hook(Point.PRE_UPDATE))
        cluster = self.created(group(1))
        self.failed(self.change(cluster, group(2)), 'a backup runs')
        self.assert_whole(cluster, 1)
        # And the next operation is not blocked.
        self.answers.clear()
        self.succeeded(self.change(cluster, group(3)))

    def test_a_hook_that_fails_after_a_change_is_only_reported(self):
        self.answers['post_update/a'] = Answer.failed('nobody listens')
        self.hooked(self.hook(Point.POST_UPDATE))
        cluster = self.created(group(1))
        self.succeeded(self.change(cluster, group(2)))
        self.assertIn('hook-passed-over', self.events(cluster))


class Resetting(HookSite):
    def test_000_7_a_reboot_has_the_hook_points_of_every_change(self):
        self.hooked(
            self.hook(Point.PRE_UPDATE), self.hook(Point.POST_UPDATE),
            self.hook(Point.POST_NODE_READY),
        )  # fmt: skip
        cluster = self.created(group(1))
        self.calls.clear()
        self.succeeded(self.submit(cluster, OperationKind.REBOOT))
        self.assertEqual(['pre_update/a', 'post_node_ready/a', 'post_update/a'], self.called())
        self.assert_whole(cluster, 1)

    def test_a_failed_reboot_does_not_call_the_hooks_after_it(self):
        self.hooked(self.hook(Point.POST_UPDATE))
        cluster = self.created(group(1))
        operation = self.submit(cluster, OperationKind.REBOOT, nodes=('no such node',))
        self.failed(operation, 'no such node')
        self.assertEqual([], self.calls)


class OfNodes(HookSite):
    def test_000_7_each_node_has_its_hook_points(self):
        self.hooked(*(self.hook(point) for point in Point if point.per_node))
        cluster = self.created(group(2))
        names = {one.id: one.name for one in self.nodes(cluster)}
        self.succeeded(self.submit(cluster, OperationKind.DELETE))
        found = collections.defaultdict(list)
        for one in self.calls:
            found[one['node']['name']].append(one['point'])
        life = ['pre_node_build', 'post_node_ready', 'pre_node_delete', 'pre_node_terminate']
        self.assertEqual(dict.fromkeys(names.values(), life), dict(found))

    def test_hook_documents_have_the_node_as_far_as_it_is_known(self):
        self.hooked(self.hook(Point.PRE_NODE_BUILD), self.hook(Point.POST_NODE_READY))
        self.created(group(1))
        before, after = self.calls
        self.assertIs(None, before['node']['compute_id'])
        self.assertIn(after['node']['compute_id'], self.machines())

    def test_a_node_whose_build_is_refused_fails_and_others_continue(self):
        first = []

        def answer(document):
            first.append(document['node']['id'])
            return Answer.failed('no address') if document['node']['id'] == first[0] else None

        self.answers['pre_node_build/a'] = answer
        self.hooked(self.hook(Point.PRE_NODE_BUILD))
        cluster, _ = self.create(group(3))
        self.until(lambda: self.states(cluster)[NodeState.READY] == 3)
        refused = next(one for one in self.nodes(cluster, gone=True) if one.id == first[0])
        self.assertIs(None, refused.compute_id)

    def test_a_node_counts_as_ready_once_its_hooks_pass(self):
        answers = iter([Answer.later('no monitoring yet', 1.0), None])
        self.answers['post_node_ready/a'] = lambda _: next(answers)
        self.hooked(self.hook(Point.POST_NODE_READY))
        cluster, operation = self.create(group(1))
        self.waits(operation, 'no monitoring yet')
        self.assertEqual({NodeState.JOINING: 1}, self.states(cluster))
        self.succeeded(operation)
        self.assertEqual(2, len(self.calls))

    def test_a_node_that_fails_its_hook_fails(self):
        self.answers['post_node_ready/a'] = Answer.failed('no monitoring')
        self.hooked(self.hook(Point.POST_NODE_READY))
        cluster, operation = self.create(group(1))
        # Like any node that failed, it is replaced by another one.
        self.until(lambda: self.events(cluster).count('node-failed') > 1)
        self.store.operations.cancel(operation.id)
        self.ended(operation)

    def test_22_a_node_held_by_a_hook_stays_until_the_hook_is_skipped(self):
        self.answers['pre_node_terminate/a'] = Answer.failed('it holds the only copy')
        self.hooked(self.hook(Point.PRE_NODE_TERMINATE, on_failure=OnFailure.FAIL))
        cluster = self.created(group(2))
        operation = self.change(cluster, group(1), kind=OperationKind.RESIZE)
        self.waits(operation, 'it holds the only copy')
        self.assertEqual(2, len(self.machines()))
        self.skip(operation, 'a')
        self.succeeded(operation)
        self.assert_whole(cluster, 1)
        self.assertIn('hook-skipped', self.events(cluster))


class Deleting(HookSite):
    def test_22_a_hook_that_fails_holds_deletion_up_to_its_deadline_only(self):
        self.answers['pre_delete/a'] = Answer.failed('the backup is not done')
        self.hooked(self.hook(Point.PRE_DELETE, deadline_s=1.0, backoff_s=1.0))
        cluster = self.created(group(1))
        operation = self.submit(cluster, OperationKind.DELETE)
        self.waits(operation, 'the backup is not done')
        self.assert_whole(cluster, 1)
        self.succeeded(operation)
        self.assertEqual({}, self.machines())
        self.assertIn('hook-passed-over', self.events(cluster))

    def test_000_7_the_hook_after_a_deletion_can_still_read_the_cluster(self):
        seen = []
        self.answers['post_delete/a'] = lambda document: seen.append(
            (self.store.clusters.get(document['cluster']['id']).name, len(self.machines()))
        )
        self.hooked(self.hook(Point.POST_DELETE))
        cluster = self.created(group(2))
        self.succeeded(self.submit(cluster, OperationKind.DELETE))
        self.assertEqual([('web', 0)], seen)

    def test_a_skipped_hook_is_not_waited_for(self):
        self.answers['pre_delete/a'] = Answer.later('never', 300.0)
        self.hooked(self.hook(Point.PRE_DELETE))
        cluster = self.created(group(1))
        operation = self.submit(cluster, OperationKind.DELETE)
        self.waits(operation, 'never')
        self.skip(operation, 'pre_delete/a')
        self.succeeded(operation)
        self.assertEqual(1, len(self.calls))


class TakenOver(HookSite):
    def test_b6_a_new_owner_repeats_only_the_hook_calls_under_way(self):
        stuck = threading.Event()
        self.addCleanup(stuck.set)
        self.answers['pre_create/b'] = lambda _: stuck.wait(120) and None
        hooks = [self.hook(Point.PRE_CREATE), self.hook(Point.PRE_CREATE, 'b')]
        self.hooked(*hooks)
        _, operation = self.create(group(1))
        self.until(lambda: len(self.calls) == 2)
        self.answers.clear()
        self.hooked(*hooks)
        self.succeeded(operation)
        self.assertEqual(['pre_create/a', 'pre_create/b', 'pre_create/b'], self.called())
        self.assertEqual(self.calls[1]['invocation'], self.calls[2]['invocation'])

    def test_an_earlier_skip_is_kept(self):
        hooks = [self.hook(Point.PRE_CREATE)]
        self.hooked(*hooks)
        self.conductor.close()
        _, operation = self.create(group(1))
        self.skip(operation, 'a')
        self.hooked(*hooks)
        self.succeeded(operation)
        self.assertEqual([], self.calls)


class Between(HookSite):
    """What is learned after the operation has ended."""

    def test_an_answer_after_the_end_of_its_operation_changes_nothing(self):
        stuck = threading.Event()
        self.addCleanup(stuck.set)
        cluster = self.created(group(1))
        self.answers['pre_update/a'] = lambda _: stuck.wait(120) and Answer.failed('too late')
        self.hooked(self.hook(Point.PRE_UPDATE))
        first = self.change(cluster, group(2))
        self.until(lambda: self.calls)
        self.store.operations.cancel(first.id)
        self.ended(first)
        self.answers['pre_update/a'] = Answer.later('wait', 1.0)
        second = self.change(cluster, group(2))
        self.waits(second, 'wait')
        stuck.set()
        self.answers.clear()
        self.succeeded(second)
        self.assertNotIn('hook-failed', self.events(cluster))

    def test_a_build_that_was_sent_is_past_the_hooks_before_it(self):
        cluster = self.created(group(1))
        self.conductor.close()
        node = dataclasses.replace(self.nodes(cluster)[0], state=NodeState.BUILDING)
        lease = take_over(self.store, cluster.id, 'somebody', 0.01)
        with self.store.writing(lease) as batch:
            batch.node(node)
        self.hooked(self.hook(Point.PRE_NODE_BUILD), self.hook(Point.POST_NODE_READY))
        self.succeeded(self.submit(cluster, OperationKind.UPDATE))
        self.assertEqual(['post_node_ready/a'], self.called())
        self.assert_whole(cluster, 1)


class Slow(Plain):
    """A driver that takes its time to report that a node is ready."""

    def __init__(self):
        self.go_on = threading.Event()
        self.asked = threading.Event()

    def is_ready(self, context, cluster, node):
        self.asked.set()
        self.go_on.wait(120)
        return READY


class AfterAll(HookSite):
    def setUp(self):
        self.driver = Slow()
        super().setUp()
        self.addCleanup(self.driver.go_on.set)

    def test_a_node_that_is_ready_after_the_operation_waits_for_the_next_one(self):
        self.hooked(self.hook(Point.POST_NODE_READY))
        cluster, operation = self.create(group(1))
        self.driver.asked.wait(120)
        self.store.operations.cancel(operation.id)
        self.ended(operation)
        self.driver.go_on.set()
        self.until(lambda: self.nodes(cluster)[0].cause is not None)
        self.assertEqual(({NodeState.JOINING: 1}, []), (self.states(cluster), self.calls))
        self.succeeded(self.submit(cluster, OperationKind.UPDATE))
        self.assertEqual(['post_node_ready/a'], self.called())


class Careful(Plain):
    """A driver that has something to do before and after."""

    def __init__(self):
        self.called = []
        self.error = None

    def _call(self, name, context, cluster, operation):
        self.called.append((name, operation.kind.value, len(context.nodes)))
        error, self.error = self.error, None
        if error is not None:
            raise error

    def pre_create_cluster(self, context, cluster, operation):
        self._call('pre_create', context, cluster, operation)

    def post_create_cluster(self, context, cluster, operation):
        self._call('post_create', context, cluster, operation)

    def pre_update_cluster(self, context, cluster, operation):
        self._call('pre_update', context, cluster, operation)

    def post_delete_cluster(self, context, cluster, operation):
        self._call('post_delete', context, cluster, operation)


class OfTheDriver(HookSite):
    def setUp(self):
        self.driver = Careful()
        super().setUp()

    def test_000_7_the_drivers_methods_run_inside_all_hooks(self):
        for point in (Point.PRE_CREATE, Point.POST_CREATE):
            self.answers[f'{point.value}/a'] = lambda document: self.driver.called.append(
                document['point']
            )
        self.hooked(
            self.hook(Point.PRE_CREATE, order=999), self.hook(Point.POST_CREATE, order=999)
        )
        cluster = self.created(group(2))
        self.assertEqual(
            ['pre_create', ('pre_create', 'create', 0), ('post_create', 'create', 2),
             'post_create'],
            self.driver.called,
        )  # fmt: skip
        self.succeeded(self.change(cluster, group(1), kind=OperationKind.RESIZE))
        self.succeeded(self.submit(cluster, OperationKind.DELETE))
        self.assertEqual(
            [('pre_update', 'resize', 2), ('post_delete', 'delete', 0)], self.driver.called[4:]
        )

    def test_an_error_of_the_drivers_method_fails_the_operation(self):
        self.driver.error = ClusterDriverError('The network is missing.', 'Make one.')
        _, operation = self.create(group(1))
        self.failed(operation, 'pre_create/driver', 'The network is missing. Make one.')
        self.assertEqual({}, self.machines())

    def test_a_retryable_error_of_the_drivers_method_only_holds_it_up(self):
        self.driver.error = ClusterDriverError('The network is made.', retryable=True)
        _, operation = self.create(group(1))
        self.waits(operation, 'The network is made.')
        self.skip(operation, 'driver')
        self.succeeded(operation)
