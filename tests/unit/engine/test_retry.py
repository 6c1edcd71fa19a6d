"""A failed operation that is retried continues where it stopped, under its id."""

from kiln.clusters.models import OperationKind, OperationState
from kiln.hooks.points import Point
from kiln.hooks.replies import Answer
from tests.unit.engine.cluster.test_reset import ResetSite, Watched
from tests.unit.engine.nodes.test_hook_gate import HookSite
from tests.unit.engine.site import WAIT_S, group


def retry(site, operation):
    """Retry an operation; return it as it is then."""
    reopened = site.store.operations.reopen(operation.id, deadline_at=site.clock.time() + WAIT_S)
    site.conductor.wake()
    return reopened


class Hooks(HookSite):
    def test_000_7_a_creation_is_resumed_at_the_hook_that_failed(self):
        answers = iter([Answer.failed('no service yet'), None])
        self.answers['post_create/b'] = lambda _: next(answers)
        self.hooked(
            self.hook(Point.PRE_CREATE), self.hook(Point.POST_CREATE),
            self.hook(Point.POST_CREATE, 'b'),
        )  # fmt: skip
        _, operation = self.create(group(2))
        self.failed(operation, 'post_create/b')
        before = self.machines()
        self.calls.clear()
        self.succeeded(retry(self, operation))
        self.assertEqual(['post_create/b'], self.called())
        self.assertEqual(2, self.calls[0]['attempt'])
        self.assertEqual(before.keys(), self.machines().keys())

    def test_a_hook_that_fails_again_fails_the_operation_again(self):
        self.answers['pre_create/a'] = Answer.failed('no address is left')
        self.hooked(self.hook(Point.PRE_CREATE))
        cluster, operation = self.create(group(1))
        self.failed(operation, 'no address is left')
        self.failed(retry(self, operation), 'no address is left')
        self.answers.clear()
        self.succeeded(retry(self, operation))
        self.assert_whole(cluster, 1)


class Nodes(HookSite):
    def test_pain_9_a_late_creation_continues_from_what_exists(self):
        self.fault('build:hang:seconds=2,times=1')
        cluster, operation = self.create(group(3), within_s=0.5)
        self.assertIs(OperationState.FAILED, self.ended(operation).state)
        there = {node.id for node in self.nodes(cluster)}
        self.succeeded(retry(self, operation))
        self.assert_whole(cluster, 3)
        self.assertLessEqual(there, {node.id for node in self.nodes(cluster, gone=True)})

    def test_a_cancelled_operation_can_be_retried(self):
        self.fault('build:hang:seconds=0.3')
        cluster, operation = self.create(group(2))
        self.until(lambda: self.states(cluster))
        self.store.operations.cancel(operation.id)
        self.conductor.wake()
        self.assertIs(OperationState.CANCELLED, self.ended(operation).state)
        self.succeeded(retry(self, operation))
        self.assert_whole(cluster, 2)


class Resets(ResetSite):
    def setUp(self):
        self.driver = Watched()
        super().setUp()

    def test_only_nodes_that_did_not_come_back_are_rebooted_again(self):
        cluster = self.created(group(2))
        well, sick = self.nodes(cluster)
        self.driver.sick.add(sick.id)
        operation = self.submit(cluster, OperationKind.REBOOT)
        self.assertIs(OperationState.FAILED, self.ended(operation).state)
        self.driver.sick.clear()
        rebooted_well = self.calls['soft', well.compute_id]
        self.succeeded(retry(self, operation))
        self.assert_whole(cluster, 2)
        self.assertEqual(2, self.calls['soft', sick.compute_id])
        self.assertLessEqual(self.calls['soft', well.compute_id] - rebooted_well, 1)
