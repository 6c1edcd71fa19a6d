"""Property: in any order of events, every waiter of a build receives its result."""

import unittest

from hypothesis import settings, strategies
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from kiln.exceptions import AmphoraComputeError, ServiceUnavailable
from kiln.models import State
from kiln.testing.clock import VirtualClock
from kiln.wrappers.watcher.cursors import BuildCursor
from kiln.wrappers.watcher.poll import FULL_S, TROUBLE_S, Poll
from kiln.wrappers.watcher.waiter import GoneWaiter
from kiln.wrappers.watcher.waiter_table import WaiterTable
from tests.examples import examples
from tests.unit.wrappers.watcher.cursor_driver import CursorDriver
from tests.unit.wrappers.watcher.watching import Nobody

ENDS = (State.ACTIVE, State.ERROR)
#: An amphora made before a poll was sent at an earlier time: a request takes time.
TICK_S = 0.001


class Builds(RuleBasedStateMachine):
    """Builds are queued, sent, accepted, watched, and end or vanish."""

    ordered = Bundle('ordered')
    sent = Bundle('sent')
    there = Bundle('there')

    def __init__(self):
        super().__init__()
        self.clock = VirtualClock()
        self.driver = CursorDriver(self.clock)
        self.driver.cursor_at_hand = self.driver.tells_in_short = True
        self.poll = Poll(self.driver, full_sweep_s=300.0)
        self.table = WaiterTable()
        self.count = 0
        #: The watched amphorae, with their last reported state.
        self.waiters = {}
        self.said = {}
        self.lost = ()

    @rule(target=ordered)
    def order(self):
        self.count += 1
        return f'a{self.count}', self.poll.present()

    @rule(target=sent, order=consumes(ordered))
    def send(self, order):
        amphora_id, cursor = order
        return amphora_id, BuildCursor(cursor, self.clock.monotonic())

    @rule(target=there, sent=consumes(sent), brief=strategies.sampled_from((True, True, False)))
    def agree(self, sent, brief):
        amphora_id, since = sent
        self.driver.put(amphora_id, State.PENDING)
        waiter = GoneWaiter(Nobody(), 'east', amphora_id)
        waiter.since, waiter.brief = since, brief
        self.waiters[amphora_id] = waiter
        return amphora_id

    @rule(target=there, known=strategies.sampled_from((State.PENDING, State.BUILDING, *ENDS)))
    def find(self, known):
        """Watch an amphora that was built long ago, although its build was sent now."""
        self.count += 1
        amphora_id = f'a{self.count}'
        self.driver.put(amphora_id, known)
        self.clock.advance(1.0)
        moment = self.poll.present()
        waiter = GoneWaiter(Nobody(), 'east', amphora_id)
        waiter.since, waiter.brief = (
            BuildCursor(moment, self.clock.monotonic(), certain=False),
            True,
        )
        self.waiters[amphora_id] = waiter
        return amphora_id

    @rule(amphora_id=there)
    def begin(self, amphora_id):
        if self.state_of(amphora_id) is State.PENDING:
            self.driver.put(amphora_id, State.BUILDING)

    @rule(amphora_id=there, state=strategies.sampled_from((State.ACTIVE, *ENDS)))
    def end(self, amphora_id, state):
        if self.state_of(amphora_id) in (State.PENDING, State.BUILDING):
            self.driver.put(amphora_id, state)

    @rule(amphora_id=there)
    def mark_gone(self, amphora_id):
        if self.state_of(amphora_id):
            self.driver.remove(amphora_id)

    @rule(seconds=strategies.sampled_from((0.1, 1.0, TROUBLE_S, FULL_S)))
    def wait(self, seconds):
        self.clock.advance(seconds)

    @rule(lost=strategies.sets(strategies.sampled_from(('changes', 'statuses', 'reached'))))
    def look_in_vain(self, lost):
        self.lost = lost
        try:
            self.look()
        except AmphoraComputeError:
            pass
        finally:
            self.lost = ()

    @rule()
    def look(self):
        for waiter in self.waiters.values():
            if waiter.amphora_id not in self.said:
                self.table.add(waiter)
                self.said[waiter.amphora_id] = None
        self.table.admit()
        self.clock.advance(TICK_S)
        self.driver.on_call = self.lose
        for answer in self.poll.answers(self.table):
            for status in answer.statuses:
                for waiter in self.table.record_status(status, self.clock.monotonic()):
                    waiter.informed = True
                    self.say(waiter, status.state)
            for amphora_id in answer.gone:
                for waiter in self.table.gone(amphora_id):
                    self.say(waiter, State.DELETED)
        self.none_waits_in_vain({State.ACTIVE})

    def lose(self, hook):
        if hook in self.lost:
            raise ServiceUnavailable('Cannot look: the answer was lost.')

    def say(self, waiter, state):
        assert self.state_of(waiter.amphora_id) is (None if state is State.DELETED else state)
        self.said[waiter.amphora_id] = state
        if state in (*ENDS, State.DELETED):
            self.table.drop(waiter)

    def state_of(self, amphora_id):
        found = self.driver.machines.get(amphora_id)
        return found and found.state

    def none_waits_in_vain(self, states):
        for amphora_id, said in self.said.items():
            state = self.state_of(amphora_id)
            if state in states:
                assert said in (*ENDS, State.DELETED), f'{amphora_id} is {state}, said {said}'

    @invariant()
    def nobody_is_remembered_who_is_not_watched(self):
        assert len(self.table) <= len(self.waiters)

    def teardown(self):
        for seconds in (0.0, TROUBLE_S, FULL_S, 300.0):
            self.clock.advance(seconds)
            self.look()
            if seconds == TROUBLE_S:
                self.none_waits_in_vain({*ENDS})
        self.none_waits_in_vain({*ENDS, None})


Builds.TestCase.settings = settings(
    max_examples=examples(50), stateful_step_count=40, deadline=None
)


class BuildsTest(Builds.TestCase, unittest.TestCase):
    pass
