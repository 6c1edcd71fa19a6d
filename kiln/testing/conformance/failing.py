"""Fixture with the faults of a backend, and the errors of calls that meet them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from kiln.clock import Deadline, deadline_scope
from kiln.compute_drivers.authoring.bench import CannotBeShown, Faults, offers_faults
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.calls import Call
from kiln.exceptions import (
    AmphoraBuildError,
    AmphoraComputeError,
    DeleteTimeout,
    OperationTimeout,
    ServiceTimeout,
    ServiceUnavailable,
)
from kiln.models import State
from kiln.testing.conformance.guarded import GuardedFixture
from kiln.testing.conformance.hanging import where_it_is

# As in runner.py.
__unittest = True

S = TypeVar('S')
T = TypeVar('T')

#: Steps in seconds towards a deadline, of the clock and in real time.
_LATE_STEP_S, _REAL_STEP_S = 0.25, 0.1
#: What the base class writes into an error that the driver did not translate.
DEFECT = 'This is a defect of the driver'
#: Errors for an answer that did not come, of a driver and of a guard around it.
NO_ANSWER = (ServiceTimeout, ServiceUnavailable, OperationTimeout, DeleteTimeout)


class FaultFixture(GuardedFixture):
    """Fixture for behaviours under backend faults.

    A guard around a driver can absorb a fault, so each behaviour accepts a
    success, and then checks that the effect took place.
    """

    def make_faults(self, driver: AmphoraComputeDriver) -> Faults:
        """Return the faults of the backend; by default the driver's bench."""
        return self.bench

    def setUp(self) -> None:
        super().setUp()
        self.faults = self.make_faults(self.driver)
        if not offers_faults(self.faults):
            raise CannotBeShown('the bench offers no faults')

    def offered(self, faults: Iterable[tuple[S, Callable[[], T]]]) -> Iterator[tuple[S, T]]:
        """Bring about one fault after the other; skip if the bench offers none of them.

        Each has something that is yielded with what the bench returned.
        """
        unshown: CannotBeShown | None = None
        shown = False
        for what, fault in faults:
            try:
                result = fault()
            except CannotBeShown as exc:
                unshown = unshown or exc
                continue
            shown = True
            yield what, result
        if unshown and not shown:
            raise unshown

    def refuse(self, call: Call) -> None:
        """Have the next such call refused, or skip if the bench does not know the call."""
        try:
            self.faults.refuse(call)
        except LookupError as exc:
            # Benches that were written before the kit asked for this call.
            raise CannotBeShown(f'the bench cannot have {call.label} refused') from exc

    def lose_answer(self, call: Call) -> None:
        """Have the answer of the next such call lost, or skip if the bench does not know it."""
        try:
            self.faults.lose_answer(call)
        except LookupError as exc:
            raise CannotBeShown(f'the bench cannot lose the answer of {call.label}') from exc

    def silence(self, call: Call) -> None:
        """Have the next such call get no answer, or skip if the bench does not know the call."""
        try:
            self.faults.fall_silent(call)
        except (AttributeError, LookupError) as exc:
            raise CannotBeShown(f'the bench cannot leave {call.label} without an answer') from exc

    def outage(self) -> contextlib.AbstractContextManager[object]:
        """Return a context in which no call is answered; skip if the bench has none."""
        try:
            return self.faults.outage()
        except AttributeError as exc:
            # Faults of a vendor that are not derived from those of the kit.
            raise CannotBeShown('the bench cannot leave all calls without an answer') from exc

    def error_in(self, call: Callable[[], object]) -> AmphoraComputeError | None:
        """Make a call, and return its error, or None if it succeeded."""
        try:
            call()
        except AmphoraComputeError as exc:
            self.assertNotIn(DEFECT, str(exc), 'the driver translates the error')
            return exc
        return None

    def build_error(self, key: str, **given: object) -> AmphoraComputeError | None:
        """Build, and return the error, or None if the build verifiably succeeded."""
        try:
            amphora_id = self.build(build_key=key, **given)
        except AmphoraComputeError as exc:
            self.assertNotIn(DEFECT, str(exc), 'the driver translates the error')
            return exc
        self.assert_exists(amphora_id)
        return None

    def failed(self, reason: str = 'the kit failed it', **given: object) -> str:
        """Build an instance that ends in error for a reason, and return its id."""
        self.faults.fail_build(reason)
        try:
            amphora_id = self.build(**given)
        except AmphoraBuildError as exc:
            raise CannotBeShown('this backend fails a build at once') from exc
        self.settle(amphora_id, State.ERROR)
        return amphora_id

    def stalled(self, **given: object) -> str:
        """Build an instance that never comes up, and return its id; the build must return soon."""
        self.faults.stall_build()
        return self.returns_soon('build()', lambda: self.build(**given))

    def returns_soon(self, call: str, act: Callable[[], T]) -> T:
        """Make a call on another thread, as it might never return; return its result."""
        results: list[T] = []
        errors: list[Exception] = []

        def work() -> None:
            try:
                results.append(act())
            # A wrong driver can raise anything.
            except Exception as exc:
                errors.append(exc)

        thread = threading.Thread(target=work, daemon=True)
        with self.soon(call):
            thread.start()
            thread.join(self.soon_s)
            if not results and not errors:
                place = where_it_is(thread, self.driver)
                self.broken(
                    f'{call} returns within {self.soon_s:g} s (soon_s), though no effect comes',
                    f'it had not returned then: {self.soon_rule}'
                    + (f' It is at {place}' if place else ''),
                )
        if errors:
            raise errors[0]
        return results[0]

    def with_key(self, key: str) -> list[str]:
        """Return the ids of all instances that were built with a key."""
        return [one.id for one in self.driver.list_amphorae() if one.build_key == key]

    def ends_by_its_deadline(
        self, call: Call, act: Callable[[], object]
    ) -> AmphoraComputeError | None:
        """Make a call with a deadline on another thread; return its error, if it had one."""
        deadline = Deadline.after(self.short_s, self.time)
        errors: list[AmphoraComputeError | None] = []

        def work() -> None:
            with deadline_scope(deadline):
                errors.append(self.error_in(act))

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        passed = f'{call.label}() ends, or its deadline passes'
        step_s = min(_LATE_STEP_S, self.short_s / 4)
        self.comes(lambda: bool(errors) or deadline.passed, passed, step_s=step_s)
        while thread.is_alive() and deadline.remaining_s() > -self.soon_s:
            # Real time, as a thread that is awake needs some on a busy machine.
            thread.join(_REAL_STEP_S)
            self.pass_time(_LATE_STEP_S)
        if not errors:
            self.broken(
                f'{call.label}() of a silent backend ends by its deadline, in {self.short_s:g} s',
                f'it had not ended {self.soon_s:g} s later',
            )
        return errors[0]
