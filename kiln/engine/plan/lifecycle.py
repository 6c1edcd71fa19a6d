"""The next action of a node, and the effect of a failed action on it; pure.

The state of a node is what was last written, so work can continue from it after a crash:
BUILDING means that a request was possibly sent, and a repeated request with the same build
key finds what the first one made. If the repeat is refused, that is searched for.
"""

from __future__ import annotations

import dataclasses
import enum
import re

from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.models import Cause, Node, NodeState
from kiln.exceptions import (
    AmphoraBuildError,
    AmphoraComputeError,
    BuildOutcomeUnknown,
    ChangeFailed,
    CircuitOpenError,
    InstanceNotFoundError,
    InstanceStateConflict,
    InsufficientCapacity,
    InvalidRequest,
    KilnError,
    Outcome,
    QuotaExceeded,
    ResourceNotFoundError,
    UnsupportedOperation,
)

#: The beginning of an error of a call: what cannot be done, and with which object.
_OBJECT = re.compile(r'^(Cannot \w+) [^:]+: ')
#: Seconds from the first failure until the next attempt; doubled each time.
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
#: Seconds between two polls whether a node is ready, drained, or gone: at least, and at most.
FIRST_POLL_S = 0.2
LONGEST_POLL_S = 2.0
#: Polls of the nodes of one cluster in a second, at most.
_POLLS = 200


class ActionKind(enum.StrEnum):
    """An action for one node, which has a result."""

    REST = 'rest'
    #: A machine was never requested, so the node is gone as soon as that is written.
    FORGET = 'forget'
    BUILD = 'build'
    #: Search for the machine of a build that was sent.
    FIND = 'find'
    WATCH = 'watch'
    ASK_READY = 'ask_ready'
    DRAIN = 'drain'
    #: Drain a node that comes back.
    RELIEVE = 'relieve'
    REBOOT = 'reboot'
    REBUILD = 'rebuild'
    DELETE = 'delete'
    #: Read the state of a machine that its backend could not report; events have this value.
    READ_STATE = 'look'


#: Actions that change something in a backend: the intent is written before they start.
CHANGING = frozenset({ActionKind.BUILD, ActionKind.DELETE, ActionKind.REBOOT, ActionKind.REBUILD})

_STAYING = {
    NodeState.PLANNED: ActionKind.BUILD,
    NodeState.BUILDING: ActionKind.BUILD,
    NodeState.BOOTING: ActionKind.WATCH,
    NodeState.JOINING: ActionKind.ASK_READY,
    # Its reset has ended, so it comes back as it is.
    NodeState.RESETTING: ActionKind.WATCH,
    NodeState.DRAINING: ActionKind.DRAIN,
    NodeState.DELETING: ActionKind.DELETE,
    NodeState.UNKNOWN: ActionKind.READ_STATE,
}
_LEAVING = {
    NodeState.PLANNED: ActionKind.FORGET,
    NodeState.BUILDING: ActionKind.FIND,
    NodeState.BOOTING: ActionKind.DELETE,
    NodeState.JOINING: ActionKind.DELETE,
    NodeState.READY: ActionKind.DRAIN,
    NodeState.UNHEALTHY: ActionKind.DELETE,
    NodeState.RESETTING: ActionKind.DRAIN,
    NodeState.DRAINING: ActionKind.DRAIN,
    NodeState.DELETING: ActionKind.DELETE,
    NodeState.UNKNOWN: ActionKind.READ_STATE,
}

_BY_ID = frozenset({ActionKind.DELETE, ActionKind.READ_STATE})
#: Actions after which a machine comes back to work, or does not.
_RESETS = frozenset({ActionKind.REBOOT, ActionKind.REBUILD})
#: Actions for which a missing machine is a failure.
EXPECTING = _RESETS | {ActionKind.WATCH}
#: Errors after which the expected state is never reached.
_ENDS = (AmphoraBuildError, ChangeFailed, InstanceNotFoundError)

#: The state of a node during an action.
DURING = {
    ActionKind.BUILD: NodeState.BUILDING,
    ActionKind.DRAIN: NodeState.DRAINING,
    ActionKind.DELETE: NodeState.DELETING,
}


def next_action(
    node: Node,
    *,
    sought: bool = False,
    elsewhere: bool = False,
    reset: ActionKind | None = None,
    forced: bool = False,
) -> ActionKind:
    """Return the next action of a node; REST without one.

    :param sought: a repeat of its build was refused, and the first request might have made the
        machine.
    :param elsewhere: its build failed for lack of room, and is tried at another place.
    :param reset: the next action if it is RESETTING, and an operation resets it.
    :param forced: it is removed whatever its state, and not drained.
    """
    if forced and node.doomed and node.compute_id:
        return ActionKind.DELETE
    if node.state is NodeState.RESETTING and reset is not None and not node.doomed:
        return reset
    if node.state is NodeState.FAILED and (node.doomed or elsewhere):
        # Without an id it was refused for certain: there is nothing to delete.
        return ActionKind.DELETE if node.compute_id else ActionKind.FORGET
    if node.state is NodeState.BUILDING and sought:
        return ActionKind.FIND
    kind = (_LEAVING if node.doomed else _STAYING).get(node.state, ActionKind.REST)
    # A machine without a known id can only be found by its build key.
    return ActionKind.FIND if kind in _BY_ID and node.compute_id is None else kind


def poll_pause_s(waited_s: float, nodes: int) -> float:
    """Return how long to wait before the next poll of a node.

    A tenth of the time that it has taken so far: a quick node is seen soon, and a slow
    one is not polled all the time.

    :param nodes: the number of nodes in its cluster.
    """
    return min(LONGEST_POLL_S, max(FIRST_POLL_S, waited_s / 10, nodes / _POLLS))


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """The effect of a failure on a node."""

    state: NodeState
    cause: Cause | None
    #: Seconds until the next attempt; None without one.
    again_s: float | None


def pause_s(tries: int, retry_after: float | None = None) -> float:
    """Return how long to wait after a number of failures in a row."""
    grown = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(tries - 1, 30))
    return max(grown, retry_after or 0.0)


def pause_after(error: BaseException, tries: int) -> float:
    """Return how long to wait after a failure, which is one of a number in a row."""
    retry_after = getattr(error, 'retry_after', None)
    if retry_after is not None and any(
        isinstance(one, CircuitOpenError) for one in (error, error.__cause__)
    ):
        # A circuit spares its backend itself, and says when it lets calls pass again.
        tries = 1
    return pause_s(tries, retry_after)


def after_failure(kind: ActionKind, node: Node, error: BaseException, tries: int) -> Verdict:
    """Return the effect of a failed action on a node.

    :param tries: the number of failures in a row, including this one.
    """
    pause = pause_after(error, tries)
    again = Verdict(node.state, hindrance_of(error), pause)
    failed = Verdict(NodeState.FAILED, cause_of(error), None)
    if kind is ActionKind.BUILD:
        return _after_build(error, again, failed)
    if kind in EXPECTING and isinstance(error, _ENDS):
        return failed
    if kind in _RESETS:
        return failed if _fails_each_time(error) else again
    # All other actions only poll or remove. They are repeated until the deadline of the
    # operation, since giving up would leave something behind.
    return again


def refused_for_good(error: BaseException) -> bool:
    """Return whether a build was refused for what it requests: another is refused as well."""
    wrong = InvalidRequest | ResourceNotFoundError | UnsupportedOperation
    return isinstance(error, wrong) and error.outcome is Outcome.NOT_APPLIED


def made_nothing(error: BaseException) -> bool:
    """Return whether a build that failed has made nothing, whatever an earlier one has made."""
    return not isinstance(error, AmphoraComputeError) or error.outcome is Outcome.NOT_APPLIED


def _after_build(error: BaseException, again: Verdict, failed: Verdict) -> Verdict:
    if not isinstance(error, AmphoraComputeError):
        return failed
    if not made_nothing(error):
        return again
    if error.retryable or isinstance(error, InsufficientCapacity | QuotaExceeded):
        return dataclasses.replace(again, state=NodeState.PLANNED)
    return failed


def _fails_each_time(error: BaseException) -> bool:
    """Return whether a reset that failed would fail each time."""
    if not isinstance(error, AmphoraComputeError):
        return True
    # A machine that is busy can be reset when it is idle again.
    passing = error.retryable or isinstance(error, InstanceStateConflict)
    return error.outcome is Outcome.NOT_APPLIED and not passing


#: Advice with these words is for callers that repeat a call, as the engine does by itself.
_FOR_CALLERS = ('build key', 'retry_after')


def cause_of(error: BaseException) -> Cause:
    """Return an error as a chain of causes, for people."""
    below = error.__cause__
    inner = cause_of(below) if isinstance(below, KilnError) else None
    if inner is not None and isinstance(error, CircuitOpenError):
        # What opened a circuit can have been the call of another node, or of another cluster.
        inner = _impersonal(inner)
    if isinstance(error, AmphoraComputeError) and error.fault and error.fault not in str(error):
        inner = Cause(code='provider', message=error.fault)
    code = error.code if isinstance(error, KilnError) else 'unforeseen'
    hint = error.remedy if isinstance(error, KilnError) else ''
    if any(word in hint for word in _FOR_CALLERS):
        hint = ''
    text = str(error) or type(error).__name__
    if isinstance(error, ClusterDriverError):
        text, hint = error.reason, error.hint or hint
    return Cause(code=code, message=text, hint=hint, because=inner)


def hindrance_of(error: BaseException) -> Cause:
    """Return what delays a call, without the node that the call is about.

    So nodes with the same hindrance have the same cause, and are shown together.
    """
    # Whether a machine was built is found out by kiln itself, once what is behind this allows it.
    while isinstance(error, BuildOutcomeUnknown) and isinstance(error.__cause__, KilnError):
        error = error.__cause__
    return _impersonal(cause_of(error))


def _impersonal(cause: Cause) -> Cause:
    return dataclasses.replace(cause, message=_OBJECT.sub(r'\1: ', cause.message, count=1))
