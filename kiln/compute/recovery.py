"""Recovery of operations from another process: checks a record and resumes it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

from kiln.compute.build import Builder
from kiln.compute.effect import EffectFlow, look_up, watched
from kiln.compute.goals import BuildGoal, OnStatus, StatesGoal
from kiln.compute.stack import Stack, beginning
from kiln.compute_drivers import validation
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.calls import Call
from kiln.exceptions import Advice, AmphoraComputeError, InvalidRequest, Outcome, Verdict
from kiln.wrappers.executor.resume import restored_arguments
from kiln.wrappers.operations.errand import Errand
from kiln.wrappers.operations.operation import OperationState, Priority
from kiln.wrappers.watcher.probe import Probe

#: The kind of an operation that sends nothing and only waits for a state.
WATCH = 'watch'
_KINDS = frozenset({WATCH, *(call.label for call in Call)})
#: The kinds whose single result is selected from the results of a look-up.
_LOOK_UPS = frozenset({Call.GET.label, Call.FIND.label})
_BY_NAME_OR_ID = 2
_NUMBER = (int, float)
#: Upper limit of times, in seconds since the epoch.
_LATEST_S = 1e12
_OPTIONAL_TEXT = (str, type(None))
_FIELDS: Mapping[str, tuple[type, ...]] = {
    'id': (str,),
    'kind': (str,),
    'backend': (str,),
    'subject': (str,),
    'state': (str,),
    'build_key': _OPTIONAL_TEXT,
    'amphora_id': _OPTIONAL_TEXT,
    'priority': (int,),
    'deadline': (*_NUMBER, type(None)),
    'arguments': (list, tuple, type(None)),
    'goal': (dict, type(None)),
    'events': (list,),
    'error': (dict, type(None)),
}
_NEEDED = ('id', 'kind', 'backend', 'subject', 'state')
_EVENT: Mapping[str, tuple[type, ...]] = {'at': _NUMBER, 'name': (str,), 'detail': (str,)}
_ERROR: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(AmphoraComputeError.FACTS, _OPTIONAL_TEXT),
    'code': (str,),
    'message': (str,),
    'retryable': (bool, type(None)),
    'retry_after': (*_NUMBER, type(None)),
    'http_status': (int, type(None)),
}
_ERROR_CHOICES: Mapping[str, type[enum.Enum]] = {
    'advice': Advice,
    'outcome': Outcome,
    'circuit': Verdict,
}
_CHOICES: Mapping[str, type[enum.Enum]] = {'state': OperationState, 'priority': Priority}


def recover(
    builder: Builder,
    saved: Mapping[str, Any],
    *,
    probe: Probe | None,
    on_status: OnStatus | None,
) -> Errand[Any]:
    """Return the operation of a record, with its id, in progress again.

    :raises InvalidRequest: not a record of this backend.
    :raises OperationRejected: the queue is full, or kiln is closed.
    """
    for name, function in (('probe', probe), ('on_status', on_status)):
        if function is not None:
            validation.check_callable(name, function)
    stack = builder.stack
    record = checked(saved, backend=stack.name)
    operation: Errand[Any] = Errand.from_dict(record, clock=stack.clock, callers=stack.callbacks)
    if operation.done():
        return operation
    _check_arguments(operation, stack.driver)
    stack.add(operation)
    with beginning(operation):
        _continue(builder, operation, record.get('goal'), probe, on_status)
    return operation


def _check_arguments(operation: Errand[Any], driver: AmphoraComputeDriver) -> None:
    """Refuse what the public call of that kind refuses, before anything is sent."""
    if not _is_look_up(operation):
        restored_arguments(operation, driver.owner)
        return
    try:
        driver.look_up(*operation.arguments or ())
    except InvalidRequest as exc:
        raise _unusable(_message(exc)) from exc


def _continue(
    builder: Builder,
    operation: Errand[Any],
    goal: Mapping[str, Any] | None,
    probe: Probe | None,
    on_status: OnStatus | None,
) -> None:
    stack = builder.stack
    operation.note('recovered')
    if operation.kind == Call.BUILD.label:
        operation.goal = build_goal = BuildGoal.from_dict(goal or {}, probe, on_status)
        _renew(stack, operation, builder.longest_s(build_goal))
        builder.recover(operation, build_goal)
    elif goal is not None or operation.kind == WATCH:
        _renew(stack, operation, stack.settings.effect_timeout_s)
        _wait(stack, operation, _states(goal or {}), on_status)
    else:
        _renew(stack, operation, stack.settings.executor.timeout_s)
        if _is_look_up(operation):
            look_up(stack, operation, *operation.arguments or ())
        else:
            stack.executor.recover(operation)


def _renew(stack: Stack, operation: Errand[Any], seconds: float) -> None:
    """Renew a deadline that has passed."""
    if operation.deadline is None or operation.deadline.passed:
        operation.deadline = stack.executor.deadline(seconds)


def _wait(
    stack: Stack, operation: Errand[Any], goal: StatesGoal, on_status: OnStatus | None
) -> None:
    operation.goal = goal
    if operation.kind == WATCH:
        watched(stack, operation, goal.states, on_status)
        return
    flow = EffectFlow(stack, operation, goal.states)
    if any(event.name == 'accepted' for event in operation.events):
        # The backend has already accepted; some calls must not be sent twice.
        flow.accepted(operation)
    else:
        stack.executor.recover(operation, flow.accepted)


def _is_look_up(operation: Errand[Any]) -> bool:
    return operation.kind in _LOOK_UPS and len(operation.arguments or ()) == _BY_NAME_OR_ID


def checked(saved: Mapping[str, Any], *, backend: str) -> Mapping[str, Any]:
    """Return the checked record of an operation.

    :raises InvalidRequest: not a record, or a record of another backend.
    """
    if not isinstance(saved, Mapping):
        raise _unusable(f'it is {type(saved).__name__}, not the mapping that to_dict() gave')
    if missing := [name for name in _NEEDED if name not in saved]:
        raise _unusable(f'it has no {", ".join(missing)}')
    record = dict(saved)
    _check_types(record, _FIELDS)
    for event in record.get('events') or ():
        if not isinstance(event, dict) or event.keys() != _EVENT.keys():
            raise _unusable(f'{validation.quoted(event)} is not an event')
        _check_types(event, _EVENT)
    if record['kind'] not in _KINDS:
        raise _unusable(f'its kind is {validation.quoted(record["kind"])}, which is not a call')
    if record['backend'] != backend:
        raise _unusable(
            f'it is of backend {validation.quoted(record["backend"])}, and this is {backend!r}; '
            f'recover it there'
        )
    _check_choices(record, _CHOICES)
    error = record.get('error') or {}
    _check_types(error, _ERROR, of="its error's")
    _check_choices(error, _ERROR_CHOICES, of="its error's")
    _check_texts(record)
    return record


def _check_texts(record: Mapping[str, Any]) -> None:
    needed = []
    if record['kind'] == Call.BUILD.label:
        needed = ['build_key']
        if record['state'] == OperationState.SUCCEEDED:
            needed.append('amphora_id')
    elif record['kind'] == WATCH or record.get('goal') is not None:
        # All awaited machines are polled together: one invalid id would fail the poll.
        needed = ['subject']
    if record.get('amphora_id') is not None:
        needed.append('amphora_id')
    for name in needed:
        try:
            validation.check_text(name, record.get(name))
        except InvalidRequest as exc:
            raise _unusable(_message(exc)) from None


def _check_types(
    record: Mapping[str, Any], fields: Mapping[str, tuple[type, ...]], *, of: str = 'its'
) -> None:
    for name, kinds in fields.items():
        value = record.get(name)
        # In Python a bool is a number, but it is not valid as a deadline.
        odd = isinstance(value, bool) and bool not in kinds
        if name in record and (odd or not isinstance(value, kinds)):
            raise _unusable(f'{of} {name} is {validation.quoted(value)}')
        # NaN would sort before everything else in the scheduler.
        if isinstance(value, _NUMBER) and not abs(value) < _LATEST_S:
            raise _unusable(f'{of} {name} is {validation.quoted(value)}')


def _check_choices(
    record: Mapping[str, Any], fields: Mapping[str, type[enum.Enum]], *, of: str = 'its'
) -> None:
    for name, kind in fields.items():
        if name not in record:
            continue
        try:
            kind(record[name])
        except ValueError:
            raise _unusable(f'{of} {name} is {validation.quoted(record[name])}') from None


def _states(goal: Mapping[str, Any]) -> StatesGoal:
    try:
        return StatesGoal(validation.check_states(goal.get('states', ())))
    except InvalidRequest as exc:
        raise _unusable(f'its goal is {validation.quoted(goal)}') from exc


def _message(exc: InvalidRequest) -> str:
    return str(exc).removesuffix('.')


def _unusable(why: str) -> InvalidRequest:
    return InvalidRequest(f'Cannot recover this: {why}.')
