"""What an operation keeps of its call, so that another process can take it up."""

from __future__ import annotations

from typing import Any

from kiln.compute_drivers.calls import Call
from kiln.compute_drivers.hooks import ON_AMPHORA, ComputeHooks
from kiln.models import BuildRequest, Resource
from kiln.wrappers.operation import Operation
from kiln.wrappers.plan import CallPlan
from kiln.wrappers.retry import Backoff
from kiln.wrappers.safe_build import BuildPlan

_CALLS = {call.label: call for call in Call}


def describe(operation: Operation[Any], args: tuple[Any, ...]) -> None:
    """Note on an operation what its call is about: ids, never contents."""
    subject = args[0] if args else ''
    if isinstance(subject, BuildRequest):
        operation.subject = subject.name
        operation.build_key = subject.build_key
        return
    operation.arguments = args
    if isinstance(subject, Resource):
        operation.subject = f'{subject.kind} {subject.id}'
    elif isinstance(subject, str):
        operation.subject = subject
        if _CALLS.get(operation.kind) in ON_AMPHORA:
            operation.amphora_id = subject


def plan_again(operation: Operation[Any], backoff: Backoff) -> CallPlan | None:
    """Return how a recovered operation goes on, or None where nobody can tell."""
    call = _CALLS.get(operation.kind)
    if call is Call.BUILD and operation.build_key is not None:
        return BuildPlan(operation, operation.build_key, None, backoff)
    args = operation.arguments
    if args is None:
        # One that waited for an effect has none of its own; its subject will do.
        args = (operation.subject,) if operation.subject else ()
    if call is None or not call.repeatable or not _fit(call, args):
        return None
    return CallPlan(operation, call, tuple(_restored(arg) for arg in args), backoff)


def _restored(argument: Any) -> Any:
    if isinstance(argument, dict):
        return Resource(**argument)
    return tuple(argument) if isinstance(argument, list) else argument


def _fit(call: Call, args: tuple[Any, ...]) -> bool:
    hook = getattr(ComputeHooks, call.hook)
    expected: int = hook.__code__.co_argcount - 1
    return len(args) == expected
