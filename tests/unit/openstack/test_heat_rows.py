"""Stacks, failed resources and previews as Heat describes them."""

import unittest

from kiln.openstack.heat.rows import Preview, StackRow, failures, reason_of, servers

ROW = {
    'id': 's1', 'stack_name': 'kiln-east-c1', 'stack_status': 'UPDATE_IN_PROGRESS',
    'stack_status_reason': 'Stack UPDATE started', 'updated_time': '2026-11-26T06:00:00Z',
    'tags': ['kiln'],
}  # fmt: skip


def resource(name, status, *, stack='s1', nested=None, reason='', kind='OS::Nova::Server'):
    links = [{'rel': 'stack', 'href': f'http://heat/v1/p/stacks/x/{stack}'}]
    if nested:
        links.append({'rel': 'nested', 'href': f'http://heat/v1/p/stacks/y/{nested}'})
    return {
        'resource_name': name, 'resource_status': status, 'resource_type': kind,
        'resource_status_reason': reason, 'links': links,
    }  # fmt: skip


class Rows(unittest.TestCase):
    def test_a_row_has_action_and_status_apart(self):
        row = StackRow.read(ROW)
        self.assertEqual(('UPDATE', 'IN_PROGRESS'), (row.action, row.status))
        self.assertEqual('UPDATE_IN_PROGRESS', row.state)

    def test_what_heat_leaves_out_or_answers_wrongly_is_empty(self):
        for found in ({}, {'tags': None, 'stack_status': None, 'id': 7}):
            self.assertEqual(StackRow(id='', name='', action='', status=''), StackRow.read(found))

    def test_a_deleted_stack_is_gone_although_heat_shows_it(self):
        self.assertTrue(StackRow.read({**ROW, 'stack_status': 'DELETE_COMPLETE'}).gone)
        self.assertFalse(StackRow.read({**ROW, 'stack_status': 'DELETE_FAILED'}).gone)


class Reasons(unittest.TestCase):
    row = StackRow.read({**ROW, 'stack_status': 'CREATE_FAILED', 'stack_status_reason': 'failed'})

    def test_the_resource_that_failed_is_named_through_nested_stacks(self):
        found = failures(
            [
                resource('workers', 'CREATE_FAILED', nested='s2', reason='resources[2]: failed'),
                resource('2', 'CREATE_FAILED', stack='s2', nested='s3', reason='failed'),
                resource('server', 'CREATE_FAILED', stack='s3', reason='No valid host was found.'),
                resource('port', 'CREATE_COMPLETE', stack='s3'),
            ]
        )
        self.assertEqual(
            'Stack kiln-east-c1 is CREATE_FAILED: workers.2.server (OS::Nova::Server): No valid '
            'host was found.',
            reason_of(self.row, found),
        )

    def test_a_nested_stack_that_failed_by_itself_is_named(self):
        found = failures([resource('workers', 'CREATE_FAILED', nested='s2', reason='no quota')])
        self.assertEqual(
            ['workers (OS::Nova::Server): no quota'], [one.told(str) for one in found]
        )

    def test_without_failed_resources_the_words_of_the_stack_are_left(self):
        self.assertEqual('Stack kiln-east-c1 is CREATE_FAILED: failed.', reason_of(self.row, []))

    def test_a_reason_names_a_few_of_many_resources_and_is_short(self):
        many = [resource(f'r{n}', 'CREATE_FAILED', reason='x' * 70_000) for n in range(50)]
        reason = reason_of(self.row, failures(many))
        self.assertLess(len(reason), 3000)
        self.assertIn('and 45 more', reason)

    def test_resources_that_contain_each_other_end_the_climb(self):
        found = failures(
            [
                resource('a', 'CREATE_FAILED', stack='s2', nested='s1'),
                resource('b', 'CREATE_FAILED', stack='s1', nested='s2'),
                resource('c', 'CREATE_FAILED', stack='s1', reason='no'),
            ]
        )
        self.assertEqual(1, len(found))


class Previews(unittest.TestCase):
    def lines(self, **found):
        changes = {
            kind: [{'resource_name': name, 'resource_type': of} for name, of in rows]
            for kind, rows in found.items()
        }
        found = Preview.read(changes)
        return [*found.losses(frozenset({'OS::Nova::Server'})), *found.lines()]

    def test_nodes_that_would_be_lost_are_named_first(self):
        lines = self.lines(
            added=[('work-4', 'OS::Nova::Server')],
            replaced=[('work-1', 'OS::Nova::Server'), ('net', 'OS::Neutron::Net')],
        )
        self.assertRegex(lines[0], r'Heat would replace nodes.*lost: work-1\.')
        self.assertIn('Heat: 1 resources added: work-4 (OS::Nova::Server)', lines)

    def test_resources_of_one_name_in_several_nested_stacks_are_told_apart(self):
        rows = [
            {'resource_name': 'server', 'resource_type': 'OS::Nova::Server',
             'stack_name': f'web-work-abc-{n}-def', 'parent_resource': str(n),
             'resource_identity': {'stack_id': f'id-{n}', 'path': '/resources/server'}}
            for n in (1, 2, 3)
        ]  # fmt: skip
        found = Preview.read({'replaced': [*rows, rows[0]]})
        first, last = (*found.losses(frozenset({'OS::Nova::Server'})), *found.lines())
        self.assertIn('what is on them is lost: 1.server, 2.server, 3.server. Change', first)
        self.assertTrue(
            last.startswith('Heat: 3 resources replaced: 1.server (OS::Nova::Server),')
        )

    def test_members_of_two_groups_with_the_same_number_are_two(self):
        rows = [
            {'resource_name': 'server', 'resource_type': 'OS::Nova::Server',
             'stack_name': f'web-{group}-abc-0-def', 'parent_resource': '0'}
            for group in ('control', 'work')
        ]  # fmt: skip
        found = Preview.read({'deleted': rows})
        self.assertEqual((('0.server', 'OS::Nova::Server'),) * 2, found.deleted)

    def test_what_is_replaced_without_a_node_is_not_called_a_loss(self):
        lines = self.lines(replaced=[('net', 'OS::Neutron::Net')])
        self.assertEqual(['Heat: 1 resources replaced: net (OS::Neutron::Net)'], lines)

    def test_an_empty_or_foreign_answer_is_no_change(self):
        self.assertEqual([], self.lines())
        found = Preview.read({'added': 'x', 'deleted': [3]})
        self.assertEqual([], [*found.losses(frozenset()), *found.lines()])


class Servers(unittest.TestCase):
    def server(self, name, stack, id_='s1'):
        return {
            'resource_name': name, 'resource_type': 'OS::Nova::Server',
            'physical_resource_id': id_, 'links': [{'rel': 'stack', 'href': f'x/{stack}'}],
        }  # fmt: skip

    def nested(self, name, stack, nested):
        return {
            'resource_name': name, 'resource_type': 'OS::Heat::ResourceGroup',
            'physical_resource_id': nested,
            'links': [
                {'rel': 'stack', 'href': f'x/{stack}'}, {'rel': 'nested', 'href': f'x/{nested}'},
            ],
        }  # fmt: skip

    def test_servers_of_a_group_are_grouped_by_its_name(self):
        (one,) = servers([
            self.server('kube-minion', 'inner'), self.nested('1', 'outer', 'inner'),
            self.nested('kube_minions', 'root', 'outer'),
        ])  # fmt: skip
        self.assertEqual(('kube_minions', '1', 'kube-minion'), one.path)
        self.assertEqual(('kube-minions', 's1'), (one.group, one.id))

    def test_servers_of_the_stack_itself_are_grouped_by_their_names_without_numbers(self):
        for name, group in (
            ('web_3', 'web'), ('db1', 'db'), ('Front', 'front'), ('7', 'nodes'),
            ('a' * 30, 'a' * 24),
        ):  # fmt: skip
            (one,) = servers([self.server(name, 'root')])
            self.assertEqual(group, one.group)

    def test_servers_that_do_not_exist_so_far_are_none(self):
        self.assertEqual([], list(servers([self.server('web', 'root', None), {}])))
