"""Check of a driver's answers: a value of another kind is refused by name."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar, cast

from kiln.cluster_drivers.monitor import Monitor
from kiln.cluster_drivers.scale import ScaleManager
from kiln.cluster_drivers.values import (
    Bootstrap,
    Drained,
    Existing,
    Progress,
    Readiness,
    ReadyState,
    StatusReport,
)
from kiln.clusters.exceptions import ClusterDriverDefect, Problem
from kiln.models import InjectedFile

_Answer = TypeVar('_Answer')

#: The longest handle that the store keeps, in characters.
LONGEST_HANDLE = 255
#: The most events of one report.
MOST_EVENTS = 200
#: Levels of a driver's data; more are a value that contains itself.
_DEEPEST = 50


class _WrongAnswer(Exception):
    """What is wrong with an answer."""


def checked(name: str, method: str, answer: _Answer) -> _Answer:
    """Return an answer of a driver in the form that kiln works with.

    :raises ClusterDriverDefect: the contract does not allow the answer.
    """
    check = _CHECKS.get(method)
    if check is None:
        return answer
    try:
        return cast(_Answer, check(answer))
    except _WrongAnswer as exc:
        raise _defect(name, method, exc) from None


def plain_mapping(name: str, method: str, answer: object) -> Mapping[str, Any]:
    """Return a copy of an answer that is a mapping, and that JSON can hold.

    :raises ClusterDriverDefect: it is another value, or JSON cannot hold it.
    """
    try:
        _of(Mapping)(answer)
        return cast(Mapping[str, Any], _plain(answer, 'the answer', 0))
    except _WrongAnswer as exc:
        raise _defect(name, method, exc) from None


def _defect(name: str, method: str, wrong: _WrongAnswer) -> ClusterDriverDefect:
    return ClusterDriverDefect(
        f'Cluster driver {name} returned a wrong answer from {method}: {wrong}.'
    )


def _plain(value: object, where: str, depth: int) -> Any:
    if depth > _DEEPEST:
        raise _WrongAnswer(f'{where} is nested too deeply for JSON')
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise _WrongAnswer(f'the key {key!r} in {where} is not a string')
        return {key: _plain(one, f'{where}.{key}', depth + 1) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one, f'{where}[{i}]', depth + 1) for i, one in enumerate(value)]
    found = f'{value}' if isinstance(value, float) else f'of type {type(value).__name__}'
    raise _WrongAnswer(f'{where} is {found}, which JSON does not have')


def _of(*kinds: type) -> Callable[[object], object]:
    """Return the check that an answer is of one of some types."""

    def check(answer: object) -> object:
        if not isinstance(answer, kinds):
            names = ' or '.join(_named(kind) for kind in kinds)
            raise _WrongAnswer(f'it is {_shown(answer)}, not {names}')
        return answer

    return check


def _named(kind: type) -> str:
    return 'None' if kind is type(None) else f'a {kind.__name__}'


def _shown(answer: object) -> str:
    return 'None' if answer is None else f'of type {type(answer).__name__}'


def _field(answer: object, name: str, *kinds: type) -> None:
    value = getattr(answer, name)
    if not isinstance(value, kinds):
        names = ' or '.join(_named(kind) for kind in kinds)
        raise _WrongAnswer(f'its {name} is {_shown(value)}, not {names}')


def _report(answer: object) -> StatusReport | None:
    if answer is None:
        return None
    _of(StatusReport, type(None))(answer)
    assert isinstance(answer, StatusReport)
    progress = answer.progress
    if progress is not None:
        try:
            progress = Progress(progress)
        except (TypeError, ValueError):
            known = ', '.join(one.value for one in Progress)
            raise _WrongAnswer(f'its progress is {progress!r}, not one of {known}') from None
    _field(answer, 'reason', str)
    _field(answer, 'driver_handle', str, type(None))
    if len(answer.driver_handle or '') > LONGEST_HANDLE:
        raise _WrongAnswer(f'its driver_handle is longer than {LONGEST_HANDLE} characters')
    _field(answer, 'driver_state', Mapping, type(None))
    _field(answer, 'outputs', Mapping, type(None))
    _field(answer, 'events', list, tuple)
    if not all(isinstance(one, str) for one in answer.events):
        raise _WrongAnswer('one of its events is not a str')
    state, outputs = answer.driver_state, answer.outputs
    return dataclasses.replace(
        answer,
        progress=progress,
        driver_state=None if state is None else _plain(state, 'its driver_state', 0),
        outputs=None if outputs is None else _plain(outputs, 'its outputs', 0),
        events=tuple(answer.events[:MOST_EVENTS]),
    )


def _problems(answer: object) -> Sequence[Problem]:
    wrong = isinstance(answer, str) or not isinstance(answer, Sequence)
    if wrong or not all(isinstance(one, Problem) for one in cast(Sequence[object], answer)):
        found = 'a list with other values' if not wrong else _shown(answer)
        raise _WrongAnswer(f'it is {found}, not a list of Problem')
    return tuple(cast(Sequence[Problem], answer))


def _lines(answer: object) -> Sequence[str]:
    wrong = isinstance(answer, str) or not isinstance(answer, Sequence)
    if wrong or not all(isinstance(one, str) for one in cast(Sequence[object], answer)):
        found = 'a list with other values' if not wrong else _shown(answer)
        raise _WrongAnswer(f'it is {found}, not a list of texts')
    return tuple(cast(Sequence[str], answer))


def _existing(answer: object) -> Existing:
    _of(Existing)(answer)
    assert isinstance(answer, Existing)
    _field(answer, 'driver_state', Mapping)
    state = _plain(answer.driver_state, 'its driver_state', 0)
    return dataclasses.replace(answer, driver_state=state, facts=_lines(answer.facts))


def _bootstrap(answer: object) -> object:
    _of(Bootstrap)(answer)
    _field(answer, 'user_data', bytes, type(None))
    _field(answer, 'join_token', str, type(None))
    _field(answer, 'files', tuple, list)
    for file in cast(Bootstrap, answer).files:
        if not isinstance(file, InjectedFile):
            raise _WrongAnswer(f'one of its files is {_shown(file)}, not an InjectedFile')
    return answer


def _readiness(answer: object) -> object:
    _of(Readiness)(answer)
    _field(answer, 'state', ReadyState)
    _field(answer, 'reason', str)
    return answer


def _drained(answer: object) -> object:
    _of(Drained)(answer)
    _field(answer, 'done', bool)
    _field(answer, 'reason', str)
    return answer


_REPORTS = (
    'create_cluster',
    'update_cluster',
    'delete_cluster',
    'update_cluster_status',
    'resize_cluster',
    'upgrade_cluster',
    'rebuild_cluster',
    'reboot_cluster',
    'create_nodegroup',
    'update_nodegroup',
    'delete_nodegroup',
    'rotate_credential',
    'rotate_ca_certificate',
)
#: By method; the answers of all others are not used.
_CHECKS: Mapping[str, Callable[[object], object]] = MappingProxyType(
    {
        **dict.fromkeys(_REPORTS, _report),
        'validate': _problems,
        'preview_cluster': _lines,
        'find_existing': _existing,
        'bootstrap': _bootstrap,
        'is_ready': _readiness,
        'drain': _drained,
        'compute_driver_for': _of(str, type(None)),
        'get_scale_manager': _of(ScaleManager),
        'get_monitor': _of(Monitor, type(None)),
    }
)
