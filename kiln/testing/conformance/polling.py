"""Polling of the kit: waits until the backend shows an effect, or time runs out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kiln.clock import Clock, Deadline
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.exceptions import InstanceNotFoundError
from kiln.models import Amphora, ComputeStatus, State
from kiln.testing.conformance import sweep
from kiln.testing.conformance.assertions import Assertions
from kiln.testing.conformance.wording import in_words
from kiln.testing.runner import sentence_of

# As in runner.py.
__unittest = True

T = TypeVar('T')

_FIRST_STEP_S = 0.05
_LONGEST_STEP_S = 5.0


class Polling(Assertions):
    """Reads the backend again and again."""

    driver: AmphoraComputeDriver
    time: Clock

    def pass_time(self, seconds: float) -> None:
        """Let time pass; a test clock is advanced and takes no real time."""
        sweep.pass_time(self.time, seconds)

    def eventually(
        self, so: Callable[[], bool], sentence: str = '', seen: Callable[[], str] = str
    ) -> None:
        """Wait until a condition holds; fail with the sentence if it never does.

        Without one it is the sentence of the behaviour. ``seen`` returns in words what the
        last poll saw instead.
        """
        deadline = Deadline.after(self.timeout_s, self.time)
        step_s = _FIRST_STEP_S
        while not so():
            if deadline.passed:
                self.never(sentence or sentence_of(self), seen() or 'it is not so')
            self.pass_time(step_s)
            step_s = min(step_s * 1.25, _LONGEST_STEP_S)

    def never(self, sentence: str, seen: str) -> None:
        """Fail because an effect has not taken place in time."""
        self.broken(f'within {self.timeout_s:g} s (timeout_s), {sentence}', seen)

    def becomes(self, look: Callable[[], T], wanted: Callable[[T], bool], sentence: str = '') -> T:
        """Poll until the result is as desired, and return it; fail with the last result."""
        last: list[T] = []

        def so() -> bool:
            last[:] = [look()]
            return wanted(last[0])

        self.eventually(so, sentence, lambda: in_words(last[0]))
        return last[0]

    def vanishes(self, look: Callable[[], object], sentence: str = '') -> None:
        """Poll until there is nothing to see; fail with what is still there."""
        self.becomes(look, lambda found: not found, sentence)

    def settle(self, amphora_id: str, state: State = State.ACTIVE) -> ComputeStatus:
        """Wait until an instance is in a state without a task, and return its status."""
        sentence = f'amphora {amphora_id} is in state {state.value}'

        def rests(status: ComputeStatus) -> bool:
            if status.state is State.ERROR is not state:
                self.broken(sentence, in_words(status))
            return status.state is state and status.task_state is None

        return self.becomes(lambda: self.driver.status(amphora_id), rests, sentence)

    def seen(self, amphora_id: str) -> ComputeStatus | None:
        """Return the status of an instance, or None if the backend does not know its id."""
        try:
            return self.driver.status(amphora_id)
        except InstanceNotFoundError:
            return None

    def exists(self, amphora_id: str) -> bool:
        """Return True if the backend knows the instance, and not as deleted."""
        return not is_gone(self.seen(amphora_id))

    def assert_exists(self, amphora_id: str) -> None:
        """Fail unless the backend knows the instance, and not as deleted."""
        seen = self.seen(amphora_id)
        if is_gone(seen):
            found = 'status() raised InstanceNotFoundError'
            self.broken(f'amphora {amphora_id} exists', found if seen is None else in_words(seen))

    def gone(self, amphora_id: str, sentence: str = 'a deleted instance is gone') -> None:
        """Wait until the backend no longer knows an instance."""
        self.becomes(lambda: self.seen(amphora_id), is_gone, sentence)


def is_gone(seen: ComputeStatus | Amphora | None) -> bool:
    """Return True if a poll found no instance, or a deleted one."""
    return seen is None or seen.state is State.DELETED
