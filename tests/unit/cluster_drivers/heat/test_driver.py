"""HeatDriver on a Heat that is played: repeats, losses, reasons."""

import dataclasses

from kiln.cluster_drivers.heat.poller import QUIET_S, TICK_S
from kiln.cluster_drivers.heat.reports import RPC_S
from kiln.cluster_drivers.heat.state import CHANGE_TRIES, DELETE_TRIES
from kiln.cluster_drivers.values import Progress
from kiln.clusters.exceptions import ClusterDriverError
from kiln.testing.clusters import samples
from tests.unit.cluster_drivers.heat.driver_case import NAME, DriverCase
from tests.unit.cluster_drivers.heat.fake_heat import WORK_S, Refusal, happens
from tests.unit.cluster_drivers.heat.made import FILE, cluster_of, generated


class Creations(DriverCase):
    def test_a_creation_that_is_repeated_without_its_answer_meets_the_first_stack(self):
        first = self.create()
        self.cluster = cluster_of()
        self.assertEqual(first.driver_state, self.create().driver_state)
        self.assertEqual(1, len(self.heat.stacks))
        # Heat would begin an update again.
        self.assertNotIn('PUT', self.methods)

    def test_a_creation_that_failed_goes_on_when_it_is_repeated(self):
        self.heat.fail('no room')
        self.create()
        self.assertIs(Progress.FAILED, self.work().progress)
        self.create()
        self.assertIs(Progress.COMPLETE, self.work().progress)

    def test_a_stack_of_somebody_else_under_the_name_is_left_alone(self):
        self.create()
        self.heat.named(NAME)['tags'] = ['theirs']
        self.cluster = cluster_of()
        with self.assertRaisesRegex(ClusterDriverError, 'of somebody else has the name. Delete'):
            self.create()
        self.call('delete_cluster')
        self.assertNotIn('DELETE', self.methods)

    def test_a_stack_that_is_made_anew_under_the_name_by_somebody_is_not_taken(self):
        self.settle()
        stack = self.heat.named(NAME)
        self.heat.stacks = {'other': {**stack, 'id': 'other', 'tags': []}}
        self.assertIs(Progress.FAILED, self.poll().progress)
        self.call('delete_cluster')
        self.assertNotIn('DELETE', self.methods)

    def test_a_stack_that_is_being_deleted_is_waited_for(self):
        self.settle()
        self.call('delete_cluster')
        self.cluster = cluster_of()
        with self.assertRaises(ClusterDriverError) as caught:
            self.create()
        self.assertTrue(caught.exception.retryable)
        self.heat.work(WORK_S)
        self.create()
        self.assertIs(Progress.COMPLETE, self.work().progress)

    def test_heat_has_the_create_timeout_of_the_cluster_for_a_creation_and_each_later_change(self):
        self.cluster = cluster_of(f'create_timeout: 2h\n{FILE}')
        # A repeat that comes late.
        self.call('create_cluster', cluster_create_timeout=100.0)
        self.assertEqual(120, self.heat.named(NAME)['timeout_mins'])
        self.work()
        self.change(f'create_timeout: 90m\n{FILE}')
        self.call('update_cluster')
        self.assertEqual(90, self.heat.named(NAME)['timeout_mins'])

    def test_an_operation_with_more_time_than_the_create_timeout_gives_it_to_heat(self):
        self.call('create_cluster', cluster_create_timeout=7200.0)
        self.assertEqual(120, self.heat.named(NAME)['timeout_mins'])

    def test_without_credentials_nothing_is_sent(self):
        self.context = dataclasses.replace(self.context, credentials=None)
        with self.assertRaisesRegex(ClusterDriverError, 'needs credentials for Heat'):
            self.create()
        self.assertEqual([], self.heat.requests)


class Changes(DriverCase):
    def test_an_update_that_heat_accepts_and_drops_is_sent_again(self):
        self.settle()
        self.change(FILE.replace('count: 3', 'count: 4'))
        self.heat.drops = True
        self.call('update_cluster')
        self.assertEqual(3, len(self.nodes) - 1)
        report = self.poll()
        self.assertIs(Progress.IN_PROGRESS, report.progress)
        self.assertIn('kiln has tried again', report.reason)
        self.assertIs(Progress.COMPLETE, self.work().progress)
        self.assertEqual(4, len(self.nodes) - 1)

    def test_a_report_is_never_of_the_stack_before_the_request(self):
        self.settle()
        self.change(FILE.replace('count: 3', 'count: 4'))
        self.call('update_cluster')
        # Within the same tick.
        self.assertIs(Progress.IN_PROGRESS, self.call('update_cluster_status').progress)

    def test_a_repeated_update_is_sent_once(self):
        self.settle()
        self.change(FILE.replace('count: 3', 'count: 4'))
        former = self.cluster
        self.call('update_cluster')
        self.cluster = former
        self.call('update_cluster')
        self.assertEqual(1, self.methods.count('PUT'))

    def test_003_6_any_node_can_go_and_its_number_does_not_come_back(self):
        self.settle()
        self.change(FILE.replace('count: 3', 'count: 2'))
        group = self.cluster.spec.groups[1]
        remove = {'nodegroup': group, 'node_count': 2, 'nodes_to_remove': ('work-2',)}
        self.call('resize_cluster', **remove)
        self.work()
        self.assertEqual(['control-1', 'work-1', 'work-3'], self.nodes)
        # A retry of the same operation names it again.
        self.call('resize_cluster', **remove)
        self.change()
        self.call('update_cluster')
        self.work()
        self.assertEqual(['control-1', 'work-1', 'work-3', 'work-4'], self.nodes)

    def test_a_cluster_whose_stack_is_lost_is_created_again_by_an_update(self):
        self.settle()
        self.heat.stacks.clear()
        self.assertIs(Progress.FAILED, self.poll().progress)
        self.change()
        self.call('update_cluster')
        self.assertIs(Progress.COMPLETE, self.work().progress)

    def test_a_stack_that_somebody_changed_is_told_and_an_update_takes_it_back(self):
        self.settle()
        self.heat.named(NAME)['tags'].pop()
        report = self.poll()
        self.assertIs(Progress.FAILED, report.progress)
        self.assertIn('somebody else has changed it', report.reason)
        self.assertNotIn('PUT', self.methods)
        self.change()
        self.call('update_cluster')
        self.assertIs(Progress.COMPLETE, self.work().progress)

    def somebody_changes(self, **what):
        """Let somebody change the stack without a change of its tags."""
        stack = self.heat.named(NAME)
        kept = {name: stack[name] for name in ('template', 'parameters', 'files')}
        given = kept | what | {'tags': ','.join(stack['tags'])}
        self.heat.answer('PUT', f'/v1/project/stacks/{NAME}/{stack["id"]}', {}, given)
        self.heat.work(WORK_S)

    def test_a_change_by_somebody_that_keeps_the_tags_is_told_and_the_same_update_undoes_it(self):
        self.settle()
        template = self.heat.named(NAME)['template']
        resources = {**template['resources'], 'theirs': {'type': 'OS::Heat::None'}}
        self.somebody_changes(template={**template, 'resources': resources})
        for _ in range(2):
            report = self.poll()
            self.assertIs(Progress.FAILED, report.progress)
            self.assertIn('somebody else has changed it', report.reason)
        self.assertNotIn('PUT', self.methods)
        self.call('update_cluster')
        self.assertEqual(template, self.heat.named(NAME)['template'])
        self.assertIs(Progress.COMPLETE, self.work().progress)
        # A repeated call is nothing to do.
        self.call('update_cluster')
        self.assertEqual(1, self.methods.count('PUT'))

    def test_a_check_of_the_stack_by_somebody_changes_nothing_of_it(self):
        self.settle()
        self.heat.named(NAME).update(action='CHECK', updated='later')
        self.assertIs(Progress.COMPLETE, self.poll().progress)
        self.somebody_changes()
        self.assertIs(Progress.FAILED, self.poll().progress)

    def test_a_change_of_kiln_whose_answer_was_lost_is_not_taken_for_that_of_somebody(self):
        self.settle()
        before = self.cluster.driver_state
        self.change(FILE.replace('count: 3', 'count: 2'))
        for _ in range(2):
            # The process was killed before it kept what it had done.
            self.cluster = dataclasses.replace(self.cluster, driver_state=before)
            self.call('update_cluster')
        self.assertIs(Progress.COMPLETE, self.work().progress)
        self.assertEqual(1, self.methods.count('PUT'))


class Deserted(DriverCase):
    """An engine of Heat was killed: what it did is in progress for ever."""

    def deserted(self):
        """Let polls pass until the driver has sent something."""
        self.heat.dead = True
        self.heat.requests.clear()
        polls = 0
        while {'PUT', 'DELETE'}.isdisjoint(self.methods):
            polls += 1
            self.assertLess(polls, 12)
            found = self.work(QUIET_S / 4)
        self.assertIn('nothing happens. kiln has tried again', found.reason)
        self.assertIs(Progress.IN_PROGRESS, found.progress)

    def test_a_creation_is_requested_again_and_ends(self):
        self.create()
        self.deserted()
        self.assertIs(Progress.COMPLETE, self.work().progress)
        self.assertEqual(1, len(self.heat.stacks))

    def test_a_deletion_is_requested_again_and_ends(self):
        self.settle()
        self.call('delete_cluster')
        self.deserted()
        self.assertIs(Progress.COMPLETE, self.work().progress)

    def test_what_kiln_sends_in_place_of_a_change_by_somebody_that_stopped_is_its_own(self):
        self.settle()
        stack = self.heat.named(NAME)
        kept = {name: stack[name] for name in ('template', 'parameters', 'files')}
        kept['tags'] = ','.join(stack['tags'])
        self.heat.answer('PUT', f'/v1/project/stacks/{NAME}/{stack["id"]}', {}, kept)
        self.deserted()
        self.assertIs(Progress.COMPLETE, self.work().progress)

    def test_a_stack_that_never_moves_is_left_to_its_time_limit(self):
        self.create()
        for _ in range(CHANGE_TRIES):
            self.deserted()
        self.heat.dead = True
        self.heat.requests.clear()
        for _ in range(20):
            self.work(QUIET_S / 4)
        self.assertNotIn('PUT', self.methods)

    def test_a_deletion_by_somebody_else_is_not_joined(self):
        self.settle()
        stack = self.heat.named(NAME)
        self.heat.answer('DELETE', f'/v1/project/stacks/{NAME}/{stack["id"]}', {}, None)
        self.heat.dead = True
        for _ in range(12):
            self.work(QUIET_S / 4)
        self.assertNotIn('DELETE', self.methods)

    def test_events_that_cannot_be_read_are_no_reason_to_do_anything(self):
        self.create()
        self.heat.dead = self.heat.mute = True
        self.heat.requests.clear()
        for _ in range(12):
            self.assertIs(Progress.IN_PROGRESS, self.work(QUIET_S / 4).progress)
        self.assertNotIn('PUT', self.methods)


class Events(DriverCase):
    """What Heat has done so far is told while it works."""

    def told(self):
        """Let a little be done; return what the next poll tells."""
        self.heat.work(1.0)
        return list(self.poll().events)

    def test_what_is_done_is_told_once_while_heat_works(self):
        self.create()
        lines = [line for _ in range(4) for line in self.told()]
        self.assertEqual(4, len(lines))
        done = [name for line in lines for name in line.split(': ')[2].split(', ')]
        self.assertEqual({'Heat: CREATE_COMPLETE'}, {line.rpartition(': ')[0] for line in lines})
        self.assertEqual(4, len(set(done)))
        self.assertEqual(4, len(done))

    def test_another_process_goes_on_where_the_first_has_told(self):
        self.create()
        for _ in range(3):
            self.told()
        before = self.cluster.driver_state['told']
        self.driver = generated(self.heat, self.clock)
        self.poll()
        self.assertEqual([], list(self.poll().events))
        self.assertEqual(before, self.cluster.driver_state['told'])

    def test_secrets_are_in_no_line(self):
        self.cluster = cluster_of(f'{FILE}parameters: {{user_data: door}}\n')
        self.create()
        self.told()
        stack = self.heat.named(NAME)
        happens(stack, 'work-1', 'FAILED', f'Property error: {samples.SECRET} is not allowed')
        (line,) = (one for one in self.told() if 'FAILED' in one)
        self.assertNotIn(samples.SECRET, line)
        self.assertIn('Property error: ***', line)


class Deletions(DriverCase):
    def test_a_deletion_that_failed_is_repeated_with_rests_and_then_says_what_holds_it(self):
        self.settle()
        self.heat.fail('port p1 is in use by router r1')
        self.call('delete_cluster')
        polls = 0
        while (report := self.work()).progress is Progress.IN_PROGRESS:
            polls += 1
            self.assertLess(polls, 200)
        self.assertIs(Progress.FAILED, report.progress)
        self.assertIn('workers.2 (OS::Nova::Server)', report.reason)
        self.assertIn('port p1 is in use by router r1', report.reason)
        self.assertEqual(1 + DELETE_TRIES, self.methods.count('DELETE'))
        self.assertGreater(polls, sum(2**n for n in range(DELETE_TRIES - 1)))

    def test_a_deletion_during_a_change_is_sent_at_once(self):
        self.create()
        self.call('delete_cluster')
        self.assertIs(Progress.COMPLETE, self.work().progress)
        self.assertEqual({}, self.heat.stacks)

    def test_what_is_gone_is_complete_only_as_the_end_of_a_deletion(self):
        self.settle()
        self.heat.stacks.clear()
        self.assertIn(f'Heat has no stack {NAME}', self.poll().reason)
        self.call('delete_cluster')
        self.assertIs(Progress.COMPLETE, self.poll().progress)


class UnansweredCreations(DriverCase):
    """Heat can work off a creation after its client has given it up."""

    #: The time limit of a request, and that of a call of Heat's API.
    LIMIT_S = 5.0 + RPC_S

    def setUp(self):
        super().setUp()
        self.heat.queues = True
        with self.assertRaises(ClusterDriverError):
            self.create()
        self.call('delete_cluster')

    def test_a_deletion_waits_for_as_long_as_the_stack_can_still_be_made(self):
        report = self.poll()
        self.assertIs(Progress.IN_PROGRESS, report.progress)
        self.assertIn('its creation can have been sent without an answer', report.reason)
        # Another process goes on with the same wait, and so does a repeated deletion.
        self.driver = generated(self.heat, self.clock)
        self.assertIs(Progress.IN_PROGRESS, self.poll(self.LIMIT_S - 1).progress)
        self.call('delete_cluster')
        self.assertIs(Progress.COMPLETE, self.poll(1).progress)

    def test_a_stack_that_is_made_late_is_deleted(self):
        self.poll()
        self.heat._create(self.heat.queued)
        self.assertIn('kiln has tried again', self.poll().reason)
        self.assertIn('DELETE', self.methods)
        self.assertIs(Progress.COMPLETE, self.work().progress)
        self.assertEqual({}, self.heat.stacks)

    def test_a_creation_that_was_answered_needs_no_wait(self):
        self.create()
        self.call('delete_cluster')
        self.assertIs(Progress.COMPLETE, self.work().progress)


class Reports(DriverCase):
    def test_a_failure_names_the_resource_through_nested_stacks(self):
        self.heat.fail('No valid host was found')
        self.create()
        report = self.work()
        self.assertIs(Progress.FAILED, report.progress)
        self.assertEqual(
            f'Stack {NAME} is CREATE_FAILED: workers.2 (OS::Nova::Server): ResourceInError: No '
            f'valid host was found.',
            report.reason,
        )

    def test_000_11_settled_clusters_cost_one_request_a_tick(self):
        clusters = [cluster_of(id_=f'c{n}') for n in range(50)]
        for number, self.cluster in enumerate(clusters):
            self.create()
            clusters[number] = self.cluster
        self.heat.work(WORK_S)
        for tick in range(4):
            self.clock.advance(TICK_S + 1)
            self.heat.requests.clear()
            for number, self.cluster in enumerate(clusters):
                report = self.call('update_cluster_status')
                self.assertIs(Progress.COMPLETE, report.progress)
                clusters[number] = self.cluster
                # The first tick after a change has the details, too.
            self.assertEqual(51 if tick == 0 else 1, len(self.heat.requests))

    def test_the_outputs_of_a_new_stack_that_heat_cannot_show_for_a_moment_are_waited_for(self):
        self.create()
        self.heat.blind = True
        report = self.work()
        self.assertIs(Progress.IN_PROGRESS, report.progress)
        self.assertIn('The outputs are unknown', report.reason)
        self.heat.blind = False
        report = self.poll()
        self.assertIs(Progress.COMPLETE, report.progress)
        self.assertEqual(4, len(report.outputs['nodes']))

    def test_a_stack_that_heat_lists_and_cannot_show_is_complete_after_some_polls(self):
        self.create()
        self.heat.blind = True
        self.work()
        for _ in range(CHANGE_TRIES - 1):
            self.assertIs(Progress.IN_PROGRESS, self.poll().progress)
        report = self.poll()
        self.assertIs(Progress.COMPLETE, report.progress)
        self.assertIsNone(report.outputs)
        self.assertIn('The outputs are unknown', report.reason)

    def test_a_heat_that_is_away_is_unknown_with_its_reason(self):
        self.settle()
        self.heat.away = True
        report = self.poll()
        self.assertIs(Progress.UNKNOWN, report.progress)
        self.assertIn(
            'something in front of Heat, or a wrong address, answered 503', report.reason
        )

    def test_a_secret_that_heat_quotes_is_not_told(self):
        self.cluster = cluster_of(FILE + 'parameters: {user_data: kit}\n')
        secret = self.context.secrets.get('kit')
        self.heat.refuses = Refusal(400, 'StackValidationFailed', f'Value {secret} is wrong')
        with self.assertRaises(ClusterDriverError) as caught:
            self.create()
        self.assertIn('Value *** is wrong', str(caught.exception))
        self.assertNotIn(secret, repr(caught.exception) + caught.exception.reason)
        self.heat.refuses = None
        self.heat.fail(f'bad data {secret}')
        self.create()
        self.assertNotIn(secret, self.work().reason)
