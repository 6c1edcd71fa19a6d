"""Claims on Nova: which tags are written in which order, and when none are left."""

import copy
import json
import unittest

from kiln.compute_drivers.nova.bench import NovaBench
from kiln.compute_drivers.nova.driver import NovaDriver
from kiln.exceptions import (
    BuildConflict,
    BuildDiffers,
    InstanceNotFoundError,
    InstanceStateConflict,
    InvalidRequest,
    ServiceUnavailable,
)
from kiln.testing.clock import VirtualClock
from tests.unit.compute_drivers.nova.corpus import SERVERS
from tests.unit.compute_drivers.nova.loopback import Loopback
from tests.unit.compute_drivers.nova.written import written

IMAGE = '4bfa4ff8-0632-421c-b662-4005c136db4b'
KEY, OWNER = 'kiln-key:k', 'kiln-site:kiln'


def error(status, key, message):
    return status, {}, {key: {'code': status, 'message': message}}


class Tagging(Loopback):
    """A Nova whose servers have tags."""

    def __init__(self, clock):
        super().__init__({'GET /flavors': {'flavors': [{'id': 'f-tiny', 'name': 'tiny'}]}}, clock)
        self.servers = {}
        #: By the number of a change of tags: what happens right after it.
        self.meanwhile = {}
        #: What is answered instead of changes, and whether they take effect.
        self.failing = []
        self.changed = []

    def add(self, server_id, *tags, **facts):
        states = {'OS-EXT-STS:vm_state': 'active', 'OS-EXT-STS:task_state': None}
        made = {
            'id': server_id, 'name': 'by-hand', 'tags': list(tags), 'status': 'ACTIVE',
            'metadata': {'rack': '7'}, 'flavor': {'original_name': 'm1.large'},
            'image': {'id': 'i-1'}, 'addresses': {},
        }  # fmt: skip
        server = copy.deepcopy(SERVERS['building']) | states | made | facts
        self.servers[server_id] = server
        return server

    def tags(self, server_id='s-1'):
        return self.servers[server_id]['tags']

    def answer(self, what, query):
        verb, _, path = what.partition(' ')
        parts = path.strip('/').split('/')
        if parts[0] == 'servers':
            self.answers[what] = self.served(verb, parts[1:], query)
        return super().answer(what, query)

    def served(self, verb, parts, query):
        if not parts:
            return {'servers': [{'id': one} for one in self.servers]}
        if parts == ['detail']:
            # As MySQL does, without regard to capitals.
            wanted = {tag.lower() for tag in query.get('tags', '').split(',') if tag}
            has = [(one, {tag.lower() for tag in one['tags']}) for one in self.servers.values()]
            return {'servers': [one for one, tags in has if wanted <= tags]}
        server = self.servers.get(parts[0])
        if server is None:
            return error(404, 'itemNotFound', f'Instance {parts[0]} could not be found.')
        if verb == 'DELETE' and len(parts) == 1:
            return 204, {}, ''
        if parts[1:] == ['action']:
            return 202, {}, {'server': server}
        if parts[1:2] == ['tags']:
            return self.tagged(verb, server, parts[2])
        return {'server': server}

    def tagged(self, verb, server, tag):
        if self.failing:
            answer, takes_effect = self.failing.pop(0)
            if not takes_effect:
                return answer
        else:
            answer = (204, {}, '')
        tags = server['tags']
        if verb == 'PUT':
            if len(tags) >= 50:
                said = 'The number of tags exceeded the per-server limit 50'
                return error(400, 'badRequest', said)
            tags.append(tag)
        elif tag not in tags:
            return error(404, 'itemNotFound', f"Instance {server['id']} has no tag '{tag}'")
        else:
            tags.remove(tag)
        self.changed.append(f'{verb} {tag}')
        self.meanwhile.pop(len(self.changed), lambda: None)()
        return answer


class ClaimCase(unittest.TestCase):
    more = ()

    def setUp(self):
        clock = VirtualClock()
        self.cloud = Tagging(clock)
        self.enterContext(self.cloud)
        conf = written(
            'auth_type = none', f'compute_endpoint_override = {self.cloud.url}',
            f'image_endpoint_override = {self.cloud.url}',
            f'network_endpoint_override = {self.cloud.url}', 'microversion = 2.96',
            'flavor = tiny', f'image = {IMAGE}', *self.more,
        )  # fmt: skip
        self.driver = NovaDriver.open(conf, name='east', owner='kiln', clock=clock)
        self.addCleanup(self.driver.close)

    def refused(self, kind, said, server_id='s-1'):
        with self.assertRaisesRegex(kind, said) as caught:
            self.driver.claim(server_id, 'k')
        self.assertEqual(server_id, caught.exception.amphora_id)
        return caught.exception


class Claims(ClaimCase):
    def test_the_key_is_written_before_the_owner_and_other_tags_stay(self):
        self.cloud.add('s-1', 'theirs')
        self.driver.claim('s-1', 'k')
        self.assertEqual([f'PUT {KEY}', f'PUT {OWNER}'], self.cloud.changed)
        self.assertEqual(['theirs', KEY, OWNER], self.cloud.tags())

    def test_nothing_but_tags_is_written(self):
        self.cloud.add('s-1')
        self.driver.claim('s-1', 'k')
        changing = [what for what, _ in self.cloud.queries if not what.startswith('GET')]
        self.assertEqual([f'PUT /servers/s-1/tags/{one}' for one in (KEY, OWNER)], changing)

    def test_a_repeat_writes_nothing(self):
        # At the limit Nova would refuse even a tag that the server has.
        self.cloud.add('s-1', KEY, OWNER, *map(str, range(48)))
        self.driver.claim('s-1', 'k')
        self.assertEqual([], self.cloud.changed)

    def test_a_claim_that_ended_between_its_tags_is_nobodys_and_can_be_repeated(self):
        self.cloud.add('s-1')
        lost = error(503, 'computeFault', 'gone')
        for effect, ahead in ((False, []), (True, [])):
            with self.subTest(effect=effect):
                self.cloud.servers['s-1']['tags'] = ahead
                self.cloud.failing = [((204, {}, ''), True), (lost, effect)]
                with self.assertRaises(ServiceUnavailable):
                    self.driver.claim('s-1', 'k')
                self.assertEqual(KEY, self.cloud.tags()[0])
                self.driver.claim('s-1', 'k')
                self.assertEqual([KEY, OWNER], self.cloud.tags())

    def test_a_half_claimed_server_is_not_listed(self):
        self.cloud.add('s-1', KEY)
        self.assertEqual([], list(self.driver.list_amphorae()))
        self.assertIsNone(self.driver.find_build('k'))

    def test_a_server_of_another_site_is_refused_and_stays_as_it_is(self):
        self.cloud.add('s-1', 'kiln-site:other', KEY)
        self.refused(InvalidRequest, "it belongs to site 'other', and this site is 'kiln'")
        self.cloud.add('s-1', 'kiln-heat:other')
        self.refused(InvalidRequest, "it is the server of a stack of site 'other'")
        self.assertEqual([], self.cloud.changed)

    def test_a_server_of_this_site_with_another_key_is_refused(self):
        self.cloud.add('s-1', OWNER, 'kiln-key:K')
        self.refused(InvalidRequest, "with build key 'K' and not 'k'")
        self.assertEqual([], self.cloud.changed)

    def test_a_server_with_the_key_of_an_unfinished_claim_is_refused(self):
        self.cloud.add('s-1', 'kiln-key:old')
        self.refused(InvalidRequest, 'tag kiln-key:old of another claim')
        self.assertEqual([], self.cloud.changed)

    def test_a_key_that_another_server_of_the_site_has_is_refused(self):
        self.cloud.add('s-1')
        self.cloud.add('s-2', OWNER, KEY)
        self.refused(BuildConflict, 'amphora s-2 of this site has build key')
        self.cloud.add('s-2', KEY)
        self.refused(BuildConflict, 'server s-2 has the tag kiln-key:k of a claim')
        self.assertEqual([], self.cloud.changed)

    def test_a_key_of_another_site_or_in_other_capitals_is_not_in_use(self):
        self.cloud.add('s-1')
        self.cloud.add('s-2', 'kiln-site:other', KEY)
        self.cloud.add('s-3', OWNER, 'kiln-key:K')
        self.driver.claim('s-1', 'k')
        self.assertEqual([KEY, OWNER], self.cloud.tags())

    def test_a_server_without_room_for_two_tags_is_refused_before_one_is_written(self):
        self.cloud.add('s-1', *map(str, range(49)))
        said = 'it has 49 tags, Nova allows 50, and the claim needs 2 more'
        self.refused(InvalidRequest, said)
        self.assertEqual([], self.cloud.changed)

    def test_a_server_that_does_not_exist_is_not_found(self):
        for server_id in ('s-9', '../s-1', 'detail'):
            self.refused(InstanceNotFoundError, server_id, server_id)

    def test_a_state_in_which_nova_takes_no_tags_is_a_conflict(self):
        for vm_state, again in (('building', True), ('error', False)):
            with self.subTest(vm_state):
                self.cloud.add('s-1')
                said = f"Cannot 'update tag' instance s-1 while it is in vm_state {vm_state}"
                self.cloud.failing = [(error(409, 'conflictingRequest', said), False)]
                self.assertEqual(again, self.refused(InstanceStateConflict, said).retryable)
        self.assertEqual([], self.cloud.tags())

    def test_servers_of_a_cell_that_is_down_could_have_the_key(self):
        self.cloud.add('s-1')
        self.cloud.served = self.with_a_cell_down(self.cloud.served)
        self.assertTrue(self.refused(ServiceUnavailable, 'a cell of Nova is down').retryable)

    def with_a_cell_down(self, served):
        down = {'servers': [{'id': 's-8', 'status': 'UNKNOWN'}]}
        return lambda verb, parts, query: served(verb, parts, query) if parts else down


class Races(ClaimCase):
    def test_a_claim_of_another_server_that_came_between_is_seen_and_this_one_taken_back(self):
        self.cloud.add('s-1', 'theirs')
        for number, tags in ((1, [KEY]), (2, [KEY, OWNER])):
            with self.subTest(tags):
                self.cloud.changed.clear()
                self.cloud.meanwhile[number] = lambda tags=tags: self.cloud.add('s-2', *tags)
                self.refused(BuildConflict, 's-2')
                self.assertEqual(['theirs'], self.cloud.tags())
                del self.cloud.servers['s-2']

    def test_the_owner_is_taken_back_before_the_key(self):
        self.cloud.add('s-1')
        self.cloud.meanwhile[2] = lambda: self.cloud.add('s-2', KEY, OWNER)
        self.refused(BuildConflict, 's-2')
        self.assertEqual([f'DELETE {OWNER}', f'DELETE {KEY}'], self.cloud.changed[2:])

    def test_another_site_that_came_between_keeps_the_server_with_its_key(self):
        self.cloud.add('s-1')
        self.cloud.meanwhile[2] = lambda: self.cloud.tags().append('kiln-site:other')
        self.refused(InvalidRequest, "it belongs to site 'other'")
        self.assertEqual([KEY, 'kiln-site:other'], self.cloud.tags())

    def test_a_tag_that_cannot_be_taken_back_is_logged(self):
        self.cloud.add('s-1')

        def fail():
            self.cloud.add('s-2', KEY)
            self.cloud.failing = [(error(500, 'computeFault', 'no'), False)]

        self.cloud.meanwhile[1] = fail
        with self.assertLogs('kiln', 'WARNING') as logged:
            self.refused(BuildConflict, 's-2')
        self.assertIn(f'Tag {KEY} stays on server s-1', logged.output[0])

    def test_a_claimed_server_is_never_deleted_as_a_twin(self):
        self.cloud.add('s-1', KEY, OWNER, created='2026-01-02T00:00:00Z')
        self.cloud.add(
            's-2', KEY, OWNER, metadata={'kiln:type': 'vm'}, created='2026-01-01T00:00:00Z'
        )
        self.assertEqual('s-2', self.driver.find_build('k').id)
        changing = [what for what, _ in self.cloud.queries if not what.startswith('GET')]
        self.assertEqual([], changing)


class AfterAClaim(ClaimCase):
    more = ('port_lock = true',)

    def setUp(self):
        super().setUp()
        self.cloud.add('s-1')
        self.driver.claim('s-1', 'k')

    def test_it_is_described_by_what_nova_knows(self):
        for found in (
            self.driver.get_amphora(amphora_id='s-1'),
            self.driver.find_build('k'),
            *self.driver.list_amphorae(),
        ):
            facts = found.owner, found.build_key, found.name, found.flavor, found.image_id
            self.assertEqual(('kiln', 'k', 'by-hand', 'm1.large', 'i-1'), facts)
            self.assertEqual({'rack': '7'}, dict(found.metadata))

    def test_a_build_with_the_key_and_the_name_returns_it_as_no_flavor_was_requested(self):
        for given in ({}, {'amphora_flavor': 'tiny', 'image_id': IMAGE}):
            self.assertEqual('s-1', self.driver.build(name='by-hand', build_key='k', **given))

    def test_a_build_with_the_key_and_no_name_returns_it(self):
        self.assertEqual('s-1', self.driver.build(build_key='k'))

    def test_a_build_with_the_key_and_another_name_is_refused(self):
        with self.assertRaisesRegex(BuildDiffers, "its name is 'by-hand' and not 'web'"):
            self.driver.build(name='web', build_key='k')

    def test_its_rebuild_keeps_the_metadata_of_others(self):
        self.cloud.answers['GET /images'] = {'images': []}
        self.cloud.answers[f'GET /images/{IMAGE}'] = {'id': IMAGE, 'status': 'active'}
        self.driver.rebuild('s-1', image_id=IMAGE)
        (sent,) = [body for what, _, body in self.cloud.asked if what.endswith('/action')]
        metadata = json.loads(sent)['rebuild']['metadata']
        self.assertEqual({'rack': '7', 'kiln:image': IMAGE}, metadata)

    def test_its_delete_takes_no_port_that_kiln_has_not_made(self):
        self.driver.find_build('k')
        queries = []

        def ports(query):
            queries.append(query)
            # What Neutron would find with these filters on the ports of the server.
            mine = {'id': 'p-1', 'name': 'eth0', 'description': '', 'device_id': 's-1'}
            return {'ports': [mine] if {'device_id'} == query.keys() - {'fields'} else []}

        self.cloud.answers['GET /v2.0/ports'] = ports
        self.driver.delete('s-1')
        self.assertTrue(queries)
        changing = [what for what, _ in self.cloud.queries if what.startswith('DELETE')]
        self.assertEqual(['DELETE /servers/s-1'], changing)


class BenchTest(ClaimCase):
    def test_it_makes_a_server_without_any_mark_of_kiln(self):
        made = self.cloud.add('s-1')
        self.cloud.answers[f'GET /images/{IMAGE}'] = {'id': IMAGE, 'status': 'active'}
        served, sent = self.cloud.served, self.cloud.asked

        def with_builds(verb, parts, query):
            if verb == 'POST' and not parts:
                made.update(json.loads(sent[-1][2])['server'])
                return 202, {}, {'server': {'id': 's-1'}}
            if (verb, parts[1:]) == ('DELETE', ['tags']):
                made['tags'] = []
                return 204, {}, ''
            if (verb, parts[1:]) == ('PUT', ['metadata']):
                made['metadata'] = json.loads(sent[-1][2])['metadata']
                return {'metadata': made['metadata']}
            return served(verb, parts, query)

        self.cloud.served = with_builds
        server_id = NovaBench(self.driver).make_unowned('kit-1')
        found = self.driver.get_amphora(amphora_id=server_id)
        self.assertEqual(('kit-1', None, None), (found.name, found.owner, found.build_key))
        self.assertEqual({'made': 'by hand'}, made['metadata'])
        self.assertEqual([], made['tags'])
