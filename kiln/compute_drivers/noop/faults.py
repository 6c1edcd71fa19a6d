"""Scripted faults of the simulated cloud: which calls fail, how, and how often.

A decision is pure but for its counts; the cloud applies it.
"""

from __future__ import annotations

import dataclasses
import enum
import random
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

from kiln.compute_drivers.authoring.wording import attempt
from kiln.compute_drivers.calls import Call
from kiln.exceptions import (
    AmphoraComputeError,
    BuildConflict,
    BuildOutcomeUnknown,
    ConfigurationError,
    DeleteFailed,
    InstanceStateConflict,
    InsufficientCapacity,
    QuotaExceeded,
    RateLimited,
    ServiceTimeout,
    ServiceUnavailable,
)

#: The key of a request's metadata that scripts a fault for this request alone.
REQUEST_KEY = 'noop:fault'


class Action(enum.StrEnum):
    """How a call fails."""

    # The caller gets an error, and the call has no effect.
    REFUSE = 'refuse'
    RATE_LIMIT = 'rate_limit'
    QUOTA = 'quota'
    CAPACITY = 'capacity'
    CONFLICT = 'conflict'
    TIMEOUT_BEFORE = 'timeout_before'
    HANG_BEFORE = 'hang_before'
    CRASH = 'crash'
    # The caller gets an error, and the call takes effect later.
    LATE = 'late'
    # The call takes effect, and its answer is late or lost.
    HANG = 'hang'
    TIMEOUT_AFTER = 'timeout_after'
    LOSE_ANSWER = 'lose_answer'
    # The call is accepted, and the machine fails later.
    ERROR = 'error'
    STUCK = 'stuck'
    VANISH = 'vanish'
    LEAK = 'leak'
    DUPLICATE_NAME = 'duplicate_name'
    # Lists lag behind the present.
    STALE_LIST = 'stale_list'


_REFUSED = {Action.REFUSE, Action.RATE_LIMIT, Action.QUOTA, Action.CAPACITY, Action.CONFLICT}
#: The caller gets an error, and the call has no effect now.
PREVENTED = frozenset({*_REFUSED, Action.TIMEOUT_BEFORE, Action.HANG_BEFORE, Action.LATE})
#: The call takes effect, and the caller gets an error.
UNHEARD = frozenset({Action.TIMEOUT_AFTER, Action.LOSE_ANSWER})
#: The call takes ``seconds`` before anything else happens.
HANGING = frozenset({Action.HANG, Action.HANG_BEFORE})

_TIMED = HANGING | {Action.LATE, Action.VANISH, Action.STALE_LIST}
_BUILD_ONLY = {Action.QUOTA, Action.CAPACITY, Action.VANISH, Action.LEAK, Action.DUPLICATE_NAME}
_LABELS = frozenset(call.label for call in Call)
_ALIASES = {'never': Action.STUCK}
#: Retry-After of a rate-limited call, unless its fault sets another.
_RATE_PAUSE_S = 1.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fault:
    """One rule: which calls fail, how, and how often.

    ``times`` and ``after`` count the calls that match, in this process;
    ``metadata`` is compared with the metadata of the build request, and
    ``retry_after`` belongs to the actions refuse and rate_limit.
    """

    action: Action
    call: str = '*'
    times: int | None = None
    after: int = 0
    probability: float = 1.0
    amphora_id: str | None = None
    metadata: Mapping[str, str] = dataclasses.field(default_factory=dict)
    seconds: float = 30.0
    retry_after: float | None = None
    text: str | None = None

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, 'action', Action(self.action))
        except ValueError:
            raise ConfigurationError(
                f'Cannot script fault {self.action!r}: choose one of {", ".join(Action)}.'
            ) from None
        if self.call != '*' and self.call not in _LABELS:
            raise ConfigurationError(
                f'Cannot script a fault for call {self.call!r}: '
                f'choose * or one of {", ".join(sorted(_LABELS))}.'
            )
        if self.action in _BUILD_ONLY and self.call not in ('*', 'build'):
            raise ConfigurationError(
                f'Cannot script {self.action.value!r} for {self.call!r}: it is for build only.'
            )
        if not 0 <= self.probability <= 1:
            raise ConfigurationError(
                f'Cannot script a fault of probability {self.probability}: give 0 to 1.'
            )
        if min(self.seconds, self.retry_after or 0, self.after, self.times or 0) < 0:
            raise ConfigurationError(
                f'Cannot script {self.action.value!r}: its numbers must not be negative.'
            )

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``CALL:ACTION[=VALUE][:OPTION=VALUE,...]``.

        VALUE is ``seconds`` for an action that takes time, ``retry_after`` for
        rate_limit, and ``text`` for any other.

        :raises ConfigurationError: the text is malformed; the message says how.
        """
        call, _, rest = text.strip().partition(':')
        action, _, options = rest.partition(':')
        action, _, value = action.partition('=')
        if not action:
            raise ConfigurationError(
                f'Cannot read fault {text!r}: write it as CALL:ACTION, such as build:refuse, '
                f'with options such as :times=2,probability=0.5.'
            )
        name = _ALIASES.get(action, action)
        given: dict[str, Any] = {'call': call, 'action': name, 'metadata': {}}
        if value:
            _set(given, _value_field(name), value, text)
        for option in filter(None, options.split(',')):
            field, _, value = option.strip().partition('=')
            _set(given, field, value, text)
        return cls(**given)

    def fits(
        self, call: Call, amphora_id: str | None, metadata: Callable[[], Mapping[str, str]]
    ) -> bool:
        if self.call not in ('*', call.label):
            return False
        if self.action in _BUILD_ONLY and call is not Call.BUILD:
            return False
        if self.amphora_id is not None and self.amphora_id != amphora_id:
            return False
        return not self.metadata or self.metadata.items() <= metadata().items()

    def error(self, call: Call, subject: str) -> AmphoraComputeError:
        """Return the error that the caller gets."""
        what = f'Cannot {attempt(call.label, subject)}'
        facts: dict[str, Any] = {
            'build_key' if call is Call.BUILD else 'amphora_id': subject or None
        }
        if self.action is Action.REFUSE:
            return ServiceUnavailable(
                f'{what}: {self.text or "the cloud refuses all calls"}; repeat it later.',
                retry_after=self.retry_after,
                **facts,
            )
        if self.action is Action.RATE_LIMIT:
            pause_s = _RATE_PAUSE_S if self.retry_after is None else self.retry_after
            return RateLimited(
                f'{what}: {self.text or "too many requests"}; repeat in {pause_s} s.',
                retry_after=pause_s,
                **facts,
            )
        if self.action is Action.QUOTA:
            return QuotaExceeded(
                f'{what}: {self.text or "the quota is used up"}. '
                'Delete instances or raise the quota.',
                **facts,
            )
        if self.action is Action.CAPACITY:
            return InsufficientCapacity(
                f'{what}: {self.text or "no valid host was found"}. Try another zone or flavor.',
                **facts,
            )
        if self.action is Action.CONFLICT:
            if call is Call.BUILD:
                why = self.text or 'a resource that it needs is in use'
                return BuildConflict(f'{what}: {why}. Free it, or use another.', **facts)
            why = self.text or 'its state does not allow that'
            kind = DeleteFailed if call is Call.DELETE else InstanceStateConflict
            return kind(f'{what}: {why}. Bring it to rest first.', **facts)
        lost = f'{what}: {self.text or "the cloud gave no answer"}. It might have taken effect'
        if call is Call.BUILD:
            return BuildOutcomeUnknown(f'{lost}; build again with the same build key.', **facts)
        return ServiceTimeout(f'{lost}.', **facts)


def _value_field(action: str) -> str:
    if action in _TIMED:
        return 'seconds'
    return 'retry_after' if action == Action.RATE_LIMIT else 'text'


_READERS: dict[str, Callable[[str], Any]] = {
    'times': int,
    'after': int,
    'probability': float,
    'seconds': float,
    'retry_after': float,
    'text': str,
    'amphora_id': str,
}


def _set(given: dict[str, Any], field: str, value: str, text: str) -> None:
    if field.startswith('metadata.'):
        given['metadata'][field.removeprefix('metadata.')] = value
        return
    if field not in _READERS:
        raise ConfigurationError(
            f'Cannot read fault {text!r}: option {field!r} does not exist; choose one of '
            f'{", ".join(_READERS)}, metadata.KEY.'
        )
    try:
        given[field] = _READERS[field](value)
    except ValueError:
        raise ConfigurationError(
            f'Cannot read fault {text!r}: {field} must be a number, not {value!r}.'
        ) from None


class _Rule:
    """A fault with the counts of the calls it matched and failed."""

    __slots__ = ('fault', 'fired', 'met')

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.met = 0
        self.fired = 0

    def fires(self, dice: random.Random) -> bool:
        self.met += 1
        if self.met <= self.fault.after:
            return False
        if self.fault.times is not None and self.fired >= self.fault.times:
            return False
        # No random number if the outcome is certain: a rule that always fires must
        # not change the numbers that the seed gives the other rules.
        if self.fault.probability < 1 and dice.random() >= self.fault.probability:
            return False
        self.fired += 1
        return True


class FaultScript:
    """The faults of one cloud, in this process; the first that fires wins.

    Counts are kept per process, even if the cloud is a shared file.
    """

    def __init__(self, faults: Iterable[Fault] = (), *, dice: random.Random) -> None:
        self._dice = dice
        self._lock = threading.Lock()
        self._rules = [_Rule(fault) for fault in faults]
        self._of_requests: dict[tuple[str, str], _Rule] = {}

    def __len__(self) -> int:
        return len(self._rules)

    def add(self, *faults: Fault) -> None:
        with self._lock:
            self._rules.extend(_Rule(fault) for fault in faults)

    def clear(self) -> None:
        """Remove all rules and counts."""
        with self._lock:
            self._rules.clear()
            self._of_requests.clear()

    def decide(
        self, call: Call, amphora_id: str | None, metadata: Callable[[], Mapping[str, str]]
    ) -> Fault | None:
        """Return the fault that applies to this call, or None."""
        with self._lock:
            for rule in self._rules:
                if rule.fault.fits(call, amphora_id, metadata) and rule.fires(self._dice):
                    return rule.fault
        return None

    def decide_for_request(self, build_key: str, text: str) -> Fault | None:
        """Return the fault that a request scripts for itself; counts are per build key."""
        with self._lock:
            rule = self._of_requests.get((build_key, text))
            if rule is None:
                rule = _Rule(Fault.parse(f'build:{text}'))
                if rule.fault.times is not None or rule.fault.after:
                    self._of_requests[build_key, text] = rule
            return rule.fault if rule.fires(self._dice) else None
