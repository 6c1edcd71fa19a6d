"""Deletes of which a bus that is connected reports nothing."""

from kiln.models import State
from tests.unit.compute_drivers.nova.notifications.test_listening import (
    GONE,
    ListeningCase,
    server,
)


class UnheardDeletes(ListeningCase):
    def test_a_server_that_only_nova_itself_shows_as_deleting_is_requested_again(self):
        self.connect()
        self.build('a')
        self.cloud.answers['DELETE /servers/a'] = (204, {}, '')
        self.cloud.answers['GET /servers/a'] = {'server': server('a', 'active', 'deleting')}
        self.driver.delete('a')
        self.clock.advance(4)
        self.assertEqual({'a': State.DELETING}, self.states('a'))
        self.cloud.answers['GET /servers/a'] = GONE
        self.asked()
        self.clock.advance(6)
        self.assertEqual({}, self.states('a'))
        self.assertEqual(['GET /servers/a'], self.asked())
