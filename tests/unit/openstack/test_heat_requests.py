"""Requests to Heat that both kinds of drivers send."""

import unittest

from kiln.openstack.heat.requests import StackRequests


class Recorded(StackRequests):
    """Returns stacks page by page, and records what is asked."""

    page = 2

    def __init__(self, *ids):
        self.ids = list(ids)
        self.asked = []

    def ask(self, action, method, path, *, query=None, body=None):
        self.asked.append((method, path, query))
        rows = self.ids
        if query and 'marker' in query:
            rows = rows[rows.index(query['marker']) + 1 :]
        return {'stacks': [{'id': one, 'stack_name': f'name-{one}'} for one in rows[: self.page]]}


class Requests(unittest.TestCase):
    def test_a_list_is_read_to_its_last_page(self):
        heat = Recorded('a', 'b', 'c', 'd', 'e')
        self.assertEqual(['a', 'b', 'c', 'd', 'e'], [row.id for row in heat.stacks(tags='x')])
        self.assertEqual(3, len(heat.asked))

    def test_a_heat_that_repeats_itself_is_given_up(self):
        class Repeating(Recorded):
            def ask(self, action, method, path, *, query=None, body=None):
                return super().ask(action, method, path)

        self.assertLess(len(list(Repeating('a', 'b').stacks())), 1000)

    def test_an_id_and_a_name_are_compared_as_a_whole(self):
        heat = Recorded('A')
        self.assertIsNone(heat.with_id('a'))
        self.assertEqual('A', heat.with_id('A').id)
        self.assertIsNone(heat.named('name-a'))
