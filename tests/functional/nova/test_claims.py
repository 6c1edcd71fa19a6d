"""Claims of servers that were made without kiln, on the real Nova."""

from kiln.exceptions import InstanceStateConflict, InvalidRequest
from tests.functional.nova.test_driver import DriverCase

COMPUTE = {
    'endpoint_filter': {'service_type': 'compute'},
    'headers': {'OpenStack-API-Version': 'compute 2.96'},
}


class Claims(DriverCase):
    def make_server(self, **more):
        """Make a server by hand, and wait until it has settled; return its id."""
        flavors = {one['name']: one['id'] for one in self.list('compute', 'flavors')}
        server = {
            'name': 'by-hand', 'flavorRef': flavors['tiny'],
            'imageRef': self.find('image', 'images', name='tiny')['id'],
            'networks': [{'uuid': self.net_id}], 'metadata': {'rack': '7'}, 'tags': ['theirs'],
            **more,
        }  # fmt: skip
        answer = self.session.post('/servers', json={'server': server}, **COMPUTE)
        server_id = answer.json()['server']['id']
        self.addCleanup(self.admin.delete, f'/servers/{server_id}', raise_exc=False, **COMPUTE)
        self.settled(server_id)
        return server_id

    def act(self, server_id, action, session=None):
        path = f'/servers/{server_id}/action'
        (session or self.session).post(path, json={action: None}, **COMPUTE)

    def facts(self, server_id):
        shown = self.shown(server_id)
        names = ('name', 'status', 'metadata', 'addresses', 'flavor', 'image')
        return {name: shown[name] for name in names}

    def test_a_server_made_by_hand_becomes_one_of_the_site_and_stays_as_it_is(self):
        server_id = self.make_server()
        before = self.facts(server_id)
        self.driver.claim(server_id, 'k')
        self.driver.claim(server_id, 'k')
        self.assertEqual(before, self.facts(server_id))
        tags = {'theirs', 'kiln-key:k', f'kiln-site:{self.owner}'}
        self.assertEqual(tags, set(self.shown(server_id)['tags']))
        self.assertEqual([server_id], [one.id for one in self.driver.list_amphorae()])
        self.assertEqual(server_id, self.driver.build(name='by-hand', build_key='k'))

    def test_a_claimed_server_is_suspended_rebuilt_plugged_and_deleted_like_any_other(self):
        server_id = self.make_server()
        self.driver.claim(server_id, 'k')
        self.driver.suspend(server_id)
        self.settled(server_id)
        self.driver.resume(server_id)
        self.settled(server_id)
        port_id = self.make_port()
        self.driver.attach_port(server_id, port_id)
        self.driver.detach_port(server_id, port_id)
        self.driver.rebuild(server_id)
        self.settled(server_id)
        self.assertEqual('k', self.driver.get_amphora(amphora_id=server_id).build_key)
        self.driver.delete(server_id)
        self.eventually(lambda: self.driver.find_build('k') is None)

    def test_a_locked_server_can_be_claimed(self):
        server_id = self.make_server()
        self.act(server_id, 'lock')
        self.driver.claim(server_id, 'k')
        self.assertEqual('k', self.driver.get_amphora(amphora_id=server_id).build_key)
        self.act(server_id, 'unlock')

    def test_a_server_in_error_cannot_be_claimed_and_gets_no_tag(self):
        server_id = self.make_server()
        self.admin.post(
            f'/servers/{server_id}/action', json={'os-resetState': {'state': 'error'}}, **COMPUTE
        )
        with self.assertRaises(InstanceStateConflict) as caught:
            self.driver.claim(server_id, 'k')
        self.assertFalse(caught.exception.retryable)
        self.assertEqual(['theirs'], self.shown(server_id)['tags'])

    def test_a_server_without_room_for_two_tags_is_refused(self):
        server_id = self.make_server(tags=[f'theirs-{number}' for number in range(49)])
        with self.assertRaisesRegex(InvalidRequest, 'it has 49 tags, Nova allows 50'):
            self.driver.claim(server_id, 'k')
