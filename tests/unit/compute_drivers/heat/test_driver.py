"""Calls of the driver as requests to Heat and Nova."""

import concurrent.futures
import json
import threading
import uuid

from kiln.compute_drivers.authoring.adoption import adopted
from kiln.compute_drivers.heat.building.names import stack_name
from kiln.compute_drivers.heat.translate import LOST
from kiln.exceptions import (
    BuildConflict,
    BuildDiffers,
    BuildOutcomeUnknown,
    InstanceNotFoundError,
    InstanceStateConflict,
    InvalidBuildRequest,
    Outcome,
    QuotaExceeded,
    ServiceUnavailable,
)
from kiln.models import BuildRequest, State
from tests.unit.compute_drivers.heat.cloud import (
    SERVERS,
    STACKS,
    StackCase,
    refused,
    server,
    stack,
)
from tests.unit.compute_drivers.heat.samples import ID

NAME = stack_name('east', 'k-1')
SHOW = f'GET /stacks/{NAME}/{ID}'
UNSHOWN = refused(500, 'Exception', 'the engine did not answer')
EXISTS = refused(409, 'StackExists', f'The Stack ({NAME}) already exists.')


class Building(StackCase):
    def build(self, **given):
        return self.driver.build(**{'name': 'web-1', 'build_key': 'k-1', **given})

    def taken(self, **more):
        """Let a stack have the name of the build."""
        self.cloud.answers['POST /stacks'] = EXISTS
        self.stacks = [stack(stack_name=NAME, **more)]
        parameters = {'name': 'web-1', 'metadata': json.dumps({'kiln:flavor': 'tiny'})}
        self.cloud.answers[SHOW] = {'stack': {'parameters': parameters}}

    def test_a_build_is_one_request(self):
        self.assertEqual(ID, self.build())
        self.assertEqual(['POST /stacks'], self.asked())
        _, _, sent = self.cloud.asked[-1]
        self.assertEqual((NAME, 60), (
            json.loads(sent)['stack_name'], json.loads(sent)['timeout_mins']))  # fmt: skip

    def test_a_repeat_finds_the_stack_of_the_first(self):
        self.taken()
        self.assertEqual(ID, self.build(amphora_flavor='tiny'))

    def test_a_repeat_finds_it_whatever_the_name_of_its_image_stands_for_now(self):
        self.taken()
        self.cloud.answers['GET /images'] = {'images': []}
        self.assertEqual(ID, self.build(image_id='gone'))
        self.assertNotIn('POST /stacks', self.asked())

    def test_a_repeat_with_other_arguments_is_refused(self):
        self.taken()
        with self.assertRaises(BuildDiffers) as caught:
            self.build(amphora_flavor='small')
        self.assertEqual((ID, 'k-1'), (caught.exception.amphora_id, caught.exception.build_key))

    def test_a_repeat_that_meets_a_stack_that_heat_cannot_show_is_not_taken_unchecked(self):
        self.taken()
        self.cloud.answers[SHOW] = UNSHOWN
        with self.assertRaises(ServiceUnavailable) as caught:
            self.build(amphora_flavor='small')
        self.assertTrue(caught.exception.retryable)

    def test_a_stack_of_somebody_else_under_the_name_is_neither_taken_nor_changed(self):
        for tags in (
            None,
            [],
            ['kiln-site:west', 'kiln-key:k-1'],
            ['kiln-site:east', 'kiln-key:K-1'],
        ):
            with self.subTest(tags):
                self.taken(tags=tags)
                with self.assertRaisesRegex(BuildConflict, 'kiln did not make it') as caught:
                    self.build()
                self.assertIs(Outcome.NOT_APPLIED, caught.exception.outcome)
                self.assertIsNone(self.driver.find_build('k-1'))

    def test_a_build_without_an_answer_can_have_been_made(self):
        self.cloud.answers['POST /stacks'] = refused(503, 'Unavailable', 'away')
        with self.assertRaises(BuildOutcomeUnknown) as caught:
            self.build()
        self.assertEqual('k-1', caught.exception.build_key)

    def test_an_answer_without_an_id_does_not_say_what_was_made(self):
        self.cloud.answers['POST /stacks'] = (200, {}, {'hello': 'world'})
        with self.assertRaises(BuildOutcomeUnknown):
            self.build()

    def test_refusals_of_heat_say_what_is_the_matter(self):
        at = 'Property error: resources.server.properties.image: Error validating value: '
        full = 'You have reached the maximum stacks per project, 512. Please delete some stacks.'
        for answer, kind in (
            (refused(400, 'RequestLimitExceeded', full), QuotaExceeded),
            (refused(400, 'StackValidationFailed', at + 'No image.'), InvalidBuildRequest),
            (refused(400, 'StackValidationFailed', at + 'Unable to establish connection to '
                     'http://glance'), ServiceUnavailable),
        ):  # fmt: skip
            with self.subTest(kind):
                self.cloud.answers['POST /stacks'] = answer
                with self.assertRaises(kind) as caught:
                    self.build()
                self.assertIs(Outcome.NOT_APPLIED, caught.exception.outcome)

    def test_an_image_that_does_not_exist_is_refused_before_any_change(self):
        self.cloud.answers['GET /images'] = {'images': []}
        with self.assertRaises(InvalidBuildRequest):
            self.build(image_id='none')
        self.assertNotIn('POST /stacks', self.asked())

    def test_a_zone_and_a_group_that_do_not_exist_are_refused_before_any_change(self):
        zone = {'zoneName': 'az1', 'zoneState': {'available': True}}
        self.cloud.answers['GET /os-availability-zone'] = {'availabilityZoneInfo': [zone]}
        group, other = (str(uuid.UUID(int=number)) for number in (1, 2))
        self.cloud.answers[f'GET /os-server-groups/{group}'] = {'server_group': {'id': group}}
        for wrong in ({'availability_zone': 'az9'}, {'server_group_id': other},
                      {'server_group_id': '../g'}):  # fmt: skip
            with self.subTest(wrong), self.assertRaises(InvalidBuildRequest):
                self.build(**wrong)
        self.assertNotIn('POST /stacks', self.asked())
        for _ in range(2):
            self.build(availability_zone='az1', server_group_id=group)
        self.assertEqual(2, self.asked().count('POST /stacks'))

    def test_a_security_group_that_does_not_exist_is_refused_before_any_change(self):
        there, none = (f'0000000{n}-0000-4000-8000-000000000000' for n in (1, 2))
        self.cloud.answers['GET /v2.0/security-groups'] = lambda query: {
            'security_groups': [{'id': there, 'name': 'web'}]
            if query.get('id') in (None, there) else []
        }  # fmt: skip
        with self.assertRaisesRegex(InvalidBuildRequest, f'{none}.* was not found'):
            self.build(sec_groups=[there, none])
        self.assertNotIn('POST /stacks', self.asked())
        self.build(sec_groups=[there])
        self.assertIn('POST /stacks', self.asked())

    def test_threads_that_build_one_key_make_one_stack(self):
        arrived, made = threading.Semaphore(0), []

        def post(_):
            # As Heat does it: the name is looked for at first, and stored later.
            if self.stacks:
                return EXISTS
            arrived.release()
            if len(made) == 0:
                arrived.acquire()
                arrived.acquire(timeout=0.2)
            made.append(f'{len(made):08}-0000-4000-8000-000000000000')
            parameters = {'name': 'web-1', 'metadata': json.dumps({'kiln:flavor': 'tiny'})}
            self.cloud.answers[f'GET /stacks/{NAME}/{made[-1]}'] = {
                'stack': {'parameters': parameters}
            }
            self.stacks = [stack(id=made[-1], stack_name=NAME)]
            return 201, {}, {'stack': {'id': made[-1]}}

        self.cloud.answers['POST /stacks'] = post
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            ids = set(pool.map(lambda _: self.build(amphora_flavor='tiny'), range(4)))
        self.assertEqual((1, 1), (len(ids), len(made)))

    def test_a_port_in_use_is_refused_before_any_change_unless_the_build_itself_uses_it(self):
        self.cloud.answers['GET /v2.0/ports/p-1'] = {'port': {'device_id': ''}}
        self.cloud.answers['GET /v2.0/ports/p-2'] = {'port': {'device_id': 's-1'}}
        with self.assertRaisesRegex(BuildConflict, 'port p-2 is in use by s-1'):
            self.build(port_ids=['p-1', 'p-2'])
        self.assertNotIn('POST /stacks', self.asked())
        self.taken()
        self.assertEqual(ID, self.build(port_ids=['p-1', 'p-2']))


class Finding(StackCase):
    def test_a_look_at_all_is_two_requests_however_many_there_are(self):
        ids = [f'{n:08}-0000-4000-8000-000000000000' for n in range(50)]
        self.stacks = [stack(id=id_) for id_ in ids]
        self.servers = [
            server(id=id_, tags=['kiln-heat:east', f'kiln-stack:{id_}']) for id_ in ids
        ]
        found = list(self.driver.list_amphorae())
        self.assertEqual(ids, [amphora.id for amphora in found])
        self.assertEqual([STACKS, SERVERS], self.asked())

    def test_while_nothing_runs_nova_is_not_asked(self):
        self.stacks = [stack('CREATE_IN_PROGRESS')]
        self.assertEqual({ID: State.BUILDING}, {
            id_: one.state for id_, one in self.driver.statuses([ID]).items()})  # fmt: skip
        self.assertEqual([STACKS], self.asked())

    def test_a_stack_that_no_build_has_made_is_not_an_amphora(self):
        self.stacks = [stack(tags=['kiln-site:east']), stack(tags=None)]
        with self.assertRaises(InstanceNotFoundError):
            self.driver.status(ID)
        self.driver.delete(ID)
        self.assertEqual([], list(self.driver.list_amphorae()))
        self.assertEqual([], [what for what in self.asked() if what.startswith('DELETE')])

    def test_a_stack_without_its_server_is_in_error(self):
        self.stacks = [stack()]
        self.cloud.answers[f'GET /stacks/one/{ID}'] = {'stack': {'parameters': {'name': 'web-1'}}}
        self.assertEqual(LOST, self.driver.status(ID).fault)
        self.assertEqual('web-1', self.driver.get_amphora(amphora_id=ID).name)

    def test_a_stack_that_heat_lists_and_cannot_show_has_what_its_row_says(self):
        other = '00000002-0000-4000-8000-000000000000'
        shown = stack('CREATE_FAILED', id=other, stack_name='two', tags=[
            'kiln-site:east', 'kiln-key:k-2'])  # fmt: skip
        self.cloud.answers[f'GET /stacks/two/{other}'] = {'stack': {'parameters': {'name': 'two'}}}
        for answer in (UNSHOWN, refused(404, 'EntityNotFound', 'The Stack (x) is not there.')):
            with self.subTest(answer):
                self.cloud.answers[f'GET /stacks/{NAME}/{ID}'] = answer
                self.stacks = [stack('CREATE_FAILED', stack_name=NAME), shown]
                found, beside = self.driver.list_amphorae()
                self.assertEqual((ID, 'k-1', 'east', State.ERROR, '', None), (
                    found.id, found.build_key, found.owner, found.state, found.name,
                    found.availability_zone))  # fmt: skip
                self.assertEqual('two', beside.name)
                self.assertEqual(found, self.driver.get_amphora(amphora_id=ID))
                self.assertEqual(found, self.driver.find_build('k-1'))
                # What is unknown speaks neither for nor against a build.
                asked = BuildRequest(build_key='k-1', name='web-1', owner='east')
                self.assertEqual(ID, adopted(asked, found))
        # It is not remembered as what the stack is.
        self.cloud.answers[f'GET /stacks/{NAME}/{ID}'] = {
            'stack': {'parameters': {'name': 'web-1'}}
        }
        self.assertEqual('web-1', self.driver.get_amphora(amphora_id=ID).name)

    def test_an_answer_of_something_else_is_not_read_as_gone(self):
        self.cloud.answers[STACKS] = {'hello': 'world'}
        for call in (self.driver.status, self.driver.delete):
            with self.subTest(call), self.assertRaises(ServiceUnavailable):
                call(ID)

    def test_the_stacks_of_another_site_are_not_listed(self):
        self.stacks = [stack(tags=['kiln-site:EAST', 'kiln-key:k-1'])]
        self.cloud.answers[STACKS] = {'stacks': self.stacks}
        self.assertEqual([], list(self.driver.list_amphorae()))


class Deleting(StackCase):
    def test_a_delete_of_what_was_seen_is_one_request(self):
        self.stacks, self.servers = [stack()], [server()]
        self.driver.status(ID)
        self.asked()
        self.cloud.answers[f'DELETE /stacks/one/{ID}'] = (204, {}, {})
        self.driver.delete(ID)
        self.assertEqual([f'DELETE /stacks/one/{ID}'], self.asked())
        # Heat first ends what it does with the stack.
        self.assertIs(State.DELETING, self.driver.status(ID).state)

    def test_a_stack_that_is_gone_is_a_success(self):
        self.driver.delete(ID)
        self.stacks = [stack()]
        self.driver.status(ID)
        message = 'The Stack (one) could not be found.'
        self.cloud.answers[f'DELETE /stacks/one/{ID}'] = refused(404, 'EntityNotFound', message)
        self.driver.delete(ID)


class Acting(StackCase):
    def test_an_action_is_one_of_its_server(self):
        self.stacks, self.servers = [stack()], [server()]
        action = f'POST /servers/{server()["id"]}/action'
        self.cloud.answers[action] = (202, {}, '')
        self.driver.reboot(ID)
        self.assertEqual([STACKS, SERVERS, action], self.asked())
        self.driver.reboot(ID, hard=True)
        self.assertEqual([action], self.asked())

    def test_a_stack_that_is_being_built_or_has_failed_takes_no_action(self):
        for state, again in (('CREATE_IN_PROGRESS', True), ('CREATE_FAILED', False)):
            with self.subTest(state):
                self.stacks = [stack(state)]
                with self.assertRaises(InstanceStateConflict) as caught:
                    self.driver.suspend(ID)
                self.assertIs(again, caught.exception.retryable)
                with self.assertRaises(InstanceStateConflict) as caught:
                    self.driver.attach_port(ID, 'p-1')
                self.assertIsNone(caught.exception.resource_id)


class Watching(StackCase):
    def changes(self, since=''):
        found = self.driver.changes(since)
        self.clock.advance(10)
        return found

    def states(self, found):
        return {status.amphora_id: status.state for status in found.statuses}

    def test_the_first_answer_is_complete_and_the_next_has_what_changed(self):
        self.stacks, self.servers = [stack()], [server()]
        first = self.changes()
        self.assertTrue(first.complete)
        self.assertEqual({ID: State.ACTIVE}, self.states(first))
        self.servers = []
        second = self.changes(first.cursor)
        self.assertEqual(((), (), False), (second.statuses, second.gone, second.complete))
        self.servers = [server(**{'OS-EXT-STS:vm_state': 'stopped'})]
        self.assertEqual({ID: State.STOPPED}, self.states(self.changes(second.cursor)))

    def test_a_stack_that_is_complete_since_is_told_even_if_its_server_changed_before(self):
        self.stacks = [stack('CREATE_IN_PROGRESS')]
        first = self.changes()
        self.stacks, self.servers = [stack()], [server()]
        self.cloud.answers[SERVERS] = lambda query: {
            'servers': [] if 'changes-since' in query else self.servers
        }
        # An answer that was lost is given again.
        for _ in range(2):
            self.assertEqual({ID: State.ACTIVE}, self.states(self.changes(first.cursor)))

    def test_a_stack_that_is_gone_is_told_once_to_a_reader_that_goes_on(self):
        self.stacks, self.servers = [stack()], [server()]
        first = self.changes()
        self.stacks = []
        second = self.changes(first.cursor)
        self.assertEqual((ID,), second.gone)
        self.assertEqual((), self.changes(second.cursor).gone)

    def test_a_server_that_is_deleted_without_its_stack_is_told(self):
        self.stacks, self.servers = [stack()], [server()]
        first = self.changes()
        deleted = server(tags=[], **{'OS-EXT-STS:vm_state': 'deleted'})
        self.cloud.answers[SERVERS] = lambda query: {
            'servers': [deleted] if 'changes-since' in query else []
        }
        (status,) = self.changes(first.cursor).statuses
        self.assertEqual((State.ERROR, LOST), (status.state, status.fault))

    def test_a_cursor_of_another_process_or_of_long_ago_gives_everything(self):
        self.stacks, self.servers = [stack()], [server()]
        cursor = self.changes().cursor
        self.assertTrue(self.open().changes(cursor).complete)
        self.clock.advance(4000)
        for one in (cursor, 'x', f'{cursor}x', '2026-11-28T07:03:43Z'):
            self.assertTrue(self.driver.changes(one).complete)
