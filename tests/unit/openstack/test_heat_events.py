"""Events of stacks of Heat: how they are read, and what people are told of them."""

import unittest

from kiln.openstack.heat.events import StackEvent, of_last_change, told


def event(name, status='CREATE_COMPLETE', *, stack='web', physical='', reason=''):
    return {
        'id': f'{stack}.{name}.{status}', 'resource_name': name, 'resource_status': status,
        'resource_status_reason': reason, 'physical_resource_id': physical,
        'links': [
            {'rel': 'resource', 'href': 'http://heat/v1/p/stacks/web/1/resources/x'},
            {'rel': 'stack', 'href': f'http://heat/v1/p/stacks/{stack}/{stack}-id'},
        ],
    }  # fmt: skip


def whole(status, stack='web'):
    return event(stack, status, stack=stack, physical=f'{stack}-id')


def read(*found):
    return [StackEvent.read(one, 'web') for one in found]


class Events(unittest.TestCase):
    def test_a_path_leads_through_nested_stacks(self):
        (found,) = read(event('server', stack='web-work-group-abcdefgh2345-3-zyxwvutsrq76'))
        self.assertEqual(('work-group', '3', 'server'), found.path)

    def test_what_is_done_is_one_line_for_each_status(self):
        found = read(
            *(event(f'work-{n}') for n in range(7)), event('old', 'DELETE_COMPLETE'),
            event('work-8', 'CREATE_IN_PROGRESS'),
        )  # fmt: skip
        self.assertEqual(
            [
                'Heat: CREATE_COMPLETE: work-0, work-1, work-2, work-3, work-4 and 2 more',
                'Heat: DELETE_COMPLETE: old',
            ],
            list(told(found)),
        )

    def test_what_failed_is_told_with_its_reason(self):
        found = read(event('work-1', 'CREATE_FAILED', reason='No valid host was found.'))
        self.assertEqual(
            ['Heat: CREATE_FAILED: work-1: No valid host was found.'], list(told(found))
        )
        many = read(*(event(f'n{n}', 'CREATE_FAILED', reason='x' * 9999) for n in range(9)))
        self.assertEqual([400] * 5, [len(line) for line in told(many)])

    def test_secrets_are_masked_before_a_reason_is_cut(self):
        secret = 's3cret' * 100
        found = read(event('work-1', 'CREATE_FAILED', reason=f'{secret} is wrong'))
        (line,) = told(found, lambda text: text.replace(secret, '***'))
        self.assertEqual('Heat: CREATE_FAILED: work-1: *** is wrong', line)

    def test_states_of_stacks_as_a_whole_are_not_told(self):
        nested = 'web-work-abcdefgh2345'
        found = read(whole('CREATE_COMPLETE'), whole('CREATE_COMPLETE', nested))
        self.assertEqual([], list(told(found)))

    def test_only_events_of_the_last_change_count(self):
        nested = 'web-work-abcdefgh2345'
        found = read(
            whole('CREATE_IN_PROGRESS'), event('a'), whole('CREATE_COMPLETE'),
            whole('UPDATE_IN_PROGRESS'), whole('UPDATE_IN_PROGRESS', nested), event('b'),
        )  # fmt: skip
        self.assertEqual(found[3:], of_last_change(found))
        self.assertEqual(found[4:], of_last_change(found[4:]))

    def test_what_heat_leaves_out_is_empty(self):
        self.assertEqual(
            [StackEvent(id='', path=('',))], read({'links': [None, {'rel': 'stack'}]})
        )
