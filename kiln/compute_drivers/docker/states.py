"""Container status translated to kiln's states; pure."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from kiln.models import State

#: Task of a container that is being rebooted.
REBOOTING = 'rebooting'
#: Exit codes of a command that ended on request: by itself, or by a signal.
_ASKED = frozenset({0, 130, 137, 143})
_HEALTH = re.compile(r'\((healthy|unhealthy|health: starting)\)')
_LONGEST_PROBE = 200
#: Podman's own status words, and Docker's words for the same.
_ALIKE = {
    'configured': 'created',
    'initialized': 'created',
    'stopped': 'exited',
    'stopping': 'running',
}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """What an engine reports about a container."""

    status: str
    exit_code: int = 0
    oom_killed: bool = False
    error: str = ''
    #: '', 'starting', 'healthy' or 'unhealthy'; and the output of the last probe.
    health: str = ''
    probe: str = ''


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Life:
    """State, task and fault of an amphora, as derived from its container."""

    state: State
    task: str | None = None
    fault: str | None = None


def life_of(condition: Condition) -> Life:
    """Return the state, task and fault that a condition means."""
    match condition.status:
        case 'created':
            return _created(condition)
        case 'running':
            return _running(condition)
        case 'paused':
            return Life(state=State.SUSPENDED)
        case 'restarting':
            return _restarting(condition)
        case 'exited':
            return Life(
                state=State.ERROR if _failed(condition) else State.STOPPED, fault=_end(condition)
            )
        case 'removing':
            return Life(state=State.DELETING)
        case 'dead':
            return Life(state=State.ERROR, fault='the engine failed to remove it; delete it again')
    return Life(state=State.UNKNOWN)


def _created(condition: Condition) -> Life:
    if condition.error:
        return Life(state=State.ERROR, fault=f'it did not start: {condition.error}')
    return Life(state=State.BUILDING)


def _running(condition: Condition) -> Life:
    match condition.health:
        case 'starting':
            # It runs; it is ready when its first probe has passed.
            return Life(state=State.ACTIVE, task='starting')
        case 'unhealthy':
            said = f': {condition.probe}' if condition.probe else ''
            return Life(state=State.ERROR, fault=f'its health check fails{said}')
    return Life(state=State.ACTIVE)


def _restarting(condition: Condition) -> Life:
    """Return the life of a container that has ended and that its engine will restart."""
    if _failed(condition):
        # It might recover or keep failing: until it runs, it must not count as usable.
        return Life(state=State.ERROR, fault=f'{_end(condition)}; the engine starts it again')
    # The same as a machine that reboots itself.
    return Life(state=State.ACTIVE, task=REBOOTING)


def _failed(condition: Condition) -> bool:
    return bool(condition.oom_killed or condition.error or condition.exit_code not in _ASKED)


def _end(condition: Condition) -> str:
    if condition.oom_killed:
        return 'it used more memory than its flavor has, and was killed'
    said = f': {condition.error}' if condition.error else ''
    return f'its command ended with exit code {condition.exit_code}{said}'


def told(answer: Mapping[str, Any]) -> Condition:
    """Return the condition of a container from the engine's answer to an inspect."""
    state = answer['State']
    health = state.get('Health') or state.get('Healthcheck') or {}
    log = health.get('Log')
    probe = ' '.join(str(log[-1].get('Output') or '').split()) if log else ''
    status = str(state.get('Status') or '').lower()
    said = str(health.get('Status') or '').lower()
    return Condition(
        status=_ALIKE.get(status, status),
        exit_code=int(state.get('ExitCode') or 0),
        oom_killed=bool(state.get('OOMKilled')),
        error=' '.join(str(state.get('Error') or '').split()),
        health='' if said == 'none' else said,
        probe=probe[:_LONGEST_PROBE],
    )


def listed(entry: Mapping[str, Any], *, has_health: bool) -> Condition | None:
    """Return the condition of a container in a list; None if the list says too little.

    Lists omit the reason of a failure, and Podman's lists also omit the health.
    """
    status = str(entry.get('State') or '').lower()
    status = _ALIKE.get(status, status)
    if status in ('paused', 'removing'):
        return Condition(status=status)
    if status != 'running':
        return None
    found = _HEALTH.search(str(entry.get('Status') or ''))
    health = found[1].removeprefix('health: ') if found else ''
    if health == 'unhealthy' or (has_health and not health):
        return None
    return Condition(status=status, health=health)
