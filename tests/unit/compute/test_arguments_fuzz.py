"""Any value for any argument: no untyped error, and no harm to later calls."""

import asyncio
import inspect
import os
import unittest

import hypothesis
from hypothesis import strategies as st

import kiln
from kiln.compute.facade import Compute, Until
from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.exceptions import KilnError
from kiln.models import AmphoraType, Placement, Resource, State
from kiln.wrappers.operations.operation import Operation, Priority
from kiln.wrappers.operations.promise import Promise
from tests.examples import examples
from tests.unit.compute.test_arguments_at_the_door import (
    ENDLESS_DIGITS,
    GIVEN,
    RIGHT,
    SAVED,
    SAVED_ARGUMENTS,
    SURROGATE,
    Unreadable,
    public_calls,
)

#: Values of all kinds; some are valid for some argument.
ANY = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 70_000),
    st.floats(),
    st.text(max_size=8),
    st.binary(max_size=4),
    st.sampled_from([*Priority, *State, *Until, *AmphoraType]),
    st.sampled_from(['x', 'k', 'active', 'high', 'noop', 'read', 'build', 'tcp:22']),
    st.just(ENDLESS_DIGITS),
    st.builds(Unreadable),
    st.builds(object),
    st.lists(st.none() | st.integers() | st.text(max_size=4), max_size=3),
    st.sets(st.sampled_from(State), max_size=3),
    st.dictionaries(st.text(max_size=4), st.none() | st.text(max_size=4), max_size=2),
    st.sampled_from([bool, lambda: None, lambda amphora: True]),
    st.builds(Placement, availability_zone=st.none() | st.integers() | st.text(max_size=4)),
    st.builds(Resource, kind=st.just('port') | st.integers(), id=st.text(max_size=4)),
    st.dictionaries(st.sampled_from(sorted(SAVED)), st.integers() | st.text(max_size=4)).map(
        lambda changed: SAVED | changed
    ),
)  # fmt: skip

#: Whether a call has an odd argument: most have none, and reach the queue.
ODD = st.sampled_from([True, False, False])

#: Values of JSON, some of them valid for some argument.
_PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(['x', 'kiln', 'other', 'active', '../x\n', 'abc', SURROGATE, 'y' * 300]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(['kind', 'id', 'owner', 'states', 'a']), inner)
    ),
    max_leaves=4,
)
PLAIN = st.one_of(*[_PLAIN] * 5, st.integers(0, 9).map(lambda more: ENDLESS_DIGITS + more))
FIELDS = sorted(SAVED)
GOALS = (
    None, {'states': ['active']}, {'states': ['deleted']}, {'until': 'active'},
    {'until': 'ready', 'probe': {'kind': 'tcp', 'port': 22}},
)  # fmt: skip


@st.composite
def records(draw):
    """Return the saved record of any call, often with an invalid part."""
    kind = draw(st.sampled_from(['build', 'watch', *SAVED_ARGUMENTS]))
    arguments = SAVED_ARGUMENTS.get(kind)
    record = SAVED | {
        'kind': kind,
        'amphora_id': draw(st.sampled_from([None, 'x'])),
        'goal': draw(st.sampled_from(GOALS)) if draw(ODD) else None,
        'state': draw(st.sampled_from(['queued', 'running', 'waiting', 'succeeded', 'failed'])),
    }
    if arguments is not None:
        arguments = list(arguments)
        if arguments and draw(st.booleans()):
            arguments[draw(st.integers(0, len(arguments) - 1))] = draw(PLAIN)
        record['arguments'] = draw(st.lists(PLAIN, max_size=3)) if draw(ODD) else arguments
    if draw(ODD):
        record[draw(st.sampled_from(FIELDS))] = draw(PLAIN)
    if draw(ODD):
        error = {draw(st.sampled_from(['message', 'outcome', 'advice', 'fault'])): draw(PLAIN)}
        record['error'] = error
    return record


CALLS = [
    *((Compute, name) for name in sorted(public_calls(Compute))),
    *((Operation, name) for name in sorted(public_calls(Operation))),
    (kiln, 'open_compute'),
]


def right_for(argument, parameter):
    """Return values of the type of an argument with that name, as far as it is known."""
    if argument in RIGHT:
        return st.sampled_from(RIGHT[argument])
    if argument in GIVEN:
        return st.just(GIVEN[argument])
    return st.none() if parameter.default is parameter.empty else st.just(parameter.default)


@st.composite
def calls(draw):
    """Return a public call with values for some of its arguments, valid or arbitrary."""
    home, name = draw(st.sampled_from(CALLS))
    function = getattr(home, name)
    if not callable(function):
        return home, name, {}
    parameters = {
        argument: parameter
        for argument, parameter in inspect.signature(function).parameters.items()
        if argument != 'self'
        and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    }
    needed = [one for one, parameter in parameters.items() if parameter.default is parameter.empty]
    others = sorted(parameters.keys() - set(needed))
    chosen = needed + draw(
        st.lists(st.sampled_from(others), max_size=3, unique=True) if others else st.just([])
    )
    # At most two are arbitrary, so that they do not hide each other.
    odd = draw(st.lists(st.sampled_from(chosen), max_size=2)) if chosen and draw(ODD) else []
    given = {
        argument: draw(ANY if argument in odd else right_for(argument, parameters[argument]))
        for argument in chosen
    }
    return home, name, given


class Fuzzed(unittest.TestCase):
    #: Number of calls to one Compute before the next is opened.
    CALLS_EACH = 200

    def setUp(self):
        self.compute, self.made = None, 0
        self.counts = {}
        self.addCleanup(lambda: self.compute and self.compute.close(0.1))

    def opened(self):
        if self.compute is None or self.made % self.CALLS_EACH == 0:
            self.renew()
        self.made += 1
        return self.compute

    def renew(self):
        if self.compute is not None:
            self.compute.close(0.1)
        cloud = NoopCloud(build_s=0, delete_s=0, suspend_s=0, resume_s=0, reboot_s=0, rebuild_s=0)
        self.compute = Compute(NoopDriver(cloud=cloud))

    @hypothesis.settings(max_examples=examples(30), deadline=None, database=None)
    @hypothesis.given(calls())
    def test_no_argument_value_raises_an_untyped_error_or_harms_the_next_call(self, call):
        home, name, given = call
        compute = self.opened()
        target = home
        if home is Compute:
            target = compute
        elif home is Operation:
            target = compute.build()
        try:
            result = getattr(target, name)
            result = result(**given) if callable(result) else result
            if inspect.iscoroutine(result):
                result = asyncio.run(result)
        except KilnError:
            ended = 'refused'
        except TimeoutError:
            self.assertIs(home, Operation)
            ended = 'not done in time'
        else:
            ended = self.ended(result)
        self.counts[ended] = self.counts.get(ended, 0) + 1
        if home is Compute and name in ('close', 'aclose'):
            self.renew()
        self.goes_on()

    @hypothesis.settings(max_examples=examples(60), deadline=None, database=None)
    @hypothesis.given(records())
    def test_no_saved_record_raises_an_untyped_error_or_harms_the_next_call(self, record):
        compute = self.opened()
        try:
            operation = compute.recover(record)
        except KilnError:
            ended = 'refused'
        else:
            ended = self.ended(operation)
            self.assertNotIn('defect', str(operation.exception(0)))
        self.counts[ended] = self.counts.get(ended, 0) + 1
        # No circuit is closed first: a recovered operation must not have opened one.
        built = compute.build().result(120)
        self.assertIs(State.ACTIVE, compute.status(built).result(120).state)
        list(compute.list_amphorae().result(120))
        self.assertEqual({'closed'}, {str(one.state) for one in compute.circuits()})

    def ended(self, result):
        if isinstance(result, Compute):
            result.close(0.1)
            return 'a value'
        if not isinstance(result, Promise):
            return 'a value'
        try:
            error = result.exception(0.05)
        except TimeoutError:
            result.cancel()
            error = result.exception(5)
        if error is None:
            return 'a success'
        self.assertIsInstance(error, KilnError)
        return 'an error'

    def goes_on(self):
        """Build and read, with valid arguments."""
        compute = self.compute
        for circuit in compute.circuits():
            compute.close_circuit(circuit.name)
        built = compute.build().result(120)
        self.assertIs(State.ACTIVE, compute.status(built).result(120).state)

    def tearDown(self):
        if 'KILN_EXAMPLES' in os.environ:
            print(f'{self.made} calls: {self.counts}')
