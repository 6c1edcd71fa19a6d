"""Who is ACTIVE, or in ERROR, by a list of ids: what Nova need not ask Neutron about."""

from kiln.models import State
from tests.unit.compute_drivers.nova.test_doubts import PORT, DoubtsCase, active

LIST = 'GET /servers'
SINCE = '2026-01-01T00:00:00Z'


def row(server_id, **more):
    return {'id': server_id, 'name': 'web', 'links': [], **more}


class Reached(DoubtsCase):
    """Two servers are in doubt, `a` and `b`, and `c` is not."""

    def reached(self, *rows, state=State.ACTIVE):
        self.cloud.answers[LIST] = {'servers': list(rows)}
        return self.driver.reached(state, SINCE)

    def test_nova_is_asked_for_ids_of_this_site_in_one_state(self):
        self.assertEqual({'c', 'd'}, self.reached(row('c'), row('d')))
        (asked,) = self.cloud.queries
        self.assertEqual(LIST, asked[0])
        wanted = {'changes-since': SINCE, 'status': 'ACTIVE', 'tags': 'kiln-site:kiln'}
        self.assertEqual(wanted, {name: asked[1][name] for name in wanted})

    def test_those_that_failed_are_asked_for_the_same_way(self):
        self.assertEqual({'c'}, self.reached(row('c'), state=State.ERROR))
        self.assertEqual('ERROR', self.cloud.queries[0][1]['status'])

    def test_one_whose_cell_is_down_has_reached_nothing(self):
        self.assertEqual({'c'}, self.reached(row('c'), row('d', status='UNKNOWN')))

    def test_one_that_is_in_doubt_takes_a_look_at_everything(self):
        self.assertIsNone(self.reached(row('c'), row('a')))

    def test_one_that_was_proven_is_in_doubt_no_more(self):
        self.cloud.answers['GET /servers/a/os-interface'] = PORT
        self.clock.advance(1)
        cursor = self.driver.changes().cursor
        self.clock.advance(3)
        # With the next answer it is known that this one has arrived.
        self.driver.changes(cursor)
        self.assertEqual({'a', 'c'}, self.reached(row('a'), row('c')))

    def test_one_that_is_being_deleted_here_counts_no_more(self):
        self.cloud.answers['DELETE /servers/c'] = (204, {}, '')
        self.cloud.answers['GET /servers/c'] = {'server': active('c', 'c')}
        self.driver.delete('c')
        self.assertEqual({'d'}, self.reached(row('c'), row('d')))
