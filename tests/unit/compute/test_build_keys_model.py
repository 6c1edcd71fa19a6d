"""Stateful model of build keys: processes build, repeat, cancel, leave and die.

Whatever the processes and the cloud do: a machine that was ever reported active stays
until a caller deletes it, no key has two machines, and a machine that never ran exists
only where a process is responsible for it. Some builds have no key, and others read the
key that kiln drew and build with it too.

One case is left out, because no backend deletes on a condition (decision 0009): a delete
that arrives long after it was sent. So no fault here delays a delete.
"""

import unittest

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kiln.compute.facade import Compute
from kiln.compute.goals import Until
from kiln.compute.stack import StackSettings
from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.compute_drivers.noop.faults import Fault
from kiln.exceptions import AmphoraComputeError, ServiceUnavailable
from kiln.models import State
from kiln.wrappers.circuit.settings import CircuitSettings
from kiln.wrappers.executor.settings import ExecutorSettings
from tests.examples import examples
from tests.self_moving_clock import SelfMovingClock

SETTINGS = StackSettings(
    executor=ExecutorSettings(timeout_s=60, cleanup_timeout_s=3600, max_workers=4),
    circuit=CircuitSettings(open_s=5, open_max_s=10),
)
HOOKS = ('_build', '_delete', '_find_build', '_get', '_list', '_status', '_statuses', '_changes')
WHICH = st.integers(0, 9)
KEYS = st.sampled_from(['a', 'b'])
FAULTS = st.one_of(
    st.builds(
        Fault,
        call=st.sampled_from(['build', 'find_build', 'status', 'statuses', 'changes', 'list']),
        action=st.sampled_from(
            [
                'refuse', 'timeout_before', 'timeout_after', 'lose_answer', 'hang', 'hang_before',
                'rate_limit', 'crash',
            ]
        ),
        times=st.integers(1, 5),
        seconds=st.sampled_from([1, 7, 40]),
    ),
    st.builds(
        Fault,
        call=st.just('delete'),
        action=st.sampled_from(['refuse', 'timeout_before', 'timeout_after', 'lose_answer']),
        times=st.integers(1, 5),
    ),
    st.builds(
        Fault,
        call=st.just('build'),
        action=st.sampled_from(['error', 'vanish', 'stuck', 'late', 'quota', 'capacity']),
        times=st.integers(1, 2),
        seconds=st.sampled_from([0.5, 3]),
    ),
)  # fmt: skip


class Mortal(NoopDriver):
    """A process's connection to the cloud, which is cut when the process is killed."""

    dead = False


def _until_death(hook):
    def call(self, *args):
        if self.dead:
            raise ServiceUnavailable('Cannot call: the process was killed.')
        return getattr(NoopDriver, hook)(self, *args)

    return call


for _hook in HOOKS:
    setattr(Mortal, _hook, _until_death(_hook))


class Process:
    def __init__(self, cloud):
        self.driver = Mortal(cloud=cloud)
        self.compute = Compute(self.driver, settings=SETTINGS)
        #: Each with its key and its goal.
        self.builds = []
        self.gone = False


class Keys(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.clock = SelfMovingClock()
        self.cloud = NoopCloud(clock=self.clock, build_s=5, delete_s=2, reboot_s=4, seed=1)
        self.processes = []
        self.active, self.asked_away, self.abandoned = set(), set(), set()
        self.read = {'a', 'b'}

    # ---- who there is --------------------------------------------------------------

    def living(self):
        return [process for process in self.processes if not process.gone]

    def one(self, which):
        return self.living()[which % len(self.living())]

    @initialize()
    def begin(self):
        self.start()

    @precondition(lambda self: len(self.living()) < 3)
    @rule()
    def start(self):
        self.processes.append(Process(self.cloud))

    @precondition(lambda self: len(self.living()) > 1)
    @rule(which=WHICH)
    def leave(self, which):
        process = self.one(which)
        process.compute.close(30)
        self.note_active()
        self.abandon(process)

    @precondition(lambda self: len(self.living()) > 1)
    @rule(which=WHICH)
    def die(self, which):
        self.note_active()
        process = self.one(which)
        process.driver.dead = True
        self.abandon(process)

    def abandon(self, process):
        process.gone = True
        self.abandoned |= {op.key.text for _, _, op in process.builds}

    # ---- what they do --------------------------------------------------------------

    @rule(
        which=WHICH,
        key=KEYS,
        until=st.sampled_from([Until.ACCEPTED, Until.ACTIVE, Until.ACTIVE]),
        seconds=st.sampled_from([2, 8, 60]),
    )
    def build(self, which, key, until, seconds):
        process = self.one(which)
        try:
            operation = process.compute.build(build_key=key, until=until, timeout=seconds)
        except AmphoraComputeError:
            # Its circuit is open: nothing was sent.
            return
        process.builds.append((key, until, operation))

    @rule(
        which=WHICH,
        until=st.sampled_from([Until.ACCEPTED, Until.ACTIVE, Until.READY]),
        seconds=st.sampled_from([2, 8, 60]),
    )
    def build_without_a_key(self, which, until, seconds):
        process = self.one(which)
        given = {'probe': lambda amphora: False} if until is Until.READY else {}
        try:
            operation = process.compute.build(until=until, timeout=seconds, **given)
        except AmphoraComputeError:
            return
        # None: the key that kiln drew has not been read.
        process.builds.append((None, until, operation))

    @rule(
        which=WHICH,
        other=WHICH,
        number=WHICH,
        until=st.sampled_from([Until.ACCEPTED, Until.ACTIVE]),
        seconds=st.sampled_from([8, 60]),
    )
    def build_with_the_key_of_another_build(self, which, other, number, until, seconds):
        builds = self.one(which).builds
        if not builds:
            return
        key = self.read_key(builds, number % len(builds))
        taker = self.one(other)
        try:
            operation = taker.compute.build(build_key=key, until=until, timeout=seconds)
        except AmphoraComputeError:
            return
        taker.builds.append((key, until, operation))

    def read_key(self, builds, number):
        _, until, operation = builds[number]
        builds[number] = (operation.build_key, until, operation)
        self.read.add(operation.build_key)
        return operation.build_key

    @rule(which=WHICH, other=WHICH, number=WHICH)
    def recover(self, which, other, number):
        builds = self.one(which).builds
        if not builds:
            return
        key = self.read_key(builds, number % len(builds))
        _, until, operation = builds[number % len(builds)]
        taker = self.one(other)
        try:
            recovered = taker.compute.recover(operation.to_dict())
        except AmphoraComputeError:
            return
        taker.builds.append((key, until, recovered))

    @rule(which=WHICH, number=WHICH)
    def cancel(self, which, number):
        builds = self.one(which).builds
        if builds:
            builds[number % len(builds)][2].cancel()

    @rule(which=WHICH, key=st.one_of(KEYS, WHICH))
    def delete(self, which, key):
        keys = sorted({one.build_key for one in self.cloud.instances()})
        if not isinstance(key, str):
            key = keys[key % len(keys)] if keys else ''
        found = [one for one in self.cloud.instances() if one.build_key == key]
        for amphora in found:
            # Whatever the result: from now on it can be removed.
            self.asked_away.add(amphora.id)
            self.attempt(lambda one=amphora: self.one(which).compute.delete(one.id))

    @rule(which=WHICH, verb=st.sampled_from(['reboot', 'suspend', 'resume']))
    def handle(self, which, verb):
        for amphora in self.cloud.instances():
            self.attempt(lambda one=amphora: getattr(self.one(which).compute, verb)(one.id))

    @rule(which=WHICH)
    def ask(self, which):
        for amphora in self.cloud.instances():
            status = self.attempt(lambda one=amphora: self.one(which).compute.status(one.id))
            if status is None or status.state is not State.ACTIVE:
                continue
            # Nobody can have received a machine whose key was never read.
            if amphora.build_key in self.read:
                self.active.add(amphora.id)

    def attempt(self, call):
        try:
            return call().result()
        except AmphoraComputeError:
            return None

    # ---- what happens to them ------------------------------------------------------

    @rule(fault=FAULTS)
    def weather(self, fault):
        self.cloud.faults.add(fault)

    @rule()
    def clear_up(self):
        self.cloud.faults.clear()

    @rule(seconds=st.sampled_from([0.1, 1, 4, 6, 30]))
    def wait(self, seconds):
        self.clock.sleep(seconds)

    # ---- what holds ----------------------------------------------------------------

    def note_active(self):
        for process in self.living():
            for _, until, operation in process.builds:
                if until is Until.ACTIVE and operation.done() and not operation.exception():
                    self.active.add(operation.result())

    @invariant()
    def what_was_said_to_be_active_stays(self):
        self.note_active()
        there = {one.id for one in self.cloud.instances() if one.state is not State.DELETING}
        assert self.active - self.asked_away <= there, 'a machine in service disappeared'

    @invariant()
    def no_key_has_two_machines(self):
        keys = [one.build_key for one in self.cloud.instances() if one.state is not State.DELETING]
        assert len(keys) == len(set(keys))

    def teardown(self):
        try:
            self.clear_up()
            builds = [one for process in self.living() for one in process.builds]
            self.clock.until(lambda: all(operation.done() for _, _, operation in builds))
            # Lost machines are found and removed within an hour.
            self.clock.sleep(4000)
            self.what_was_said_to_be_active_stays()
            known = {op.result() for _, _, op in builds if op.done() and not op.exception()}
            for one in self.cloud.instances():
                served = one.served or one.state is State.ACTIVE
                assert (
                    one.id in known | self.asked_away or served or one.build_key in self.abandoned
                ), f'nobody knows of {one}'
        finally:
            for process in self.processes:
                process.compute.close(0)
            self.clock.close()


class Model(Keys.TestCase, unittest.TestCase):
    settings = settings(
        max_examples=examples(6),
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
