"""Call data of an operation, with which another process can resume it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kiln.compute_drivers import arguments
from kiln.compute_drivers.calls import Call
from kiln.compute_drivers.hooks import ON_AMPHORA
from kiln.exceptions import Advice, AmphoraComputeError, InvalidRequest
from kiln.models import BuildRequest, Resource
from kiln.wrappers.executor.attempts import Backoff, CallPlan
from kiln.wrappers.executor.build_attempts import BuildPlan
from kiln.wrappers.operations.build_key import BuildKey
from kiln.wrappers.operations.errand import Errand

_CALLS: Mapping[str, Call] = {call.label: call for call in Call}


def describe(operation: Errand[Any], args: tuple[Any, ...]) -> None:
    """Record on an operation what its call is about: ids, never contents."""
    subject = args[0] if args else ''
    if isinstance(subject, BuildRequest):
        operation.subject = subject.name
        if operation.key is None:
            operation.key = BuildKey(subject.build_key, drawn=subject.fresh)
        return
    if operation.arguments is None:
        operation.arguments = args
    if isinstance(subject, Resource):
        operation.subject = f'{subject.kind} {subject.id}'
    elif isinstance(subject, str):
        operation.subject = subject
        if _CALLS.get(operation.kind) in ON_AMPHORA:
            operation.amphora_id = subject


def restored_plan(operation: Errand[Any], backoff: Backoff, owner: str) -> CallPlan | None:
    """Return the plan of a recovered operation, or None if its outcome is unknown.

    :raises InvalidRequest: the arguments are not valid for its call.
    """
    call = _CALLS.get(operation.kind)
    if call is Call.BUILD and operation.key is not None:
        return BuildPlan(operation, None, backoff)
    if call is None or not call.repeatable:
        return None
    args = restored_arguments(operation, owner)
    return None if args is None else CallPlan(operation, call, args, backoff)


def restored_arguments(operation: Errand[Any], owner: str) -> tuple[Any, ...] | None:
    """Return the arguments of a recovered call, or None if its record lacks them.

    They pass the checks of a new call, because a record can have been damaged or edited.

    :raises InvalidRequest: the arguments are not valid for the call.
    """
    call = _CALLS.get(operation.kind)
    if call is None or call is Call.BUILD:
        return None
    args = operation.arguments
    if args is None:
        # The record of a wait from an older kiln has no arguments; its subject suffices.
        args = (operation.subject,) if operation.subject else ()
        if len(args) != arguments.count(call):
            return None
    try:
        return arguments.checked(call, owner, tuple(map(_restored, args)))
    except (InvalidRequest, TypeError) as exc:
        raise InvalidRequest(
            f'Cannot recover this: its arguments are not those of {call.label}: {exc}'
        ) from exc


def unknown(operation: Errand[Any]) -> AmphoraComputeError:
    """Return the error of an operation that might have been sent and must not be repeated."""
    return AmphoraComputeError(
        f'Cannot {operation.attempt} again: it is not known whether it took effect before '
        f'the restart. Check the status.',
        advice=Advice.LOOK,
        backend=operation.backend,
        operation=operation.kind,
        amphora_id=operation.amphora_id,
    )


def _restored(argument: Any) -> Any:
    return Resource(**argument) if isinstance(argument, dict) else argument
