"""Model test of the simulated cloud against a dictionary."""

import tempfile

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.exceptions import InstanceNotFoundError, InstanceStateConflict
from kiln.models import State
from kiln.testing.clock import VirtualClock
from tests.examples import examples

LATENCY = {'build': 7, 'delete': 3, 'suspend': 2, 'resume': 0, 'reboot': 4, 'rebuild': 5}
# action: the allowed states, the state meanwhile, the final state.
VERBS = {
    'suspend': ({State.ACTIVE}, None, State.SUSPENDED),
    'resume': ({State.SUSPENDED}, None, State.ACTIVE),
    'reboot': ({State.ACTIVE}, None, State.ACTIVE),
    'rebuild': ({State.ACTIVE, State.STOPPED, State.ERROR}, State.BUILDING, State.ACTIVE),
}


class Machine:
    def __init__(self, key):
        self.key = key
        self.state = State.ACTIVE
        self.verb = None
        self.target = None
        self.due = None

    def begin(self, verb, during, target, now):
        self.state, self.verb = during or self.state, verb
        self.target, self.due = target, now + LATENCY[verb]


class Life(RuleBasedStateMachine):
    ids = Bundle('ids')
    path = None

    def __init__(self):
        super().__init__()
        self.clock = VirtualClock()
        latencies = {f'{verb}_s': seconds for verb, seconds in LATENCY.items()}
        self.driver = NoopDriver(cloud=NoopCloud(self.file(), clock=self.clock, **latencies))
        self.model = {}
        # The states known to a reader that requests only changes.
        self.followed = {}
        self.cursor = ''

    def file(self):
        return None

    def teardown(self):
        self.driver.close()

    @property
    def now(self):
        return self.clock.monotonic()

    def settle(self):
        for id_, machine in list(self.model.items()):
            if machine.due is not None and machine.due <= self.now:
                machine.state, machine.verb, machine.due = machine.target, None, None
                if machine.state is State.DELETED:
                    del self.model[id_]

    @rule(target=ids, key=st.sampled_from('abcd'))
    def build(self, key):
        known = [id_ for id_, machine in self.model.items() if machine.key == key]
        id_ = self.driver.build(build_key=key)
        if known:
            assert id_ == known[0]
        else:
            assert id_ not in self.model
            self.model[id_] = Machine(key)
            self.model[id_].begin('build', State.BUILDING, State.ACTIVE, self.now)
        return id_

    @rule(id_=ids)
    def delete(self, id_):
        self.driver.delete(id_)
        machine = self.model.get(id_)
        if machine and machine.verb != 'delete':
            machine.begin('delete', State.DELETING, State.DELETED, self.now)

    @rule(id_=ids, verb=st.sampled_from(sorted(VERBS)))
    def change(self, id_, verb):
        allowed, during, target = VERBS[verb]
        machine = self.model.get(id_)
        try:
            getattr(self.driver, verb)(id_)
        except InstanceNotFoundError:
            assert machine is None
            retryable = None
        except InstanceStateConflict as exc:
            retryable = exc.retryable
        else:
            retryable = None
            repeated = verb in ('suspend', 'resume') and machine.verb == verb
            done = verb == 'suspend' and machine.state is State.SUSPENDED and not machine.verb
            if not repeated and not done:
                assert machine.verb is None
                assert machine.state in allowed
                machine.begin(verb, during, target, self.now)
        if retryable is not None:
            assert machine.verb is not None or machine.state not in allowed
            assert retryable == (machine.verb is not None)

    @rule(id_=consumes(ids))
    def vanish(self, id_):
        if self.model.pop(id_, None):
            self.driver.cloud.vanish(id_)

    @rule(id_=ids, state=st.sampled_from([State.STOPPED, State.ERROR]))
    def happen(self, id_, state):
        if id_ in self.model:
            act = self.driver.cloud.stop if state is State.STOPPED else self.driver.cloud.crash
            act(id_)
            self.model[id_].state, self.model[id_].verb = state, None
            self.model[id_].due = None

    @rule(seconds=st.integers(1, 9))
    def wait(self, seconds):
        self.clock.advance(seconds)

    @rule()
    def follow(self):
        self.settle()
        changes = self.driver.changes(self.cursor)
        if changes.complete:
            self.followed = {}
        self.followed |= {status.amphora_id: status.state for status in changes.statuses}
        for id_ in changes.gone:
            self.followed.pop(id_, None)
        self.cursor = changes.cursor
        assert self.followed == {id_: machine.state for id_, machine in self.model.items()}

    @invariant()
    def the_cloud_is_as_the_model_says(self):
        self.settle()
        found = {i.id: (i.build_key, i.state) for i in self.driver.list_amphorae()}
        assert found == {id_: (m.key, m.state) for id_, m in self.model.items()}
        assert self.driver.cloud.count() == len(self.model)
        for id_, machine in self.model.items():
            assert self.driver.find_build(machine.key).id == id_
            assert self.driver.status(id_).ready == (
                machine.state is State.ACTIVE and machine.verb is None
            )


class LifeInFile(Life):
    """The same model test for a cloud in a file."""

    def file(self):
        self.folder = tempfile.TemporaryDirectory()
        return f'{self.folder.name}/cloud.db'

    def teardown(self):
        super().teardown()
        self.folder.cleanup()


LifeTest = Life.TestCase
LifeTest.settings = settings(max_examples=examples(10), stateful_step_count=40, deadline=None)
LifeInFileTest = LifeInFile.TestCase
LifeInFileTest.settings = settings(max_examples=examples(5), stateful_step_count=30, deadline=None)
