"""Lists of ids in one state, for which Nova sends no request to Neutron."""

from kiln.models import State
from tests.unit.compute_drivers.nova.test_doubts import PORT, DoubtsCase, active

LIST = 'GET /servers'
SINCE = '2026-01-01T00:00:00Z'


def row(server_id, **more):
    return {'id': server_id, 'name': 'web', 'links': [], **more}


class Reached(DoubtsCase):
    """The servers `a` and `b` are in doubt, and `c` is not."""

    def reached(self, *rows, state=State.ACTIVE):
        self.cloud.answers[LIST] = {'servers': list(rows)}
        return self.driver.reached(state, SINCE)

    def test_the_list_has_the_ids_of_this_site_in_one_state(self):
        self.assertEqual({'c', 'd'}, self.reached(row('c'), row('d')))
        (asked,) = self.cloud.queries
        self.assertEqual(LIST, asked[0])
        wanted = {'changes-since': SINCE, 'status': 'ACTIVE', 'tags': 'kiln-site:kiln'}
        self.assertEqual(wanted, {name: asked[1][name] for name in wanted})

    def test_failed_servers_are_listed_in_the_same_way(self):
        self.assertEqual({'c'}, self.reached(row('c'), state=State.ERROR))
        self.assertEqual('ERROR', self.cloud.queries[0][1]['status'])

    def test_a_server_whose_cell_is_down_has_not_reached_the_state(self):
        self.assertEqual({'c'}, self.reached(row('c'), row('d', status='UNKNOWN')))

    def test_a_doubtful_server_requires_a_full_poll(self):
        self.assertIsNone(self.reached(row('c'), row('a')))

    def test_a_proven_server_is_no_longer_doubtful(self):
        self.cloud.answers['GET /servers/a/os-interface'] = PORT
        self.clock.advance(1)
        cursor = self.driver.changes().cursor
        self.clock.advance(3)
        # The next request shows that this answer has arrived.
        self.driver.changes(cursor)
        self.assertEqual({'a', 'c'}, self.reached(row('a'), row('c')))

    def test_a_server_being_deleted_here_is_left_out(self):
        self.cloud.answers['DELETE /servers/c'] = (204, {}, '')
        self.cloud.answers['GET /servers/c'] = {'server': active('c', 'c')}
        self.driver.delete('c')
        self.assertEqual({'d'}, self.reached(row('c'), row('d')))
