"""Argument checks before anything is queued, for each argument of each call."""

import functools
import inspect
import math
import unittest

import kiln
from kiln.compute.facade import Compute, Until
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.compute_drivers.noop.faults import Fault
from kiln.exceptions import InvalidBuildRequest, InvalidRequest, KilnError
from kiln.models import Placement, Resource, State
from kiln.wrappers.operations.errand import Errand
from kiln.wrappers.operations.operation import Operation, Priority
from tests.unit.compute.facade_case import FacadeTest

SURROGATE = '\ud800'
ENDLESS_DIGITS = 10**5000


class Unreadable:
    """Raises on every access."""

    def __iter__(self):
        raise RuntimeError('it cannot be read')

    def __bool__(self):
        raise RuntimeError('it is neither true nor false')

    def __repr__(self):
        raise RuntimeError('it cannot be shown')

    def read(self, size):
        raise RuntimeError('it cannot be read')


#: Invalid values for each argument, in any call that has it.
WRONG = {
    'priority': ('high', 1, 0, True, None, 1.5, Unreadable(), float('nan')),
    'on_status': (5, 'print', [], Unreadable()),
    'discard': ('no', 0, 1, None, [], Unreadable()),
    'probe': (5, 'tcp:22', Unreadable()),
    'wait': ('yes', 1, None, Unreadable()),
    'hard': ('yes', 1, None, Unreadable()),
    'timeout': ('5', True, math.nan, math.inf, 0, -1, ENDLESS_DIGITS, [], Unreadable()),
    'until': ('someday', 5, None, [], Unreadable()),
    'goal': ('active', 5, None, [], [None], Unreadable()),
    'since': (5, None, 'a\nb', SURROGATE, Unreadable()),
    'amphora_id': ('', 5, ' x', 'x' * 256, 'a\0', SURROGATE, b'x', [], Unreadable()),
    'amphora_ids': ('x', 5, [5], [''], Unreadable()),
    'placements': ('x', 5, [5], [Placement(availability_zone=5)], Unreadable()),
    'resource': (
        5,
        'port',
        Resource(kind=5, id='x', owner='kiln'),
        Resource(kind='port', id='x', owner=Unreadable()),
    ),
    'lines': (0, -1, 1.5, True, '5', ENDLESS_DIGITS, ENDLESS_DIGITS * -1),
    'metadata': (5, {'a': SURROGATE}, {'a': 5}, Unreadable()),
    'keys': ('k', 5, [5], Unreadable()),
    'user_data': (5, Unreadable()),
    'sec_groups': ('g', 5, [5], [''], Unreadable()),
    'ports': ('22/tcp', 5, [22], ['22'], ['0/tcp'], ['65536/tcp'], ['22/icmp'], Unreadable()),
    'peers': ('g', 5, [5], [''], Unreadable()),
}
#: Other arguments that a call needs beside the invalid argument.
GIVEN = {
    'amphora_id': 'x', 'amphora_ids': ['x'], 'build_key': 'k', 'port_id': 'p', 'name': 'n',
    'network_id': 'n', 'policy': 'affinity', 'server_group_id': 'g', 'flavor': 'f',
    'image_id': 'i', 'availability_zone': 'az1', 'security_group': 'g', 'saved': {},
    'sec_groups': ['g'], 'ports': ['22/tcp'],
    'probe': lambda amphora: True,
    'resource': Resource(kind='port', id='p', owner='kiln'),
}  # fmt: skip
#: Valid values that have an effect.
RIGHT = {
    'timeout': (5, 0.5, None), 'until': ('accepted', Until.ACTIVE), 'priority': tuple(Priority),
    'on_status': (bool, None), 'discard': (True, False), 'wait': (True, False),
    'hard': (True, False), 'goal': ({State.ACTIVE}, ['error', 'active']), 'since': ('',),
    'wait_s': (0.1, 0), 'function': (bool,), 'why': ('enough',), 'backend': ('noop',),
    'placements': ([], [Placement(availability_zone='az2')]), 'metadata': ({}, {'a': 'b'}),
    'keys': ([], ['k']), 'config_drive_files': ({}, {'/a': 'b'}), 'user_data': ('u', b'u'),
    'owner': ('kiln',), 'lines': (1,), 'address': ('10.0.0.1',), 'amphora_name': ('n',),
}  # fmt: skip
SAVED = Errand('build', backend='noop', subject='a', build_key='k').to_dict()
RIGHT['saved'] = RIGHT['data'] = (SAVED, SAVED | {'kind': 'status', 'arguments': ['x']})
#: The valid arguments of a record, by call.
SAVED_ARGUMENTS = {
    'delete': ['x'], 'get': ['x'], 'find': ['n'], 'find_build': ['k'], 'list': ['kiln'],
    'status': ['x'], 'statuses': [['x', 'y']], 'changes': [''], 'reached': ['active', ''],
    'check': [], 'suspend': ['x'], 'resume': ['x'], 'reboot': ['x', True],
    'rebuild': ['x', None], 'attach_port': ['x', 'p'], 'detach_port': ['x', 'p'],
    'attach_network': ['x', 'n', None], 'detach_network': ['x', 'n'],
    'create_server_group': ['g', 'affinity'], 'delete_server_group': ['g'],
    'validate_flavor': ['f'], 'validate_image': ['i'], 'validate_zone': ['az1'],
    'validate_network': ['n'], 'validate_security_group': ['g'],
    'check_ports': [['g'], ['22/tcp'], None], 'describe_image': ['i'],
    'list_zones': [], 'list_resources': ['kiln'],
    'delete_resource': [{'kind': 'port', 'id': 'p', 'owner': 'kiln'}],
    'console_log': ['x', 5], 'claim': ['x', 'k'],
}  # fmt: skip


def public_calls(kind):
    """Return the public methods of a class, by name."""
    return {
        name: function
        for name, function in inspect.getmembers(kind, callable)
        if not name.startswith('_')
    }


def arguments_of(function):
    return [name for name in inspect.signature(function).parameters if name != 'self']


class AtTheDoor(FacadeTest):
    def test_d4_an_invalid_priority_does_not_block_other_builds(self):
        # 'high' used to be queued, and afterwards nothing left the queue.
        self.cloud.faults.add(Fault(call='build', action='hang', seconds=5))
        waiting = [self.compute.build() for _ in range(40)]
        with self.assertRaisesRegex(InvalidRequest, r"priority .* Priority.HIGH.* 'high' \(str\)"):
            self.compute.build(priority='high')
        self.settle(*waiting, self.compute.build(), self.compute.list_amphorae())
        self.assertEqual(41, self.cloud.count())

    def test_each_wrong_argument_is_refused_by_name_and_nothing_is_sent(self):
        tried = set()
        for call, function in public_calls(Compute).items():
            names = arguments_of(function)
            for argument in WRONG.keys() & set(names):
                tried.add(argument)
                for value in WRONG[argument]:
                    given = {name: GIVEN[name] for name in names if name in GIVEN}
                    if call == 'build':
                        given = {'until': Until.READY, 'probe': GIVEN['probe']}
                    with self.subTest(call, argument=argument, kind=type(value).__name__):
                        with self.assertRaises(InvalidRequest) as caught:
                            function(self.compute, **given | {argument: value})
                        self.assertIn(argument, str(caught.exception))
        self.assertEqual(tried, set(WRONG))
        self.assertEqual(0, self.cloud.count())

    def test_a_wrong_argument_of_a_build_is_an_invalid_build_request(self):
        for wrong in ({'name': 5}, {'keys': 5}, {'placements': 5}, {'amphora_type': []}):
            with self.assertRaises(InvalidBuildRequest):
                self.compute.build(**wrong)

    def test_a_str_subclass_with_odd_equality_and_hash_does_not_harm_other_calls(self):
        class Text(str):
            def refuse(self, *_):
                raise RuntimeError('it is not plain text')

            __eq__ = __hash__ = __len__ = __str__ = __format__ = strip = isprintable = refuse

        for call, function in public_calls(Compute).items():
            for argument in arguments_of(function):
                right = RIGHT.get(argument, ())
                value = [*(one for one in right if isinstance(one, str) and one), 'x'][0]
                given = {name: GIVEN[name] for name in arguments_of(function) if name in GIVEN}
                if call == 'build':
                    given = {'name': 'n'}
                if call in ('close', 'aclose', 'recover'):
                    continue
                for odd in (Text(value), [Text(value)], {'a': Text(value)}):
                    with self.subTest(call, argument=argument, kind=type(odd).__name__):
                        self.try_out(function, given | {argument: odd})
        self.settle(self.compute.build(until=Until.ACTIVE), self.compute.list_amphorae())

    def try_out(self, function, given):
        try:
            result = function(self.compute, **given)
        except KilnError:
            return
        if isinstance(result, Operation):
            self.until(result.done)
            error = result.exception()
            self.assertIsInstance(error, KilnError | None)
            self.assertNotIn('defect', str(error))

    def test_a_coroutine_function_is_refused_where_it_would_not_be_awaited(self):
        async def answer(*_):
            return False

        class Answer:
            async def __call__(self, *_):
                return False

        async def several(*_):
            yield False

        class Several:
            async def __call__(self, *_):
                yield False

        saved = self.compute.build(build_key='k').to_dict()
        coroutines = (answer, Answer(), functools.partial(answer, 1))
        for odd in (*coroutines, several, Several(), functools.partial(several, 1)):
            kind = 'a coroutine' if odd in coroutines else 'an async generator'
            for refused in (
                lambda odd=odd: self.compute.build(until=Until.READY, probe=odd),
                lambda odd=odd: self.compute.build(until=Until.ACTIVE, on_status=odd),
                lambda odd=odd: self.compute.watch('x', on_status=odd),
                lambda odd=odd: self.compute.recover(saved, probe=odd),
                lambda odd=odd: self.compute.check().add_done_callback(odd),
            ):
                with self.assertRaisesRegex(InvalidRequest, f'not {kind} function'):
                    refused()

    def test_circuits_and_close_check_their_arguments_too(self):
        for wrong in (None, 5, [], {}, ''):
            with self.assertRaises(InvalidRequest):
                self.compute.open_circuit(wrong)
            with self.assertRaises(InvalidRequest):
                self.compute.close_circuit(wrong)
        for wrong in ('1', None, True, math.nan, []):
            with self.assertRaises(InvalidRequest):
                self.compute.close(wrong)
        self.build()
        # Not an invalid value: infinity means without a limit.
        self.compute.close(ENDLESS_DIGITS)

    def test_only_a_saved_operation_can_be_recovered(self):
        wrong_fields = {
            'kind': (None, 5), 'id': (5,), 'state': ('done', 5, []), 'priority': (7, 'high', True),
            'deadline': (math.nan, math.inf, 'soon', ENDLESS_DIGITS), 'build_key': ([], ' '),
            'events': (5, [5], [{}]), 'arguments': (5,), 'error': (5, {'outcome': 'done'}),
        }  # fmt: skip
        wrong = [None, 5, [], {}, {'kind': 'build'}]
        wrong += [
            SAVED | {name: value} for name, values in wrong_fields.items() for value in values
        ]
        wrong.append(SAVED | {'kind': 'delete_resource', 'arguments': [{'colour': 'red'}]})
        for number, saved in enumerate(wrong):
            with self.subTest(number), self.assertRaises(InvalidRequest):
                self.compute.recover(saved)
        self.build()

    def test_result_and_exception_accept_only_numbers_of_seconds(self):
        operation = self.compute.build(metadata={'noop:fault': 'hang'})
        for wrong in ('1', True, math.nan, []):
            with self.assertRaises(InvalidRequest):
                operation.result(wrong)
            with self.assertRaises(InvalidRequest):
                operation.exception(wrong)
        for left in (0, -1.5, -ENDLESS_DIGITS):
            with self.assertRaises(TimeoutError):
                operation.result(left)
        for wrong in (None, 5, 'print'):
            with self.assertRaises(InvalidRequest):
                operation.add_done_callback(wrong)
        for wrong in (None, 5, []):
            with self.assertRaises(InvalidRequest):
                operation.cancel(wrong)
        self.assertFalse(operation.done())
        self.assertTrue(operation.cancel('enough'))

    def test_compute_checks_its_constructor_arguments(self):
        driver = NoopDriver(cloud=self.cloud)
        for argument, values in {
            'driver': (None, 5, 'noop', NoopDriver, Unreadable()),
            'settings': (5, {}, False, 'fast', Unreadable()),
            'listeners': (5, None, [5], 'x', Unreadable()),
            'reopen': (5, 'noop', Unreadable()),
        }.items():
            for value in values:
                with (
                    self.subTest(argument, kind=type(value).__name__),
                    self.assertRaisesRegex(InvalidRequest, f'^{argument} must be'),
                ):
                    Compute(**{'driver': driver, argument: value})

    def test_a_probe_accepts_only_numbers_as_statuses(self):
        for wrong in ('abc', '', b'abc', 5, None, ['200'], {True}, (200, None), Unreadable()):
            with self.assertRaisesRegex(InvalidRequest, 'statuses of a probe'):
                kiln.HttpProbe(80, statuses=wrong)
        for right in ([200], {200, 204}, range(200, 300)):
            self.assertEqual(right, kiln.HttpProbe(80, statuses=right).statuses)

    def test_open_compute_checks_its_arguments(self):
        wrong = {
            'backend': (5, '', []), 'conf': (5, {}, 'kiln.conf'), 'clock': (None, 5),
            'listeners': (5, [5], 'x'),
        }  # fmt: skip
        for argument, values in wrong.items():
            for value in values:
                with (
                    self.subTest(argument, value=value),
                    self.assertRaisesRegex(InvalidRequest, argument),
                ):
                    kiln.open_compute(**{'backend': 'noop', argument: value})


class Queued(unittest.TestCase):
    def test_an_unorderable_operation_is_refused_before_it_is_queued(self):
        from kiln.compute_drivers.calls import Traffic
        from kiln.wrappers.executor.queue import TrafficQueue

        queue = TrafficQueue(threads=3, shares=dict.fromkeys(Traffic, 1), wanted=lambda item: True)
        queue.put(Traffic.READ, Priority.NORMAL, 'first')
        for wrong in ('high', None, 1.5):
            with self.assertRaises(TypeError):
                queue.put(Traffic.READ, wrong, 'never')
        queue.put(Traffic.READ, Priority.HIGH, 'second')
        self.assertEqual(2, queue.waiting)
        self.assertEqual((Traffic.READ, 'second'), queue.take(0.0))
        queue.give_back(Traffic.READ)
        self.assertEqual((Traffic.READ, 'first'), queue.take(0.0))
