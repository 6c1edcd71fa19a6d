"""Behaviours of a backend that stops answering for a while, and comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from kiln.clock import Deadline
from kiln.compute_drivers import hooks
from kiln.compute_drivers.calls import Call
from kiln.exceptions import CircuitOpenError
from kiln.models import State
from kiln.testing.conformance.failing import FaultFixture
from kiln.testing.conformance.wording import in_words

T = TypeVar('T')

#: Steps in seconds of a pause.
_PAUSE_STEP_S, _LEAST_STEP_S = 1.0, 0.01


class Outages(FaultFixture, contract=(hooks,)):
    """Outages."""

    def test_a_call_in_an_outage_ends_by_its_deadline_and_can_be_repeated(self) -> None:
        amphora_id, key = self.build_active(), self.new_key()
        given = self.arguments(build_key=key)
        with self.outage():
            for call, act in (
                *self.reads(amphora_id, key),
                (Call.DELETE, lambda: self.driver.delete(amphora_id)),
                (Call.BUILD, lambda: self.driver.build(**given)),
            ):
                error = self.ends_by_its_deadline(call, act)
                # A read can succeed where the driver has its answer nevertheless.
                if error is not None:
                    kind = f'{type(error).__name__} of {call.label}()'
                    self.assert_retryable(error, f'{call.label}() in an outage')
                    if call in (Call.STATUS, Call.DELETE):
                        self.assertEqual(error.amphora_id, amphora_id, f'amphora_id, {kind}')

    def test_what_was_built_before_an_outage_is_there_after_it(self) -> None:
        key, name = self.new_key(), self.new_key()
        amphora_id = self.build_active(build_key=key, name=name)
        with self.outage():
            for call, act in self.reads(amphora_id, key):
                self.ends_by_its_deadline(call, act)
        listed = self.answered(lambda: {one.id for one in self.driver.list_amphorae()})
        self.assertIn(amphora_id, listed, 'the list')
        found = self.answered(lambda: self.driver.find_build(key))
        self.assertEqual(found and found.id, amphora_id, 'the id of what find_build() returns')
        self.assertEqual(self.answered(lambda: self.driver.get_amphora(name)).id, amphora_id)
        self.assertIn(amphora_id, self.driver.statuses([amphora_id]), 'the ids of statuses()')
        self.becomes(
            lambda: self.driver.status(amphora_id).state, lambda seen: seen is State.ACTIVE
        )
        again = self.arguments(build_key=key, name=name)
        self.assertEqual(self.answered(lambda: self.driver.build(**again)), amphora_id)
        self.answered(lambda: self.driver.delete(amphora_id))
        self.gone(amphora_id)

    def test_a_build_and_a_delete_in_an_outage_can_be_repeated_after_it(self) -> None:
        amphora_id, key = self.build_active(), self.new_key()
        given = self.arguments(build_key=key)
        with self.outage():
            self.ends_by_its_deadline(Call.BUILD, lambda: self.driver.build(**given))
            self.ends_by_its_deadline(Call.DELETE, lambda: self.driver.delete(amphora_id))
        built = self.answered(lambda: self.build(**given))
        self.assertEqual(self.with_key(key), [built], 'the amphorae with the key')
        self.answered(lambda: self.driver.delete(amphora_id))
        self.gone(amphora_id)

    def reads(self, amphora_id: str, key: str) -> Iterator[tuple[Call, Callable[[], object]]]:
        """Yield calls that read the backend."""
        yield Call.STATUS, lambda: self.driver.status(amphora_id)
        yield Call.LIST, lambda: list(self.driver.list_amphorae())
        yield Call.FIND_BUILD, lambda: self.driver.find_build(key)

    def answered(self, act: Callable[[], T]) -> T:
        """Make a call until it is answered: a guard can refuse the first after an outage."""
        results: list[T] = []

        def look() -> str:
            error = self.error_in(lambda: results.append(act()))
            # The pause of a circuit is longer than an effect of the backend takes.
            if isinstance(error, CircuitOpenError) and error.retry_after is not None:
                self.pause(error.retry_after)
                error = self.error_in(lambda: results.append(act()))
            if error is not None and not error.retryable:
                self.broken('calls are answered again after an outage', in_words(error))
            return '' if error is None else in_words(error)

        self.becomes(look, lambda error: not error, 'calls are answered again after an outage')
        return results[-1]

    def pause(self, seconds: float) -> None:
        """Let the pause of a circuit pass, in steps; the first look after it is in time."""
        until = Deadline.after(seconds, self.time)
        while not until.passed:
            self.pass_time(min(_PAUSE_STEP_S, max(until.remaining_s(), _LEAST_STEP_S)))
