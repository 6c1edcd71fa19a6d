"""State machine test of leases: two owners can never both write."""

import contextlib
import pathlib
import shutil
import tempfile

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kiln.clusters.exceptions import LeaseLost
from kiln.db.store import open_store
from kiln.testing.clock import VirtualClock
from tests.examples import examples
from tests.unit.db import samples
from tests.unit.db.case import TERM_S, new_file, take_over

owners = st.sampled_from(['one', 'two', 'three'])


class LeaseMachine(RuleBasedStateMachine):
    """Owners claim, renew, release and write, each with its last lease.

    In the model, only the owner with the newest lease can write.
    """

    def __init__(self):
        super().__init__()
        self.stack = contextlib.ExitStack()
        folder = pathlib.Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        shutil.copy(new_file()[0], folder / 'kiln.db')
        self.clock = VirtualClock()
        url = f'sqlite:///{folder / "kiln.db"}'
        self.store = self.stack.enter_context(open_store(url, clock=self.clock))
        self.store.clusters.create(samples.cluster(), samples.operation('op-web'))
        self.leases, self.holder, self.epochs, self.written = {}, None, [], []
        self.ends = 0.0

    def teardown(self):
        self.stack.close()

    @rule(owner=owners)
    def claim(self, owner):
        lease = self.store.leases.claim('c-web', owner, TERM_S)
        assert (lease is not None) == (self.clock.time() > self.ends)
        if lease is not None:
            self.given(owner, lease)

    @rule(owner=owners)
    def overrule(self, owner):
        self.given(owner, take_over(self.store, 'c-web', owner))

    def given(self, owner, lease):
        self.leases[owner], self.holder = lease, owner
        self.epochs.append(lease.epoch)
        self.ends = self.clock.time() + TERM_S

    @rule(owner=owners)
    def renew(self, owner):
        if owner in self.leases:
            try:
                self.leases[owner] = self.store.leases.renew(self.leases[owner], TERM_S)
            except LeaseLost:
                assert owner != self.holder
            else:
                assert owner == self.holder
                self.ends = self.clock.time() + TERM_S

    @rule(owner=owners)
    def give_up(self, owner):
        if owner in self.leases:
            self.store.leases.release(self.leases[owner])
            if owner == self.holder:
                self.holder, self.ends = None, 0.0

    @rule(owner=owners)
    def write(self, owner):
        if owner in self.leases:
            try:
                with self.store.writing(self.leases[owner]) as batch:
                    batch.event(samples.event(owner))
            except LeaseLost:
                assert owner != self.holder
            else:
                assert owner == self.holder
                self.written.append(owner)

    @rule(seconds=st.sampled_from([1.0, TERM_S - 1, TERM_S + 1]))
    def wait(self, seconds):
        self.clock.advance(seconds)

    @invariant()
    def every_epoch_is_higher_than_the_one_before(self):
        assert self.epochs == sorted(set(self.epochs))

    @invariant()
    def what_is_there_is_what_was_acknowledged(self):
        assert self.written == [one.message for one in self.store.events.after()]


LeaseMachine.TestCase.settings = settings(
    max_examples=examples(12), stateful_step_count=30, deadline=None
)
TestLeases = LeaseMachine.TestCase
