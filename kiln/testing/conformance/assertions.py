"""Assertions of the kit: a failure has what was expected, what was seen, what to read.

They have the names and the arguments of unittest's own, whose messages are written for
the author of a test and not for the author of a driver. By convention the value that was
seen comes first, and the optional message names it.
"""

from __future__ import annotations

import unittest
from collections.abc import Callable, Collection
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from kiln.testing.conformance.hanging import Hangs, HangWatch
from kiln.testing.conformance.wording import (
    around,
    contrast,
    error_in_words,
    missing,
    shown,
)
from kiln.testing.report import failure
from kiln.testing.runner import Behaviours, sentence_of
from kiln.wrappers.base import DriverWrapper

# As in runner.py.
__unittest = True

# Raised by a behaviour itself; any other error comes from the driver or its bench.
_VERDICTS = (AssertionError, unittest.SkipTest)

E = TypeVar('E', bound=BaseException)

#: How much longer a call can take behind guards.
_BY_GUARDS = 10


class Assertions(Behaviours):
    """Base of the fixture of compute drivers."""

    driver: Any = None
    #: Seconds within which every effect must have taken place; 0 takes those of the bench.
    timeout_s: float = 0.0
    #: Real seconds after which a call that has not returned ends its behaviour as a failure, if
    #: timeout_s and soon_s are not more: a machine can be busy.
    hang_s: float = 30.0

    def run(self, result: unittest.TestResult | None = None) -> unittest.TestResult | None:
        """Run the behaviour; a call that does not return ends it as a failure."""
        with HangWatch(self._hang_s, lambda: self.driver):
            return super().run(result)

    def _hang_s(self) -> float:
        # The longest wait of the kit itself is a poll until timeout_s, and its last call. Guards
        # repeat a call, and wait before they do.
        longest_s = max(self.hang_s, self.timeout_s + self.soon_s)
        return longest_s * _BY_GUARDS if isinstance(self.driver, DriverWrapper) else longest_s

    def words_of(self, error: BaseException) -> str:
        """Return the text of the failure of a behaviour that ended with an error."""
        if isinstance(error, Hangs):
            return failure(f'{sentence_of(self)}, and each call returns', str(error), self.read())
        seen = error_in_words(error, self.driver)
        return failure(f'{sentence_of(self)}, without an error', seen, self.read())

    def _callTestMethod(self, method: Callable[[], object]) -> None:  # noqa: N802
        # The hook by which unittest runs a test. An error is shown by every runner, but only
        # with a note it is a failure like the others.
        try:
            method()
        except _VERDICTS:
            raise
        except Hangs as exc:
            self.fail(self.words_of(exc))
        except Exception as exc:
            exc.add_note(self.words_of(exc))
            raise

    def _expected(self, msg: object, words: str) -> str:
        return f'{msg or sentence_of(self)}: {words}'

    def assertEqual(self, first: Any, second: Any, msg: Any = None) -> None:  # noqa: N802
        if first != second:
            seen, expected = contrast(first, second)
            self.broken(self._expected(msg, expected), seen)

    def assertNotEqual(self, first: Any, second: Any, msg: Any = None) -> None:  # noqa: N802
        if first == second:
            self.broken(self._expected(msg, f'another value than {shown(second)}'), shown(first))

    def assertTrue(self, expr: Any, msg: Any = None) -> None:  # noqa: N802
        if not expr:
            self.broken(msg or sentence_of(self), 'it is not so' if expr is False else shown(expr))

    def assertFalse(self, expr: Any, msg: Any = None) -> None:  # noqa: N802
        if expr:
            self.broken(msg or sentence_of(self), 'it is not so' if expr is True else shown(expr))

    def assert_retryable(self, error: Any, call: str, retryable: bool = True) -> None:
        """Fail unless an error says that the call can be retried, or that it cannot."""
        if error.retryable is not retryable:
            kind = type(error).__name__
            self.broken(
                f'{call} raises an error with retryable={retryable}',
                f'{kind} with retryable={error.retryable}: {error}',
            )

    def assertIs(self, expr1: object, expr2: object, msg: Any = None) -> None:  # noqa: N802
        if expr1 is not expr2:
            self.broken(self._expected(msg, shown(expr2)), shown(expr1))

    def assertIsNot(self, expr1: object, expr2: object, msg: Any = None) -> None:  # noqa: N802
        if expr1 is expr2:
            self.broken(self._expected(msg, f'another value than {shown(expr2)}'), shown(expr1))

    def assertIsNone(self, obj: object, msg: Any = None) -> None:  # noqa: N802
        if obj is not None:
            self.broken(msg or f'{sentence_of(self)}: None', shown(obj))

    def assertIsNotNone(self, obj: object, msg: Any = None) -> None:  # noqa: N802
        if obj is None:
            self.broken(msg or sentence_of(self), 'None')

    def assertIsInstance(self, obj: object, cls: Any, msg: Any = None) -> None:  # noqa: N802
        if not isinstance(obj, cls):
            named = obj is None or isinstance(obj, BaseException)
            kind = '' if named else f'{type(obj).__name__} '
            self.broken(self._expected(msg, shown(cls)), f'{kind}{shown(obj)}')

    def assertIn(self, member: Any, container: Any, msg: Any = None) -> None:  # noqa: N802
        if member not in container:
            with_it = 'a text with ' if isinstance(container, str) else 'among others '
            self.broken(self._expected(msg, f'{with_it}{shown(member)}'), shown(container))

    def assertNotIn(self, member: Any, container: Any, msg: Any = None) -> None:  # noqa: N802
        if member in container:
            text = isinstance(container, str)
            seen = around(container, member) if text else shown(container)
            self.broken(self._expected(msg, f'nowhere {shown(member)}'), seen)

    def assertLess(self, a: Any, b: Any, msg: Any = None) -> None:  # noqa: N802
        if not a < b:
            self.broken(self._expected(msg, f'less than {shown(b)}'), shown(a))

    def assertLessEqual(self, a: Any, b: Any, msg: Any = None) -> None:  # noqa: N802
        if not a <= b:
            words = f'also {missing(a, b)}' if isinstance(b, Collection) else f'at most {shown(b)}'
            seen = shown(b) if isinstance(b, Collection) else shown(a)
            self.broken(self._expected(msg, words), seen)

    def assertGreaterEqual(self, a: Any, b: Any, msg: Any = None) -> None:  # noqa: N802
        if not a >= b:
            self.broken(self._expected(msg, f'at least {shown(b)}'), shown(a))

    def assertRaises(  # type: ignore[override]  # noqa: N802
        self,
        expected_exception: type[E] | tuple[type[E], ...],
        call: Callable[..., object] | None = None,
        *args: Any,
        msg: Any = None,
        **kwargs: Any,
    ) -> Raised[E]:
        """Fail unless the call, or the block of a with statement, raises the error."""
        raised = Raised(self, expected_exception, msg)
        if call is not None:
            with raised:
                call(*args, **kwargs)
        return raised


class Raised(Generic[E]):
    """Context manager of assertRaises; ``exception`` is the error that was raised."""

    exception: E

    def __init__(
        self, case: Assertions, errors: type[E] | tuple[type[E], ...], msg: object
    ) -> None:
        self._case, self._errors = case, errors
        names = errors if isinstance(errors, tuple) else (errors,)
        wanted = ' or '.join(error.__name__ for error in names)
        self._expected = f'{msg or sentence_of(case)}: {wanted}'

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if error is None:
            self._case.broken(self._expected, 'no error was raised')
        if isinstance(error, self._errors):
            self.exception = error.with_traceback(None)
            return True
        if isinstance(error, Exception) and not isinstance(error, _VERDICTS):
            self._case.broken(self._expected, error_in_words(error, self._case.driver))
        return False
