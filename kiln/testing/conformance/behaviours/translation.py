"""Behaviours of translation: refusals and states of a backend, in the words of kiln."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType

from kiln.compute_drivers.authoring.bench import CannotBeShown, Refusal
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.calls import Call
from kiln.compute_drivers.hooks import ComputeHooks
from kiln.exceptions import (
    AmphoraComputeError,
    AuthenticationFailed,
    BuildConflict,
    BuildOutcomeUnknown,
    DeleteFailed,
    InstanceStateConflict,
    InvalidBuildRequest,
    InvalidRequest,
    Outcome,
    PermissionDenied,
)
from kiln.testing.conformance.failing import NO_ANSWER, FaultFixture
from kiln.testing.conformance.wording import in_words

_Errors = tuple[type[AmphoraComputeError], ...]
_LOGIN: Mapping[Refusal, _Errors] = {
    Refusal.NO_LOGIN: (AuthenticationFailed,),
    Refusal.FORBIDDEN: (PermissionDenied,),
}
#: The error of each call that a backend refuses, by its reason.
_MEANING: Mapping[Call, Mapping[Refusal, _Errors]] = MappingProxyType(
    {
        Call.BUILD: {
            **_LOGIN,
            Refusal.WRONG: (InvalidBuildRequest,),
            Refusal.UNKNOWN: (InvalidBuildRequest,),
            Refusal.CONFLICT: (BuildConflict,),
            Refusal.BROKEN: (BuildOutcomeUnknown,),
        },
        Call.GET: {
            **_LOGIN,
            Refusal.WRONG: (InvalidRequest,),
            Refusal.CONFLICT: (InstanceStateConflict,),
            Refusal.BROKEN: NO_ANSWER,
        },
        Call.DELETE: {
            **_LOGIN,
            Refusal.WRONG: (DeleteFailed, InvalidRequest),
            Refusal.CONFLICT: (DeleteFailed,),
            Refusal.BROKEN: NO_ANSWER,
        },
    }
)


class Translation(
    FaultFixture, contract=(ComputeHooks, AmphoraComputeError, AmphoraComputeDriver.status)
):
    """Translation."""

    def test_a_refusal_is_the_error_of_its_reason(self) -> None:
        amphora_id = self.build_active()
        refusals = [
            ((call, reason), functools.partial(self.faults.refuse_for, call, reason))
            for call, meaning in _MEANING.items()
            for reason in meaning
        ]
        for (call, reason), status in self.offered(refusals):
            what = f'{call.label}(), refused as {reason.value}'
            subject = self.new_key() if call is Call.BUILD else amphora_id
            # A guard can have repeated the call.
            if error := self.error_of_call(call, subject):
                self.assertIsInstance(error, _MEANING[call][reason], what)
                about = error.build_key if call is Call.BUILD else error.amphora_id
                self.assertEqual(about, subject, f'the subject of the error of {what}')
                if reason is Refusal.BROKEN and call is not Call.GET:
                    self.assertIs(error.outcome, Outcome.UNKNOWN, f'outcome, of {what}')
                if status is not None:
                    self.assertEqual(error.http_status, status, f'http_status, of {what}')

    def test_a_404_of_another_program_does_not_hide_an_instance(self) -> None:
        key = self.new_key()
        amphora_id = self.build_active(build_key=key)
        reads: tuple[tuple[Call, Callable[[], object]], ...] = (
            (Call.GET, lambda: self.driver.get_amphora(amphora_id=amphora_id)),
            (Call.FIND_BUILD, lambda: self.driver.find_build(key)),
            (Call.LIST, lambda: amphora_id in {one.id for one in self.driver.list_amphorae()}),
        )
        misroutes = [((call, act), functools.partial(self.misroute, call)) for call, act in reads]
        for (call, act), _ in self.offered(misroutes):
            what = f'{call.label}(), answered by another program'
            # A guard can have repeated the call.
            if error := self.error_in(functools.partial(self.assert_found, act, what)):
                self.assert_retryable(error, what)

    def test_a_404_of_another_program_does_not_stand_for_a_delete(self) -> None:
        amphora_id = self.build_active()
        self.misroute(Call.DELETE)
        if error := self.error_in(lambda: self.driver.delete(amphora_id)):
            self.assert_retryable(error, 'delete(), answered by another program')
            self.assert_exists(amphora_id)
        else:
            self.gone(amphora_id)

    def assert_found(self, read: Callable[[], object], what: str) -> None:
        """Fail if a call succeeds that does not find the amphora."""
        self.assertTrue(read(), what)

    def misroute(self, call: Call) -> None:
        """Have the next such call answered by another program."""
        try:
            self.faults.misroute(call)
        except (AttributeError, LookupError) as exc:
            raise CannotBeShown(f'the bench cannot misroute {call.label}') from exc

    def test_an_error_shows_the_error_of_the_client_behind_it(self) -> None:
        faults: tuple[tuple[str, Callable[[], None]], ...] = (
            ('that is refused', lambda: self.faults.refuse(Call.BUILD)),
            ('that exceeds the quota', self.faults.exhaust_quota),
            ('whose answer was lost', lambda: self.faults.lose_answer(Call.BUILD)),
        )
        for what, _ in self.offered(faults):
            error = self.build_error(self.new_key())
            if error is None or error.__cause__ is not None or not error.__suppress_context__:
                continue
            if error.__context__ is not None:
                self.broken(
                    f'the error of a build {what} shows the error behind it',
                    f'it was raised "from None" and hides {in_words(error.__context__)}',
                )

    def test_a_state_of_the_backend_is_the_state_that_it_stands_for(self) -> None:
        if not self.faults.states:
            raise CannotBeShown('the bench has no states of its backend (states)')
        amphora_id = self.build_active()
        for word, state in self.faults.states.items():
            self.faults.enter_state(amphora_id, word)
            for seen in self.both(amphora_id):
                self.assertIs(seen.state, state, f'state of {type(seen).__name__}, for {word!r}')

    def error_of_call(self, call: Call, subject: str) -> AmphoraComputeError | None:
        """Make a call, and return the error, or None if it verifiably succeeded."""
        if call is Call.BUILD:
            return self.build_error(subject)
        if call is Call.GET:
            return self.error_in(lambda: self.driver.get_amphora(amphora_id=subject))
        error = self.error_in(lambda: self.driver.delete(subject))
        if error is None:
            self.gone(subject)
        return error
