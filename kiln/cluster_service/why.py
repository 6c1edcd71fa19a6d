"""Explanations of a cluster's state, and of kiln's and the user's next step; pure."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from kiln.clock import clock_time
from kiln.cluster_service.views import Attention, ClusterView
from kiln.clusters.models import Cause, ConditionKind, Node, NodeState, Operation, OperationState
from kiln.engine.plan.changes import named
from kiln.engine.plan.conditions import conditions
from kiln.engine.plan.lifecycle import LONGEST_PAUSE_S
from kiln.exceptions import redact, visible

_NONE: Mapping[str, Cause] = MappingProxyType({})
_STARTING = frozenset(
    {NodeState.BUILDING, NodeState.BOOTING, NodeState.JOINING, NodeState.RESETTING}
)
#: What kiln does for a cluster without an operation under way.
_WATCHED = 'polls it at intervals, and replaces dead nodes as far as the brake allows'
_ELSEWHERE = 'does nothing for it until the next operation: its own engine maintains it'
_RESTING = 'does nothing for it until the next operation'
_BROKEN = frozenset({NodeState.FAILED, NodeState.UNHEALTHY})
#: States of a node that need no explanation unless it has a cause.
_EVEN = frozenset({NodeState.READY, NodeState.GONE, NodeState.PLANNED}) | _STARTING


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Reason:
    """The explanation for one thing."""

    #: The cluster, or the nodes.
    about: str
    said: str
    cause: Cause | None = None
    #: What kiln does next, and when.
    next: str = ''
    #: What the reader can do.
    do: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield it for people: each inner cause indented below the outer one."""
        yield f'{self.about}: {self.said}'
        indent, cause = '  ', self.cause
        while cause is not None:
            yield f'{indent}because: {_line(cause.message)}'
            cause, indent = cause.because, f'{indent}  '
        if self.next:
            yield f'  kiln: {self.next}'
        for action in self.do:
            yield f'  you: {_line(action)}'


def _line(text: str) -> str:
    return redact(visible(' '.join(text.split())))


def why(
    view: ClusterView,
    now: float,
    *,
    attention: Attention | None = None,
    outages: Mapping[str, Cause] = _NONE,
    node: Node | None = None,
    driver_trouble: Cause | None = None,
) -> Iterator[Reason]:
    """Yield the explanations, the cluster's own first; of one node alone if one is given.

    :param attention: which conductor works on the cluster; without it, nothing is said of that.
    :param outages: by backend, why it does not answer now.
    :param driver_trouble: why its driver cannot be used, if so.
    """
    if node is not None:
        yield _of_nodes(view, (node,), now, attention)
        yield from _of_machines(view, outages, attention)
        return
    yield _of_cluster(view, now, attention)
    if driver_trouble is not None:
        yield Reason(
            about=f'{view.cluster.name}, its driver', said='cannot be used', cause=driver_trouble,
            next='changes nothing of it, except that it can be deleted', do=_do(driver_trouble),
        )  # fmt: skip
    if view.settled:
        unseen = _NONE if attention is None else attention.unseen
        # What was found now is newer than what a conductor has noted.
        yield from _of_machines(view, {**unseen, **outages}, attention)
    if view.cluster.trouble is not None and view.settled:
        yield _of_driver(view, view.cluster.trouble)
    alike: dict[object, list[Node]] = collections.defaultdict(list)
    for one in view.nodes or ():
        if one.cause is not None or one.state not in _EVEN:
            doomed = one.state.leaving and one.cause is None
            if not doomed:
                alike[one.group, one.state, one.cause].append(one)
    for nodes in alike.values():
        yield _of_nodes(view, nodes, now, attention)


# ---- the cluster ---------------------------------------------------------------


def _of_cluster(view: ClusterView, now: float, attention: Attention | None) -> Reason:
    operation = view.operation
    said = f'{view.state}, {view.ready} of {view.wanted} nodes ready'
    if view.cluster.built_elsewhere:
        said = f'{view.state}, built by the engine of {view.cluster.pin.name}'
    cause = None
    if operation is not None:
        said = f'{said}; {_described(operation, now)}'
        cause = operation.cause or _blocked(view, now)
    next_, do = _cluster_next(view, now, attention)
    return Reason(about=view.cluster.name, said=said, cause=cause, next=next_, do=_do(cause, *do))


def _of_machines(
    view: ClusterView, unseen: Mapping[str, Cause], attention: Attention | None
) -> Iterator[Reason]:
    watched = attention is not None and attention.watched
    again = ', and polls again' if watched else ''
    for backend, cause in sorted(unseen.items()):
        said = 'cannot be polled'
        if watched and attention is not None and backend not in attention.unseen:
            # Such as without a token, while the conductor still has one.
            said = 'cannot be polled by this command; the conductor has not reported that'
        yield Reason(
            about=f'{view.cluster.name}, its machines', said=said, cause=cause,
            next=f'leaves the states of the nodes as they are{again}',
            do=_do(cause, f"check the backend: 'kiln --backend {backend} compute check'"),
        )  # fmt: skip


def _of_driver(view: ClusterView, trouble: Cause) -> Reason:
    return Reason(
        about=f'{view.cluster.name}, as {view.cluster.pin.name} sees it',
        said='not as it should be', cause=trouble, do=_do(trouble),
        next='tends it at intervals, and reports when it is healthy',
    )  # fmt: skip


def _blocked(view: ClusterView, now: float) -> Cause | None:
    """Return why dead nodes of a cluster are not replaced, if so: the brake."""
    found = conditions(view.cluster, view.nodes or (), view.operation, now)
    blocked = (one.cause for one in found if one.kind is ConditionKind.BLOCKED)
    return next((one for one in blocked if one and one.code != 'nobody_works'), None)


def _described(operation: Operation, now: float) -> str:
    words = f'{operation.kind.value} {operation.state.value.replace("_", " ")}'
    if operation.state.ended:
        return f'{words} {span(now - (operation.ended_at or now))} ago'
    began = operation.started_at
    since = f'for {span(now - began)}' if began else 'not begun'
    return f'{words}, {since}'


def _cluster_next(
    view: ClusterView, now: float, attention: Attention | None
) -> tuple[str, tuple[str, ...]]:
    name, operation = view.cluster.name, view.operation
    if view.cluster.paused:
        return 'does nothing, since the cluster is paused', (f"'kiln cluster resume {name}'",)
    if operation is None or operation.state.ended:
        return _at_rest(view, attention)
    kind = operation.kind.value
    if operation.cancelled:
        return f'stops the {kind}; what was built stays', ()
    attention = attention or Attention()
    if attention.died or not attention.worker:
        again = (
            f"'kiln cluster watch {name}' works on it here; 'kiln conductor' works on all "
            f'clusters until it is stopped',
        )
        said = f'waits for a conductor: nobody works on the {kind} now'
        return f'{said}{_death(attention)}', again
    worker = f'{attention.worker}{_silence(attention, now)}'
    until = ''
    if operation.deadline_at:
        until = f', for another {span(operation.deadline_at - now)} before it fails'
    if operation.state is OperationState.WAITING:
        verb = f'tries again, at the latest after {span(LONGEST_PAUSE_S)}{until}'
        return f'{verb} ({worker})', (f"'kiln cluster cancel {name}' stops it",)
    return f'continues the {kind}{until} ({worker})', ()


def _death(attention: Attention) -> str:
    if not attention.died:
        return ''
    heard = ''
    if attention.silent_s is not None:
        heard = f', last heard from {span(attention.silent_s)} ago,'
    return f'; {attention.worker}{heard} has ended'


def _silence(attention: Attention, now: float) -> str:
    """Return since when a worker is silent, once it has missed a renewal of its lease."""
    if attention.silent_s is None:
        return ''
    term_s = attention.silent_s + attention.expires_s
    # A lease is renewed several times in its term.
    if attention.silent_s < 0.6 * term_s:
        return ''
    until, silent = clock_time(now + attention.expires_s), span(attention.silent_s)
    return f', last heard from {silent} ago; another conductor takes over at {until}'


def _unwatched(view: ClusterView) -> tuple[str, tuple[str, ...]]:
    name, operation = view.cluster.name, view.operation
    since = max((node.since for node in view.nodes or ()), default=0.0)
    since = max(since, (operation.ended_at if operation else None) or 0.0)
    return (
        f'does not watch its nodes: no conductor runs; this is how they were at '
        f'{clock_time(since)}',
        (f"'kiln cluster check {name}' polls them now; 'kiln conductor' watches all clusters",),
    )


def _at_rest(view: ClusterView, attention: Attention | None) -> tuple[str, tuple[str, ...]]:
    name, operation = view.cluster.name, view.operation
    if operation is None or operation.state is OperationState.SUCCEEDED:
        if view.cluster.built_elsewhere:
            return _ELSEWHERE, (f"'kiln cluster check {name}' requests a report of its driver",)
        if attention is not None and not attention.watched:
            return _unwatched(view)
        if view.ready == view.wanted:
            return 'has nothing to do', ()
        return _WATCHED, (f"'kiln cluster check {name}' polls it now",)
    kind = operation.kind.value
    do = [f"'kiln cluster retry {name}' continues the {kind} from what exists"]
    if operation.state is OperationState.ROLLED_BACK:
        do = [f"declare it again ('kiln up FILE'): it continues the {kind} from what exists"]
    if view.cluster.former is not None and view.cluster.former != view.cluster.aim:
        do.append(f"'kiln cluster rollback {name}' returns it to its last good state")
    return f'does nothing more for the {kind}; what was built stays', tuple(do)


# ---- nodes ---------------------------------------------------------------------


def _of_nodes(
    view: ClusterView, nodes: Sequence[Node], now: float, attention: Attention | None
) -> Reason:
    first = nodes[0]
    since = min((node.since for node in nodes if node.since), default=0.0)
    said = f'{first.state.value} {f"for {span(now - since)}" if since else ""}'.rstrip()
    if first.doomed:
        said = f'{said}; to be removed: {first.doomed}'
    next_, do = _node_next(view, first, now, attention)
    return Reason(
        about=f'node {named(nodes)} ({first.group})', said=said, cause=first.cause, next=next_,
        do=_do(first.cause, *do),
    )  # fmt: skip


def _node_next(
    view: ClusterView, node: Node, now: float, attention: Attention | None
) -> tuple[str, tuple[str, ...]]:
    state, name = node.state, view.cluster.name
    replace = (f"'kiln node replace {name} {node.name}'",)
    if state is NodeState.GONE:
        return 'has nothing more to do for it', ()
    if state is NodeState.UNKNOWN:
        return 'polls again; builds or deletes nothing until its backend reports its state', ()
    if state is NodeState.READY and not node.doomed:
        return 'has nothing to do for it', ()
    if view.cluster.paused:
        return 'does nothing, since the cluster is paused', (f"'kiln cluster resume {name}'",)
    operation = view.operation
    if operation is None or operation.state.ended:
        settled = operation is not None and operation.state is OperationState.SUCCEEDED
        if state not in _BROKEN or node.doomed:
            return _RESTING, ()
        if not settled:
            return _RESTING, replace
        if attention is not None and not attention.watched:
            return 'does nothing for it: no conductor runs', replace
        return f'{_replacement(view, node, now)}, as far as the brake allows', replace
    return _node_at_work(view, node, now, replace)


def _node_at_work(
    view: ClusterView, node: Node, now: float, replace: tuple[str, ...]
) -> tuple[str, tuple[str, ...]]:
    state = node.state
    if node.doomed or state.leaving:
        return 'removes it, and tries until the deadline', ()
    if state is NodeState.FAILED:
        return 'replaces it when the brake and max_in_flight allow it', ()
    group = view.cluster.spec.group(node.group)
    if group is not None and state is NodeState.UNHEALTHY:
        return _replacement(view, node, now), replace
    retries = f'tries again, at the latest after {span(LONGEST_PAUSE_S)}' if node.cause else ''
    if group is not None and state in _STARTING:
        left_s = node.since + group.health.startup_timeout_s - now
        gives_up = f'gives it up {_when(left_s)} if it is not ready'
        return f'{retries}; {gives_up}' if retries else f'waits for it, and {gives_up}', ()
    return retries or 'builds it when others before it are done', ()


def _replacement(view: ClusterView, node: Node, now: float) -> str:
    """Return when a broken node is replaced."""
    group = view.cluster.spec.group(node.group)
    left_s = 0.0
    if group is not None and node.state is NodeState.UNHEALTHY:
        left_s = node.since + group.health.unhealthy_after_s - now
    if left_s <= 0:
        return 'replaces it now'
    return f'replaces it {_when(left_s)} (unhealthy_after of its group), unless it recovers'


def _when(left_s: float) -> str:
    return f'in {span(left_s)}' if left_s > 0 else 'now'


def hint(cause: Cause | None) -> str:
    """Return the innermost hint of a cause: it is the nearest to the provider."""
    found = ''
    while cause is not None:
        found, cause = cause.hint or found, cause.because
    return found


def _do(cause: Cause | None, *others: str) -> tuple[str, ...]:
    return tuple(filter(None, dict.fromkeys((hint(cause), *others))))


def span(seconds: float) -> str:
    """Return a time span in its shortest readable form."""
    seconds = max(0.0, seconds)
    if seconds < 120:
        return f'{seconds:.0f} s'
    return f'{seconds / 60:.0f} min' if seconds < 7200 else f'{seconds / 3600:.0f} h'
