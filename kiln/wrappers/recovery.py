"""What an operation keeps of its call, so that another process can take it up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kiln.compute_drivers import arguments
from kiln.compute_drivers.calls import Call
from kiln.compute_drivers.hooks import ON_AMPHORA
from kiln.exceptions import Advice, AmphoraComputeError, InvalidRequest
from kiln.models import BuildRequest, Resource
from kiln.wrappers.attempts import Backoff, CallPlan
from kiln.wrappers.build_attempts import BuildPlan
from kiln.wrappers.build_key import BuildKey
from kiln.wrappers.errand import Errand

_CALLS: Mapping[str, Call] = {call.label: call for call in Call}


def describe(operation: Errand[Any], args: tuple[Any, ...]) -> None:
    """Note on an operation what its call is about: ids, never contents."""
    subject = args[0] if args else ''
    if isinstance(subject, BuildRequest):
        operation.subject = subject.name
        if operation.key is None:
            operation.key = BuildKey(subject.build_key, drawn=subject.fresh)
        return
    operation.arguments = args
    if isinstance(subject, Resource):
        operation.subject = f'{subject.kind} {subject.id}'
    elif isinstance(subject, str):
        operation.subject = subject
        if _CALLS.get(operation.kind) in ON_AMPHORA:
            operation.amphora_id = subject


def plan_again(operation: Errand[Any], backoff: Backoff, owner: str) -> CallPlan | None:
    """Return how a recovered operation goes on, or None where nobody can tell.

    :raises InvalidRequest: no caller could give its call these arguments.
    """
    call = _CALLS.get(operation.kind)
    if call is Call.BUILD and operation.key is not None:
        return BuildPlan(operation, None, backoff)
    if call is None or not call.repeatable:
        return None
    args = restored_arguments(operation, owner)
    return None if args is None else CallPlan(operation, call, args, backoff)


def restored_arguments(operation: Errand[Any], owner: str) -> tuple[Any, ...] | None:
    """Return what a recovered call is made with, or None where its record does not hold it.

    The arguments pass the checks of a new call: a record can have been damaged or edited.

    :raises InvalidRequest: no caller could give its call these arguments.
    """
    call = _CALLS.get(operation.kind)
    if call is None or call is Call.BUILD:
        return None
    args = operation.arguments
    if args is None:
        # The record of a wait by an older kiln has none; its subject will do.
        args = (operation.subject,) if operation.subject else ()
        if len(args) != arguments.count(call):
            return None
    try:
        return arguments.checked(call, owner, *map(_restored, args))
    except (InvalidRequest, TypeError) as exc:
        raise InvalidRequest(
            f'Cannot recover this: its arguments are not those of {call.label}: {exc}'
        ) from exc


def unknown(operation: Errand[Any]) -> AmphoraComputeError:
    """Return the error of an operation that must not be sent twice, and may have been sent."""
    return AmphoraComputeError(
        f'Cannot {operation.attempt} again: nobody knows whether it took effect before the '
        f'restart. Look at the status.',
        advice=Advice.LOOK,
        backend=operation.backend,
        operation=operation.kind,
        amphora_id=operation.amphora_id,
    )


def _restored(argument: Any) -> Any:
    return Resource(**argument) if isinstance(argument, dict) else argument
