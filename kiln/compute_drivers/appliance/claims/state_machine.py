"""State machine of a claim: phases, events and transitions; pure.

Each function takes a claim and returns the next one. None means that the claim has
ended and the machine is free.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kiln.compute_drivers.appliance.inventory.machines import Machine, Verb
from kiln.exceptions import InstanceStateConflict
from kiln.models import AmphoraType, State

# The number of doublings after which any quarantine has its maximum.
_MOST_DOUBLINGS = 30


class Phase(enum.StrEnum):
    """Phase of a claimed machine."""

    # The claim command is due or running.
    CLAIMING = 'claiming'
    # The claim command has ended; the probe has not passed so far.
    STARTING = 'starting'
    UP = 'up'
    # It was up, and its probes now fail.
    DOWN = 'down'
    # A command failed, or the probe never passed.
    FAILED = 'failed'
    REBOOTING = 'rebooting'
    # The reboot command has ended; the probe has not passed so far.
    RETURNING = 'returning'
    REBUILDING = 'rebuilding'
    # The wipe command is due or running.
    WIPING = 'wiping'
    # The wipe command has failed, and runs again later.
    UNWIPED = 'unwiped'


#: The command that is due in each phase; other phases have none.
COMMANDS: Mapping[Phase, Verb] = MappingProxyType(
    {
        Phase.CLAIMING: Verb.CLAIM,
        Phase.REBOOTING: Verb.REBOOT,
        Phase.REBUILDING: Verb.REBUILD,
        Phase.WIPING: Verb.WIPE,
        Phase.UNWIPED: Verb.WIPE,
    }
)
#: The phases of a machine that is returning to the pool.
LEAVING = frozenset({Phase.WIPING, Phase.UNWIPED})
_COMING = frozenset({Phase.STARTING, Phase.RETURNING})
_RESTING = frozenset({Phase.UP, Phase.DOWN, Phase.FAILED})
_SEEN_AS: Mapping[Phase, tuple[State, str | None]] = MappingProxyType(
    {
        Phase.CLAIMING: (State.BUILDING, 'claiming'),
        Phase.STARTING: (State.BUILDING, 'starting'),
        Phase.UP: (State.ACTIVE, None),
        Phase.DOWN: (State.ERROR, None),
        Phase.FAILED: (State.ERROR, None),
        Phase.REBOOTING: (State.ACTIVE, 'rebooting'),
        Phase.RETURNING: (State.ACTIVE, 'rebooting'),
        Phase.REBUILDING: (State.BUILDING, 'rebuilding'),
        Phase.WIPING: (State.DELETING, 'wiping'),
        # The pool retries by itself, so a task is running all the time.
        Phase.UNWIPED: (State.ERROR, 'wiping'),
    }
)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """Time-outs, intervals and probe limits of a pool."""

    ready_timeout_s: float = 600.0
    probe_interval_s: float = 10.0
    probe_start_interval_s: float = 1.0
    probe_failures: int = 3
    probe_successes: int = 2
    quarantine_s: float = 60.0
    quarantine_max_s: float = 3600.0

    def back_off_s(self, failures: int) -> float:
        """Return the quarantine after a number of failures in a row."""
        doubled = self.quarantine_s * 2.0 ** min(failures - 1, _MOST_DOUBLINGS)
        return min(doubled, max(self.quarantine_s, self.quarantine_max_s))


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A machine in use as an amphora; times are seconds since the epoch."""

    id: str
    machine: str
    owner: str
    build_key: str
    name: str
    amphora_type: AmphoraType
    flavor: str | None
    image_id: str | None
    zone: str | None
    metadata: Mapping[str, str]
    created_at: float
    #: The machine as it was enrolled when it was claimed.
    table: Mapping[str, Any] = dataclasses.field(repr=False)
    phase: Phase
    since: float
    #: When the next command or probe is due; None if nothing is.
    due: float | None = None
    #: Failed commands of this phase, or probes in a row that contradict it.
    failures: int = 0
    fault: str | None = None
    probed_at: float | None = None
    #: True if the current reboot is a hard one.
    hard: bool = False
    #: Counts requests; the result of a command for an older epoch is ignored.
    epoch: int = 0

    @property
    def state(self) -> State:
        """The state that callers see."""
        return _SEEN_AS[self.phase][0]

    @property
    def task(self) -> str | None:
        """The task that callers see."""
        return _SEEN_AS[self.phase][1]


@dataclasses.dataclass(frozen=True, slots=True)
class Ended:
    """Result of a command or a probe, with its last output."""

    ok: bool
    words: str = ''


def verdict(old: Claim | None, new: Claim) -> bool | None:
    """Return True if the first build came up, False if it failed, None if undecided."""
    if new.epoch != 1:
        return None
    came = old is None or old.phase in (Phase.CLAIMING, Phase.STARTING)
    return {Phase.UP: True, Phase.FAILED: False}.get(new.phase) if came else None


# ---- requests --------------------------------------------------------------------


def begun(claim: Claim, machine: Machine, now: float) -> Claim:
    """Return a new claim in its first phase."""
    return _commanded(claim, Phase.CLAIMING, machine, now)


def deleted(claim: Claim, machine: Machine, now: float) -> Claim | None:
    """Return a deleted claim; a repeated delete makes its wipe due at once."""
    if claim.phase is Phase.WIPING:
        return claim
    if not machine.argv(Verb.WIPE) and claim.phase not in COMMANDS:
        # A command that might still be running must end first, as in a wipe.
        return None
    failures = claim.failures if claim.phase is Phase.UNWIPED else 0
    wiping = _moved(claim, Phase.WIPING, now, due=now)
    return dataclasses.replace(wiping, failures=failures, epoch=claim.epoch + 1)


def rebooted(claim: Claim, machine: Machine, now: float, *, hard: bool) -> Claim:
    """Return a claim whose machine is to be rebooted; a soft reboot needs it up.

    :raises InstanceStateConflict: its phase does not allow a reboot.
    """
    _check(claim, 'reboot', _RESTING if hard else frozenset({Phase.UP}))
    claim = dataclasses.replace(claim, hard=hard)
    return _commanded(claim, Phase.REBOOTING, machine, now)


def rebuilt(claim: Claim, machine: Machine, now: float, image_id: str | None) -> Claim:
    """Return a claim whose machine is to be rebuilt.

    :raises InstanceStateConflict: its phase does not allow a rebuild.
    """
    _check(claim, 'rebuild', _RESTING)
    image_id = image_id or claim.image_id
    claim = dataclasses.replace(claim, image_id=image_id)
    return _commanded(claim, Phase.REBUILDING, machine, now)


def _check(claim: Claim, verb: str, allowed: frozenset[Phase]) -> None:
    if claim.phase in allowed:
        return
    need = ' or '.join(sorted({_SEEN_AS[phase][0].value for phase in allowed}))
    raise InstanceStateConflict(
        f'Cannot {verb} amphora {claim.id}: its machine {claim.machine} is {claim.phase.value}, '
        f'and must be {need} and at rest.',
        amphora_id=claim.id,
        retryable=claim.task is not None and claim.phase not in LEAVING,
    )


def _commanded(claim: Claim, phase: Phase, machine: Machine, now: float) -> Claim:
    claim = dataclasses.replace(claim, epoch=claim.epoch + 1)
    if machine.argv(COMMANDS[phase]):
        return _moved(claim, phase, now, due=now)
    return _arriving(claim, phase, machine, now)


# ---- results ---------------------------------------------------------------------


def command_ended(
    claim: Claim, machine: Machine, ended: Ended, now: float, rules: Rules
) -> Claim | None:
    """Return a claim after the command of its phase has ended."""
    verb = COMMANDS[claim.phase]
    if ended.ok:
        return None if verb is Verb.WIPE else _arriving(claim, claim.phase, machine, now)
    if verb is not Verb.WIPE:
        return _moved(claim, Phase.FAILED, now, fault=f'{verb.value} command: {ended.words}')
    failures = claim.failures + 1
    again_at = now + rules.back_off_s(failures)
    times = 'once' if failures == 1 else f'{failures} times'
    fault = f'wipe command failed {times}, last: {ended.words}'
    moved = _moved(claim, Phase.UNWIPED, now, due=again_at, fault=fault)
    return dataclasses.replace(moved, failures=failures)


def probed(claim: Claim, ended: Ended, now: float, rules: Rules) -> Claim:
    """Return a claim after a probe; single failures do not change its phase."""
    claim = dataclasses.replace(claim, probed_at=now)
    if claim.phase in _COMING:
        return _probed_coming(claim, ended, now, rules)
    against = ended.ok is (claim.phase is Phase.DOWN)
    failures = claim.failures + 1 if against else 0
    again_at = now + rules.probe_interval_s
    limit = rules.probe_successes if claim.phase is Phase.DOWN else rules.probe_failures
    if failures < limit:
        return dataclasses.replace(claim, failures=failures, due=again_at)
    if ended.ok:
        return _moved(claim, Phase.UP, now, due=again_at)
    fault = f'{failures} probes in a row failed, last: {ended.words}'
    return _moved(claim, Phase.DOWN, now, due=again_at, fault=fault)


def watched(claim: Claim, machine: Machine, now: float) -> Claim:
    """Return a claim with a probe due, if its machine got a probe after it came up."""
    rests = claim.phase is Phase.UP and claim.due is None
    return dataclasses.replace(claim, due=now) if rests and machine.probe is not None else claim


def _probed_coming(claim: Claim, ended: Ended, now: float, rules: Rules) -> Claim:
    if ended.ok:
        return _moved(claim, Phase.UP, now, due=now + rules.probe_interval_s)
    waited_s = now - claim.since
    if waited_s >= rules.ready_timeout_s:
        fault = f'not ready after {waited_s:.0f} s, last probe: {ended.words}'
        return _moved(claim, Phase.FAILED, now, fault=fault)
    return dataclasses.replace(claim, due=now + rules.probe_start_interval_s)


def _arriving(claim: Claim, phase: Phase, machine: Machine, now: float) -> Claim:
    """Return a claim whose command has succeeded or is not needed."""
    if machine.probe is None:
        return _moved(claim, Phase.UP, now)
    coming = Phase.RETURNING if phase is Phase.REBOOTING else Phase.STARTING
    return _moved(claim, coming, now, due=now)


def _moved(
    claim: Claim, phase: Phase, now: float, *, due: float | None = None, fault: str | None = None
) -> Claim:
    return dataclasses.replace(claim, phase=phase, since=now, due=due, failures=0, fault=fault)
