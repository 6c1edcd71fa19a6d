"""A circuit compared with a simple model of it."""

import math

import hypothesis.stateful as hs
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from kiln.exceptions import (
    CircuitOpenError,
    InstanceNotFoundError,
    QuotaExceeded,
    ServiceTimeout,
)
from kiln.testing.clock import VirtualClock
from kiln.wrappers.circuit.circuit import Circuit
from kiln.wrappers.circuit.settings import CircuitSettings
from kiln.wrappers.circuit.window import SLOTS
from tests.examples import examples

SETTINGS = CircuitSettings(
    failure_rate=0.5,
    minimum_calls=3,
    window_s=60,
    slow_call_s=5,
    slow_call_rate=0.75,
    open_s=30,
    open_factor=2,
    open_max_s=100,
    open_jitter=0,
    probe_lease_s=10,
    success_threshold=2,
)
SLOT_S = SETTINGS.window_s / SLOTS
ERRORS = {
    'good': None,
    'bad': ServiceTimeout('x'),
    'answer': InstanceNotFoundError('x'),
    'neutral': QuotaExceeded('x'),
    'interrupt': KeyboardInterrupt(),
}


class Model:
    """The rules of a circuit over a list of all events."""

    def __init__(self):
        self.state = 'closed'
        self.epoch = 0
        self.until = 0.0
        self.trips = 0
        self.good_probes = 0
        self.outcomes = []

    def enter(self, state, until):
        self.state, self.until = state, until
        self.epoch += 1

    def trip(self, now):
        fresh = self.until == math.inf or (self.state == 'closed' and now >= self.until)
        self.trips = 1 if fresh else self.trips + 1
        self.good_probes = 0
        self.enter('open', now + min(100, 30 * 2 ** (self.trips - 1)))

    def close(self, until, trips):
        self.enter('closed', until)
        self.trips, self.good_probes, self.outcomes = trips, 0, []

    def admits(self, now):
        return self.state == 'closed' or now >= self.until

    def admit(self, now):
        if self.state != 'closed':
            self.enter('half-open', now + 10)
        return self.epoch, now

    def recent(self, now):
        return [entry for entry in self.outcomes if entry[0] // SLOT_S > now // SLOT_S - SLOTS]

    def settle(self, ticket, kind, now):
        epoch, started = ticket
        if epoch != self.epoch:
            return
        slow = now - started >= 5
        if self.state == 'closed':
            self.settle_call(kind, slow, now)
        elif kind in ('neutral', 'interrupt'):
            self.enter('half-open', now)
        elif kind == 'bad' or slow:
            self.trip(now)
        elif self.good_probes == 1:
            self.close(now + 60, self.trips)
        else:
            self.good_probes += 1
            self.enter('half-open', now)

    def settle_call(self, kind, slow, now):
        if kind not in ('good', 'bad'):
            return
        self.outcomes.append((now, kind == 'bad', slow))
        recent = self.recent(now)
        failed = sum(entry[1] for entry in recent)
        slowed = sum(entry[2] for entry in recent)
        too_many = failed >= 0.5 * len(recent) or slowed >= 0.75 * len(recent)
        if (kind == 'bad' or slow) and len(recent) >= 3 and too_many:
            self.trip(now)


class CircuitMachine(hs.RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.clock = VirtualClock()
        self.circuit = Circuit('a', settings=SETTINGS, clock=self.clock)
        self.model = Model()
        self.under_way = []

    @property
    def now(self):
        return self.clock.monotonic()

    # Whole seconds, or halves: exact as floats, so that both calculate the same.
    @hs.rule(halves=st.sampled_from([1, 2, 9, 10, 19, 20, 21, 60, 120, 121, 400]))
    def let_time_pass(self, halves):
        self.clock.advance(halves / 2)

    @hs.rule(seconds=st.integers(-5000, 5000))
    def step_the_wall_clock(self, seconds):
        self.clock.step(seconds)

    @hs.rule()
    def admit(self):
        if not self.model.admits(self.now):
            try:
                self.circuit.admit()
            except CircuitOpenError as refusal:
                self.check_refusal(refusal)
            else:
                raise AssertionError('admitted, against the rules')
            return
        ticket = self.circuit.admit()
        self.under_way.append((ticket, self.model.admit(self.now)))

    @hs.precondition(lambda self: self.under_way)
    @hs.rule(data=st.data(), kind=st.sampled_from(sorted(ERRORS)))
    def settle(self, data, kind):
        which = data.draw(st.integers(0, len(self.under_way) - 1))
        ticket, modelled = self.under_way.pop(which)
        self.circuit.settle(ticket, ERRORS[kind])
        self.model.settle(modelled, kind, self.now)

    @hs.rule(kinds=st.lists(st.sampled_from(sorted(ERRORS)), max_size=8))
    def make_quick_calls(self, kinds):
        for kind in kinds:
            if self.model.admits(self.now):
                ticket = self.circuit.admit()
                modelled = self.model.admit(self.now)
                self.circuit.settle(ticket, ERRORS[kind])
                self.model.settle(modelled, kind, self.now)

    @hs.rule(how=st.sampled_from(['trip', 'half_open', 'close', 'isolate']))
    def act_by_hand(self, how):
        getattr(self.circuit, how)()
        if how == 'trip':
            self.model.trip(self.now)
        elif how == 'half_open':
            self.model.good_probes = 0
            self.model.enter('half-open', self.now)
        elif how == 'close':
            self.model.close(0.0, 0)
        else:
            self.model.good_probes = 0
            self.model.enter('open', math.inf)

    def check_refusal(self, refusal):
        wait = self.model.until - self.now
        expected = wait
        if wait == math.inf:
            expected = None
        elif self.model.state == 'half-open':
            expected = min(1.0, wait)
        assert refusal.retry_after == expected, (refusal.retry_after, expected)

    @hs.invariant()
    def looks_like_its_model(self):
        snapshot, recent = self.circuit.snapshot(), self.model.recent(self.now)
        assert snapshot.state == self.model.state
        assert snapshot.trips == self.model.trips
        assert snapshot.calls == len(recent)
        failures = sum(entry[1] for entry in recent)
        assert snapshot.failure_rate == (failures / len(recent) if recent else 0.0)
        refusal = self.circuit.refusal()
        assert (refusal is None) == self.model.admits(self.now)
        if refusal is not None:
            self.check_refusal(refusal)


CircuitMachine.TestCase.settings = hypothesis_settings(
    max_examples=examples(50), stateful_step_count=40, deadline=None
)


class CircuitModelTest(CircuitMachine.TestCase):
    pass
