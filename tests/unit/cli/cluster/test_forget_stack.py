"""Tests of ``kiln cluster forget-stack``, on a Heat that is played."""

import json

from kiln.cli.exit_codes import ExitCode
from kiln.cluster_drivers.heat.names import tags
from tests.unit.cli.cluster.test_adopt_stack import MachineShell
from tests.unit.cluster_drivers.heat.made import cluster_of
from tests.unit.cluster_drivers.heat.test_adoption import FILE, NAME


class ForgetStack(MachineShell):
    """The servers of the stack are nodes of the cluster of its name."""

    def setUp(self):
        super().setUp()
        self.ok(*self.adopt('--yes', text=self.described()))
        self.heat.requests.clear()

    def forget(self):
        return ('cluster', 'forget-stack', NAME, NAME)

    def policies(self):
        """Return the policy of each resource of each template that the stack has."""
        stack = self.heat.gone.get(self.stack['id'], self.stack)
        templates = [stack['template'], *map(json.loads, stack['files'].values())]
        return {
            name: one.get('deletion_policy')
            for template in templates for name, one in template['resources'].items()
        }  # fmt: skip

    def test_the_stack_is_deleted_once_nothing_is_deleted_with_it(self):
        self.ok(*self.forget())
        self.assertIn('its servers are as they were', self.err)
        self.assertEqual({}, self.heat.stacks)
        self.assertEqual(['PATCH', 'PATCH', 'DELETE'], self.changes, 'the first is a preview')
        self.assertEqual(
            {'kube_masters': None, 'kube_minions': None, 'port': 'Retain', 'server': 'Retain'},
            self.policies(),
        )
        self.assertEqual({'ready'}, {one['state'] for one in self.json('node', 'list', NAME)})

    def test_heat_has_as_long_for_the_update_as_kiln_waits_whatever_the_stack_was_made_with(self):
        self.stack['timeout_mins'] = 2
        self.ok(*self.forget())
        self.assertEqual(30, self.heat.gone[self.stack['id']]['timeout_mins'])

    def test_after_an_interruption_the_update_is_not_repeated(self):
        self.heat.fail('the engine was killed')
        self.fails(ExitCode.UNFORESEEN, *self.forget())
        self.stack.update(action='UPDATE', status='COMPLETE')
        self.heat.requests.clear()
        self.ok(*self.forget())
        self.assertEqual(['DELETE'], self.changes)

    def test_an_update_that_heat_drops_deletes_nothing(self):
        self.heat.drops = True
        said = self.fails(ExitCode.UNFORESEEN, *self.forget())
        self.assertIn('it would delete kube_masters.0.server', said)
        self.assertNotIn('DELETE', self.changes)

    def test_an_update_that_fails_deletes_nothing(self):
        self.heat.fail('no room')
        said = self.fails(ExitCode.UNFORESEEN, *self.forget())
        self.assertIn('after the update it is UPDATE_FAILED', said)
        self.assertNotIn('DELETE', self.changes)
        self.ok(*self.forget())
        self.assertEqual({}, self.heat.stacks)

    def test_a_change_of_somebody_else_that_failed_is_not_gone_on_with(self):
        for action in ('CREATE', 'UPDATE', 'ROLLBACK', 'CHECK'):
            self.stack.update(action=action, status='FAILED', reason='no room')
            said = self.fails(ExitCode.UNFORESEEN, *self.forget())
            self.assertIn(f'it is {action}_FAILED, and an update would also do', said)
            self.assertEqual([], self.changes)

    def test_an_update_that_would_lose_a_server_is_not_made(self):
        # As if somebody had changed what the stack has.
        self.stack['live'].pop('kube_minions.2')
        said = self.fails(ExitCode.UNFORESEEN, *self.forget())
        self.assertIn('would also add, replace or delete kube_minions.2', said)
        self.assertEqual(['PATCH'], self.changes, 'the preview')

    def test_a_stack_with_a_server_that_is_not_a_node_is_left_alone(self):
        other = self.cloud.make_unowned('other')
        self.stack['live']['kube_minions.1']['id'] = other
        said = self.fails(ExitCode.USAGE, *self.forget())
        self.assertIn(f'of its servers, {other} are not nodes of {NAME}', said)
        self.assertEqual([], self.changes)

    def test_a_stack_of_a_cluster_and_one_that_is_missing_are_refused(self):
        self.stack['tags'] = tags('west', cluster_of(FILE), 'x')
        said = self.fails(ExitCode.UNFORESEEN, *self.forget())
        self.assertIn('it is that of cluster c1 of site west', said)
        said = self.fails(ExitCode.UNFORESEEN, 'cluster', 'forget-stack', NAME, 'nope')
        self.assertIn("no stack 'nope'", said)

    def test_an_answer_without_resources_does_not_mean_that_nothing_is_lost(self):
        self.heat.omitted = ('resources',)
        said = self.fails(ExitCode.UNFORESEEN, *self.forget())
        self.assertIn('the answer has no resources', said)
        self.assertEqual([], self.changes)

    def test_a_deletion_that_failed_is_repeated(self):
        self.heat.fail('the engine was killed')
        self.fails(ExitCode.UNFORESEEN, *self.forget())
        self.stack.update(action='UPDATE', status='COMPLETE')
        self.heat.fail('the engine is busy')
        said = self.fails(ExitCode.UNFORESEEN, *self.forget())
        self.assertIn('Heat has not forgotten', said)
        self.assertIn('What it has made is as it was', said)
        self.stack['failure'] = ''
        self.ok(*self.forget())
        self.assertEqual({}, self.heat.stacks)

    def test_a_deletion_that_somebody_began_is_not_gone_on_with_if_it_would_lose_a_server(self):
        self.stack.update(action='DELETE', status='FAILED', reason='no')
        said = self.fails(ExitCode.UNFORESEEN, *self.forget())
        self.assertIn('it is DELETE_FAILED, and Heat changes no such stack', said)
        self.assertEqual([], self.changes)
