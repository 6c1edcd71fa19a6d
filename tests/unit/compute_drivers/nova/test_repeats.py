"""Repeated build keys: the same server, or a refusal before any change."""

import copy
import json
import unittest

from kiln.compute_drivers.nova.driver import NovaDriver
from kiln.exceptions import AmphoraComputeError, BuildConflict, BuildDiffers, InvalidRequest
from kiln.testing.clock import VirtualClock
from tests.unit.compute_drivers.nova.corpus import ANSWERS, SERVERS
from tests.unit.compute_drivers.nova.loopback import Loopback
from tests.unit.compute_drivers.nova.written import written

IMAGE = '4bfa4ff8-0632-421c-b662-4005c136db4b'
DETAIL = 'GET /servers/detail'
ASKED = {'kiln:type': 'vm', 'kiln:flavor': 'tiny', 'kiln:image': IMAGE}


def server(server_id='s-1', *, name='web', metadata=None, **more):
    """Return a server as Nova returns it, with its own names of flavor and image."""
    states = {'OS-EXT-STS:vm_state': 'active', 'OS-EXT-STS:task_state': None, 'status': 'ACTIVE'}
    facts = {
        'id': server_id, 'name': name, 'metadata': ASKED if metadata is None else metadata,
        'tags': ['kiln-key:k', 'kiln-site:kiln'],
        'flavor': {'original_name': 'm1.tiny'}, 'image': {'id': 'i-1'},
    }  # fmt: skip
    return copy.deepcopy(SERVERS['building']) | states | facts | more


class RepeatCase(unittest.TestCase):
    def setUp(self):
        clock = VirtualClock()
        flavors = [{'id': f'f-{name}', 'name': name} for name in ('tiny', 'small')]
        self.cloud = Loopback({'GET /flavors': {'flavors': flavors}}, clock=clock)
        self.enterContext(self.cloud)
        conf = written(
            'auth_type = none', f'compute_endpoint_override = {self.cloud.url}',
            f'image_endpoint_override = {self.cloud.url}',
            f'network_endpoint_override = {self.cloud.url}', 'microversion = 2.96',
            'flavor = tiny', f'image = {IMAGE}',
        )  # fmt: skip
        self.driver = NovaDriver.open(conf, name='east', owner='kiln', clock=clock)
        self.addCleanup(self.driver.close)

    def build(self, **given):
        return self.driver.build(**{'name': 'web', 'build_key': 'k', **given})

    def changing(self):
        """Return the requests that change something."""
        return [what for what, _ in self.cloud.queries if not what.startswith('GET')]


class Repeats(RepeatCase):
    def test_a_repeat_with_the_same_arguments_finds_the_server(self):
        self.cloud.answers[DETAIL] = {'servers': [server()]}
        self.assertEqual('s-1', self.build(amphora_flavor='tiny', image_id=IMAGE))

    def test_other_arguments_are_refused_before_any_change(self):
        self.cloud.answers[DETAIL] = {'servers': [server()]}
        for argument, value, had in (
            ('amphora_flavor', 'small', 'tiny'),
            ('image_id', IMAGE.replace('4', '5'), IMAGE),
            ('name', 'other', 'web'),
        ):
            with self.subTest(argument), self.assertRaises(BuildDiffers) as caught:
                self.build(**{'amphora_flavor': 'tiny', 'image_id': IMAGE, argument: value})
            error = caught.exception
            self.assertEqual(
                ('s-1', 'k', 'east'), (error.amphora_id, error.build_key, error.backend)
            )
            self.assertIn(f"its {argument} is '{had}' and not '{value}'", str(error))
        self.assertEqual([], self.changing())

    def test_arguments_that_were_not_given_are_not_compared(self):
        self.cloud.answers[DETAIL] = {'servers': [server(metadata={'kiln:type': 'vm'})]}
        self.assertEqual('s-1', self.build(amphora_flavor='small', image_id=IMAGE))
        self.cloud.answers[DETAIL] = {'servers': [server()]}
        self.assertEqual('s-1', self.build())

    def test_a_repeat_finds_the_server_whatever_the_name_of_its_image_stands_for_now(self):
        self.cloud.answers[DETAIL] = {'servers': [server(metadata=ASKED | {'kiln:image': 'os'})]}
        for images in [], [{'id': 'i-2'}], [{'id': 'i-2'}, {'id': 'i-3'}]:
            with self.subTest(images=len(images)):
                self.cloud.answers['GET /v2/images'] = {'images': images}
                self.assertEqual('s-1', self.build(image_id='os'))
        self.assertEqual([], self.changing())

    def test_twins_are_left_to_their_own_build(self):
        twins = [server('s-1'), server('s-2', created='2026-11-21T09:37:51Z')]
        self.cloud.answers[DETAIL] = {'servers': twins}
        self.assertRaises(BuildDiffers, self.build, name='other')
        self.assertEqual([], self.changing())
        self.cloud.answers['DELETE /servers/s-2'] = (204, {}, '')
        self.assertEqual('s-1', self.build())
        self.assertEqual(['DELETE /servers/s-2'], self.changing())

    def test_the_server_that_a_build_has_returned_is_kept_and_a_late_one_deleted(self):
        self.cloud.answers[DETAIL] = {'servers': []}
        self.cloud.answers['GET /servers'] = {'servers': []}
        self.cloud.answers['POST /servers'] = (504, {}, '')
        self.assertRaises(AmphoraComputeError, self.build)
        self.cloud.answers['POST /servers'] = (202, {}, {'server': {'id': 's-2'}})
        self.assertEqual('s-2', self.build())
        # The first request, of which nobody has seen the answer, was older.
        twins = [server('s-1'), server('s-2', created='2026-11-21T09:37:51Z')]
        self.cloud.answers[DETAIL] = {'servers': twins}
        for one in 's-1', 's-2':
            self.cloud.answers[f'DELETE /servers/{one}'] = (204, {}, '')
            plugged = {'interfaceAttachments': [{}]}
            self.cloud.answers[f'GET /servers/{one}/os-interface'] = plugged
        self.assertEqual('s-2', self.driver.find_build('k').id)
        self.assertEqual(['POST /servers'] * 2 + ['DELETE /servers/s-1'], self.changing())

    def test_servers_of_another_case_are_neither_adopted_nor_deleted_nor_listed(self):
        # Nova on MySQL finds them by the tags of this build.
        strangers = [
            server('s-2', tags=['kiln-key:K', 'kiln-site:kiln']),
            server('s-3', tags=['kiln-key:k', 'kiln-site:Kiln']),
        ]
        self.cloud.answers[DETAIL] = {'servers': strangers}
        self.cloud.answers['GET /servers'] = {'servers': []}
        self.cloud.answers['POST /servers'] = (202, {}, {'server': {'id': 's-4'}})
        self.assertEqual('s-4', self.build())
        self.assertIsNone(self.driver.find_build('k'))
        self.assertEqual(['POST /servers'], self.changing())
        self.assertEqual(['s-2'], [one.id for one in self.driver.list_amphorae()])
        self.assertEqual('s-2', self.driver.get_amphora('web').id)

    def test_a_server_of_another_site_that_has_the_port_is_not_adopted(self):
        self.cloud.answers[DETAIL] = {'servers': []}
        taken = ANSWERS['nova/build_port_in_use']
        self.cloud.answers['POST /servers'] = taken['status'], taken['headers'], taken['body']
        self.cloud.answers['GET /v2.0/ports/p-1'] = {'port': {'device_id': 's-1'}}
        theirs = server(tags=['kiln-key:k', 'kiln-site:other'])
        self.cloud.answers['GET /servers/s-1'] = {'server': theirs}
        self.assertRaises(BuildConflict, self.build, port_ids=['p-1'])

    def test_a_cursor_that_is_not_a_time_returns_everything(self):
        self.cloud.answers[DETAIL] = {'servers': [server()]}
        changes = self.driver.changes('prefix-of-another-cloud-7')
        self.assertTrue(changes.complete)
        self.assertEqual(['s-1'], [one.amphora_id for one in changes.statuses])
        self.assertNotIn('changes-since', self.cloud.queries[-1][1])

    def test_a_server_that_took_the_port_first_is_compared_too(self):
        self.cloud.answers[DETAIL] = {'servers': []}
        taken = ANSWERS['nova/build_port_in_use']
        self.cloud.answers['POST /servers'] = taken['status'], taken['headers'], taken['body']
        self.cloud.answers['GET /v2.0/ports/p-1'] = {'port': {'device_id': 's-1'}}
        self.cloud.answers['GET /servers/s-1'] = {'server': server()}
        self.assertEqual('s-1', self.build(port_ids=['p-1']))
        with self.assertRaises(BuildDiffers) as caught:
            self.build(port_ids=['p-1'], name='other')
        self.assertEqual('s-1', caught.exception.amphora_id)
        self.assertEqual(['POST /servers'] * 2, self.changing())


class Rebuilds(RepeatCase):
    def rebuilt(self, **given):
        """Rebuild s-1; return the requests to Nova."""
        self.cloud.answers['POST /servers/s-1/action'] = (202, {}, {'server': {}})
        self.driver.rebuild('s-1', **given)
        (sent,) = [body for what, _, body in self.cloud.asked if what.startswith('POST')]
        return json.loads(sent)['rebuild']

    def test_another_image_is_stored_as_it_was_requested(self):
        self.cloud.answers['GET /v2/images'] = {'images': [{'id': 'i-2'}]}
        metadata = {**ASKED, 'colour': 'grey'}
        self.cloud.answers['GET /servers/s-1'] = {'server': server(metadata=metadata)}
        sent = self.rebuilt(image_id='debian')
        self.assertEqual(
            {'imageRef': 'i-2', 'metadata': {**metadata, 'kiln:image': 'debian'}}, sent
        )
        found = server(metadata=sent['metadata'])
        self.cloud.answers[DETAIL] = {'servers': [found]}
        self.cloud.answers['GET /servers/s-1'] = {'server': found}
        self.assertEqual('debian', self.driver.get_amphora(amphora_id='s-1').image_id)
        self.assertEqual('s-1', self.build(image_id='debian'))
        self.assertRaises(BuildDiffers, self.build, image_id=IMAGE)

    def test_a_rebuild_from_its_own_image_changes_no_metadata(self):
        self.cloud.answers['GET /servers/s-1'] = {'server': server()}
        self.assertEqual({'imageRef': 'i-1'}, self.rebuilt())

    def test_a_missing_image_is_refused_before_any_change(self):
        self.cloud.answers['GET /v2/images'] = {'images': []}
        self.assertRaises(InvalidRequest, self.driver.rebuild, 's-1', image_id='none')
        self.assertEqual([], self.changing())
