"""State machine of a simulated machine: allowed actions and their effects; pure."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple, Protocol

from kiln.compute_drivers.noop.faults import Action, Fault
from kiln.exceptions import InstanceStateConflict, NotSuspendedError
from kiln.models import State


class Row(Protocol):
    """A row of the store, or any mapping with its columns."""

    def __getitem__(self, column: str, /) -> Any:
        """Return the value of a column."""


class Course(NamedTuple):
    """The state of a machine now and next, in the order of the columns of a row."""

    state: State
    task: str | None
    fault: str | None
    target: State | None
    target_fault: str | None
    due: float | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verb:
    """An action on a machine that takes time: the latency of its name."""

    name: str
    task: str
    target: State
    # The states in which the action is allowed; empty means all.
    allowed: frozenset[State] = frozenset()
    # The state of the machine meanwhile; None means unchanged.
    during: State | None = None


_RESTING = frozenset({State.ACTIVE, State.STOPPED, State.ERROR})

BUILD = Verb(name='build', task='spawning', target=State.ACTIVE, during=State.BUILDING)
DELETE = Verb(name='delete', task='deleting', target=State.DELETED, during=State.DELETING)
SUSPEND = Verb(
    name='suspend',
    task='suspending',
    target=State.SUSPENDED,
    allowed=frozenset({State.ACTIVE}),
)
RESUME = Verb(
    name='resume',
    task='resuming',
    target=State.ACTIVE,
    allowed=frozenset({State.SUSPENDED}),
)
REBOOT = Verb(
    name='reboot',
    task='rebooting',
    target=State.ACTIVE,
    allowed=frozenset({State.ACTIVE}),
)
HARD_REBOOT = dataclasses.replace(REBOOT, task='rebooting_hard', allowed=_RESTING)
REBUILD = Verb(
    name='rebuild',
    task='rebuilding',
    target=State.ACTIVE,
    allowed=_RESTING,
    during=State.BUILDING,
)

#: The states in which ports can be attached and detached.
PLUGGABLE = frozenset({State.ACTIVE, State.STOPPED})


def set_out(
    verb: Verb, row: Row | None, now: float, seconds: float, fault: Fault | None
) -> Course:
    """Return the course of a machine from the start of an action on."""
    action = fault.action if fault else None
    target, words = verb.target, None
    if fault and action is Action.ERROR:
        target, words = State.ERROR, fault.text or f'Simulated failure to {verb.name}.'
    if seconds <= 0 and action is not Action.STUCK:
        return Course(target, None, words, None, None, None)
    state = verb.during or State(row['state'] if row else verb.target)
    old_fault = row['fault'] if row else None
    if action is Action.STUCK:
        return Course(state, verb.task, old_fault, None, None, None)
    return Course(state, verb.task, old_fault, target, words, now + seconds)


def under_way(verb: Verb, row: Row) -> bool:
    """Return True if the action is already done, or in progress."""
    if row['task'] is not None:
        # A delete that is stuck can be requested again, as in a real cloud.
        lost = verb is DELETE and row['due'] is None
        return verb in (SUSPEND, RESUME, DELETE) and bool(row['task'] == verb.task) and not lost
    return verb is SUSPEND and bool(row['state'] == verb.target)


def check(verb: Verb, row: Row, amphora_id: str) -> None:
    """Raise if the machine's state does not allow the action now."""
    if verb is DELETE:
        return
    if row['task'] is not None:
        raise _busy(verb.name, row, amphora_id)
    if State(row['state']) not in verb.allowed:
        allowed = ' or '.join(sorted(state.value for state in verb.allowed))
        what = f'Cannot {verb.name} amphora {amphora_id}: it is {row["state"]}'
        if verb is RESUME:
            raise NotSuspendedError(
                f'{what} and not {allowed}. There is nothing to resume.', amphora_id=amphora_id
            )
        raise InstanceStateConflict(
            f'{what}, and must be {allowed}. Bring it to that state first.', amphora_id=amphora_id
        )


def check_pluggable(what: str, row: Row, amphora_id: str) -> None:
    """Raise if the ports of the machine cannot be changed in its state."""
    if row['task'] is not None:
        raise _busy(what, row, amphora_id)
    if State(row['state']) not in PLUGGABLE:
        raise InstanceStateConflict(
            f'Cannot {what} amphora {amphora_id}: it is {row["state"]}, and must be active or '
            f'stopped. Bring it to that state first.',
            amphora_id=amphora_id,
        )


def _busy(what: str, row: Row, amphora_id: str) -> InstanceStateConflict:
    return InstanceStateConflict(
        f'Cannot {what} amphora {amphora_id}: it is {row["state"]} and busy {row["task"]}. '
        f'Wait until that has finished.',
        amphora_id=amphora_id,
        retryable=True,
    )
