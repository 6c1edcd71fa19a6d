"""Where a container is in its life, in kiln's words; pure."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from kiln.models import State

#: What an engine does with a container that was asked to reboot.
REBOOTING = 'rebooting'
#: Exit codes of who ended as asked: by itself, or by a signal to end.
_ASKED = frozenset({0, 130, 137, 143})
_HEALTH = re.compile(r'\((healthy|unhealthy|health: starting)\)')
_LONGEST_PROBE = 200
#: What Podman calls in its own words.
_ALIKE = {
    'configured': 'created',
    'initialized': 'created',
    'stopped': 'exited',
    'stopping': 'running',
}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """What an engine says of a container."""

    status: str
    exit_code: int = 0
    oom_killed: bool = False
    error: str = ''
    #: '', 'starting', 'healthy' or 'unhealthy'; and what the last probe said.
    health: str = ''
    probe: str = ''


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Life:
    """Where a container is in its life."""

    state: State
    task: str | None = None
    fault: str | None = None


def life_of(condition: Condition) -> Life:
    """Return where a container is in its life."""
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
    """Return where a container is that has ended, and that its engine starts again soon."""
    if _failed(condition):
        # It may come to run, or go on like this: until it runs, nobody is to rely on it.
        return Life(state=State.ERROR, fault=f'{_end(condition)}; the engine starts it again')
    # As a machine does that reboots itself.
    return Life(state=State.ACTIVE, task=REBOOTING)


def _failed(condition: Condition) -> bool:
    return bool(condition.oom_killed or condition.error or condition.exit_code not in _ASKED)


def _end(condition: Condition) -> str:
    if condition.oom_killed:
        return 'it used more memory than its flavor has, and was killed'
    said = f': {condition.error}' if condition.error else ''
    return f'its command ended with exit code {condition.exit_code}{said}'


def told(answer: Mapping[str, Any]) -> Condition:
    """Return the condition of a container from an answer about it alone."""
    state = answer['State']
    health = state.get('Health') or state.get('Healthcheck') or {}
    log = health.get('Log') or []
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
    """Return the condition of a container in a list; None where a list does not tell enough.

    Lists leave out why something went wrong, and Podman's how healthy it is.
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
