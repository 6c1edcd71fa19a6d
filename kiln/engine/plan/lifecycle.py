"""What is done next for one node, and what a result makes of it; pure.

The state of a node is what was last written of it, so it is enough to go on from
after a crash: BUILDING says that a request may have been sent, and to send it
again with the same build key finds what the first one made.
"""

from __future__ import annotations

import dataclasses
import enum

from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.models import Cause, Node, NodeState
from kiln.exceptions import (
    AmphoraBuildError,
    AmphoraComputeError,
    ChangeFailed,
    InstanceNotFoundError,
    InstanceStateConflict,
    InsufficientCapacity,
    KilnError,
    Outcome,
    QuotaExceeded,
)

#: Seconds from the first failure until the next attempt; doubled each time.
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
#: Seconds between two looks whether a node is ready, drained, or gone: at least, and at most.
FIRST_POLL_S = 0.2
LONGEST_POLL_S = 2.0
#: Looks at the nodes of one cluster in a second, at most.
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
    #: Read the state of a machine that its backend could not report.
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
#: After these a machine can come back to work, or not.
_RESETS = frozenset({ActionKind.REBOOT, ActionKind.REBUILD})
#: What is done to a node that is there: to find no machine is a failure.
EXPECTING = _RESETS | {ActionKind.WATCH}
#: What says that it does not come to be so.
_ENDS = (AmphoraBuildError, ChangeFailed, InstanceNotFoundError)

#: The state in which a node is while something is done for it.
DURING = {
    ActionKind.BUILD: NodeState.BUILDING,
    ActionKind.DRAIN: NodeState.DRAINING,
    ActionKind.DELETE: NodeState.DELETING,
}


def next_action(
    node: Node, *, elsewhere: bool = False, reset: ActionKind | None = None, forced: bool = False
) -> ActionKind:
    """Return what is to be done for a node now; REST where nothing is.

    :param elsewhere: it failed for lack of room, and may be tried at another place.
    :param reset: what is next where it is RESETTING and somebody resets it.
    :param forced: it goes whatever it does, and nobody waits for it to be drained.
    """
    if forced and node.doomed and node.compute_id:
        return ActionKind.DELETE
    if node.state is NodeState.RESETTING and reset is not None and not node.doomed:
        return reset
    if node.state is NodeState.FAILED and (node.doomed or elsewhere):
        # Without an id it was refused for certain: there is nothing to delete.
        return ActionKind.DELETE if node.compute_id else ActionKind.FORGET
    kind = (_LEAVING if node.doomed else _STAYING).get(node.state, ActionKind.REST)
    # What has no id yet can only be found by its build key.
    return ActionKind.FIND if kind in _BY_ID and node.compute_id is None else kind


def poll_pause_s(waited_s: float, nodes: int) -> float:
    """Return how long to wait before the next look at one of so many nodes.

    A tenth of the time that it has taken so far: a quick node is seen soon, and a slow
    one is not polled all the time.
    """
    return min(LONGEST_POLL_S, max(FIRST_POLL_S, waited_s / 10, nodes / _POLLS))


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """What a failure makes of a node."""

    state: NodeState
    cause: Cause | None
    #: Seconds until the next attempt; None without one.
    again_s: float | None


def pause_s(tries: int, retry_after: float | None = None) -> float:
    """Return how long to wait after so many failures in a row."""
    grown = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(tries - 1, 30))
    return max(grown, retry_after or 0.0)


def after_failure(kind: ActionKind, node: Node, error: BaseException, tries: int) -> Verdict:
    """Return what a failure of an act makes of a node.

    ``tries`` counts the failures in a row, this one included.
    """
    cause = cause_of(error)
    again = Verdict(node.state, cause, pause_s(tries, getattr(error, 'retry_after', None)))
    failed = Verdict(NodeState.FAILED, cause, None)
    if kind is ActionKind.BUILD:
        return _after_build(error, again, failed)
    if kind in EXPECTING and isinstance(error, _ENDS):
        return failed
    if kind in _RESETS:
        return failed if _refused(error) else again
    # Whatever else is done only looks, or takes away: that is tried again until
    # the operation's deadline, since giving up would leave something behind.
    return again


def _after_build(error: BaseException, again: Verdict, failed: Verdict) -> Verdict:
    if isinstance(error, ClusterDriverError):
        # It was asked what to send, so nothing was sent.
        return dataclasses.replace(again, state=NodeState.PLANNED) if error.retryable else failed
    if not isinstance(error, AmphoraComputeError):
        return failed
    if error.outcome is not Outcome.NOT_APPLIED:
        return again
    if error.retryable or isinstance(error, InsufficientCapacity | QuotaExceeded):
        return dataclasses.replace(again, state=NodeState.PLANNED)
    return failed


def _refused(error: BaseException) -> bool:
    """Whether a reset that failed would fail each time."""
    if not isinstance(error, AmphoraComputeError):
        return True
    # A machine in the middle of something can be asked again when it is over.
    passing = error.retryable or isinstance(error, InstanceStateConflict)
    return error.outcome is Outcome.NOT_APPLIED and not passing


def cause_of(error: BaseException) -> Cause:
    """Return an error as the chain of reasons that people are shown."""
    below = error.__cause__
    inner = cause_of(below) if isinstance(below, KilnError) else None
    if isinstance(error, AmphoraComputeError) and error.fault and error.fault not in str(error):
        inner = Cause(code='provider', message=error.fault)
    code = error.code if isinstance(error, KilnError) else 'unforeseen'
    hint = error.remedy if isinstance(error, KilnError) else ''
    text = str(error) or type(error).__name__
    return Cause(code=code, message=text, hint=hint, because=inner)
