"""Error mapping: turns whatever a driver raises into kiln's own errors."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kiln.compute_drivers.authoring.redaction import sealed
from kiln.compute_drivers.authoring.wording import attempt
from kiln.compute_drivers.calls import Call
from kiln.compute_drivers.hooks import ON_AMPHORA
from kiln.exceptions import (
    Advice,
    AmphoraComputeError,
    DeleteFailed,
    KilnError,
    Outcome,
    UnsupportedOperation,
    Verdict,
)
from kiln.models import Ability


def unsupported(call: Call, backend: str, abilities: Collection[Ability]) -> UnsupportedOperation:
    """Return the error for a call whose ability the driver lacks."""
    can = ', '.join(sorted(ability.value for ability in abilities)) or 'nothing optional'
    return UnsupportedOperation(
        f'Cannot {call.label}: driver {backend!r} lacks this ability (it has: {can}).',
        backend=backend,
        operation=call.label,
    )


def own_error(
    exc: Exception,
    call: Call,
    args: tuple[Any, ...],
    *,
    backend: str,
    abilities: Collection[Ability],
) -> KilnError:
    """Return what a hook raised as a kiln error: unchanged, if it already is one.

    The error names the backend and the call, and quotes no confidential content of a
    build.
    """
    error: KilnError
    if isinstance(exc, AmphoraComputeError):
        exc.backend = exc.backend or backend
        exc.operation = exc.operation or call.label
        error = look_first(exc, call)
    elif isinstance(exc, KilnError):
        error = exc
    elif isinstance(exc, NotImplementedError):
        error = unsupported(call, backend, abilities)
    else:
        # The last resort for errors that a driver's own translation does not cover.
        error = _unclassified(exc, call, args, backend)
    if error is not exc:
        error.__cause__ = exc
    return sealed(error, args[0]) if call is Call.BUILD else error


def look_first(error: AmphoraComputeError, call: Call) -> AmphoraComputeError:
    """Return the error of a call; advise LOOK if a repeat could have a second effect."""
    if (
        error.retryable
        and error.outcome is Outcome.UNKNOWN
        and call is not Call.BUILD
        and not call.repeatable
    ):
        error.advice, error.retryable = Advice.LOOK, False
    return error


def _unclassified(
    exc: Exception, call: Call, args: tuple[Any, ...], backend: str
) -> AmphoraComputeError:
    # Only ids: other arguments can hold secrets.
    subject = args[0] if args and isinstance(args[0], str) else ''
    error = DeleteFailed if call is Call.DELETE else AmphoraComputeError
    return error(
        f'Cannot {attempt(call.label, subject)}: driver {backend!r} failed with '
        f'{type(exc).__name__}: {exc}. This is a defect of the driver.',
        outcome=Outcome.UNKNOWN,
        circuit=Verdict.FAILURE,
        backend=backend,
        operation=call.label,
        amphora_id=subject if call in ON_AMPHORA else None,
        build_key=args[0].build_key if call is Call.BUILD else None,
    )
