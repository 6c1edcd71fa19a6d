"""Health polls: the states of machines of nodes without an operation under way."""

from __future__ import annotations

import dataclasses
import functools
import queue
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kiln.clusters.models import Cause, Node, NodeState
from kiln.engine.context import Backends
from kiln.engine.nodes.node_table import NodeTable
from kiln.engine.nodes.transaction import Transaction
from kiln.engine.plan.changes import going
from kiln.engine.plan.lifecycle import cause_of
from kiln.engine.plan.names import machine_id
from kiln.exceptions import InstanceNotFoundError, KilnError, OperationCancelled
from kiln.models import ComputeStatus, State

if TYPE_CHECKING:
    from kiln.compute.facade import Compute

#: The states of nodes whose machines are polled.
WATCHED = frozenset({NodeState.READY, NodeState.UNHEALTHY, NodeState.UNKNOWN})
ABSENT = 'machine_absent'
#: Machines missing from a list that are polled by id, in one poll of a backend.
POLLED_BY_ID = 100
_SICK = {
    State.ERROR: 'is in error',
    State.STOPPED: 'is stopped',
    State.SUSPENDED: 'is suspended',
    State.DELETED: 'is deleted',
}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class PolledState:
    """The state of a node as its machine shows it."""

    state: NodeState
    cause: Cause | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class PollResult:
    """The result of one poll."""

    #: By node id; nodes that have not changed are left out.
    polled: Mapping[str, PolledState] = dataclasses.field(default_factory=dict)
    #: By backend name, why it did not answer everything.
    silent: Mapping[str, Cause] = dataclasses.field(default_factory=dict)


def watched(nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes whose machines are worth polling."""
    return [
        node for node in nodes if node.state in WATCHED and node.compute_id and not going(node)
    ]


def polled_state(node: Node, status: ComputeStatus) -> PolledState | None:
    """Return the state of a node by its machine's status; None if the status is not certain."""
    if status.stale:
        return None
    if status.ready:
        return PolledState(state=NodeState.READY)
    if status.state not in _SICK:
        return None
    inner = Cause(code='provider', message=status.fault) if status.fault else None
    message = f'The machine of {node.name} {_SICK[status.state]}.'
    code = ABSENT if status.state is State.DELETED else f'machine_{status.state.value}'
    return PolledState(
        state=NodeState.UNHEALTHY, cause=Cause(code=code, message=message, because=inner)
    )


def apply(tx: Transaction, table: NodeTable, polled: Mapping[str, PolledState]) -> None:
    """Write what a poll found; nodes with an action under way are left alone."""
    for node in watched(table.nodes()):
        member = table.get(node.id)
        seen = polled.get(node.id)
        if member is None or seen is None or _is_known(node, seen):
            continue
        table.change(member, state=seen.state, cause=seen.cause)
        if seen.cause is not None:
            tx.event('node-unhealthy', f'{node.name}: {seen.cause.message}', node)
        else:
            tx.event('node-recovered', f'{node.name} works again', node)


#: Receives why a backend does not answer, or None once it has answered.
OnAnswer = Callable[[str, Cause | None], object]


def _ignore(backend: str, cause: Cause | None) -> None:
    """Drop the report; the result of the poll has it as well."""


class MachinePoller:
    """Polls machines; each poll is one bulk call per backend, and blocks."""

    def __init__(self, backends: Backends) -> None:
        self._backends = backends

    def poll(self, nodes: Iterable[Node], on_answer: OnAnswer = _ignore) -> PollResult:
        """Return what is new about nodes; nodes of uncertain state are left out.

        A machine counts as absent only if its backend reports that for its id: a list can
        lack the machines of a cell that is down. A backend that does not answer makes no
        node unhealthy. ``on_answer`` is called for each backend, on this thread: at once if
        it is silent, and when its poll has ended.
        """
        by_backend: dict[str, list[Node]] = defaultdict(list)
        for node in watched(nodes):
            by_backend[node.backend].append(node)
        polled: dict[str, PolledState] = {}
        silent: dict[str, Cause] = {}
        reports: _Reports = queue.SimpleQueue()
        # All backends are called before the first one is waited for.
        polls = [self._begin(name, theirs, reports) for name, theirs in sorted(by_backend.items())]
        waiting = {one.backend for one in polls}
        while waiting:
            one, delay = reports.get()
            if delay is not None and one.bulk is not None and not one.bulk.done():
                on_answer(one.backend, cause_of(delay))
            elif delay is None and one.backend in waiting:
                waiting.discard(one.backend)
                if cause := one.finish(polled):
                    silent[one.backend] = cause
                # A poll that kiln itself gives up as it ends says nothing of the backend.
                if cause is None or cause.code != OperationCancelled.code:
                    on_answer(one.backend, cause)
        return PollResult(polled=polled, silent=silent)

    def _begin(self, name: str, nodes: list[Node], reports: _Reports) -> _BackendPoll:
        """Call a backend; whatever comes of it is put into the queue of reports."""
        try:
            compute = self._backends.get(name)
            bulk: Any = compute.statuses(map(machine_id, nodes))
        except KilnError as exc:
            refused = _BackendPoll(name, nodes, error=exc)
            reports.put((refused, None))
            return refused
        one = _BackendPoll(name, nodes, compute=compute, bulk=bulk)
        bulk.on_hindrance(functools.partial(_delayed, reports, one))
        bulk.add_done_callback(lambda done: reports.put((one, None)))
        return one


def _delayed(reports: _Reports, one: _BackendPoll, error: BaseException | None) -> None:
    if error is not None:
        reports.put((one, error))


@dataclasses.dataclass(slots=True)
class _BackendPoll:
    """The poll of one backend: a bulk call, or the error that prevented it."""

    backend: str
    nodes: list[Node]
    compute: Compute | None = None
    bulk: Any = None
    error: KilnError | None = None

    def finish(self, polled: dict[str, PolledState]) -> Cause | None:
        """Record what is new once the call has ended; return why something is missing."""
        try:
            if self.error is not None or self.compute is None:
                raise self.error or AssertionError
            lacking = list(_compared(self.nodes, self.bulk.result(), polled))
        except KilnError as exc:
            return cause_of(exc)
        return _prove(self.compute, lacking[:POLLED_BY_ID], polled)


#: Polls with what delays them; None once they have ended.
_Reports = queue.SimpleQueue[tuple[_BackendPoll, BaseException | None]]


def _compared(
    nodes: Iterable[Node], found: Mapping[str, ComputeStatus], polled: dict[str, PolledState]
) -> Iterator[Node]:
    """Record what is new, and yield the nodes whose machines are missing."""
    for node in nodes:
        status = found.get(machine_id(node))
        if status is not None:
            seen = polled_state(node, status)
            if seen is not None and not _is_known(node, seen):
                polled[node.id] = seen
        # If a machine is already known to be absent, a list without it is proof enough.
        elif node.cause is None or node.cause.code != ABSENT:
            yield node


def _prove(
    compute: Compute, nodes: Iterable[Node], polled: dict[str, PolledState]
) -> Cause | None:
    """Poll machines by their ids; return why some answers are missing, if so."""
    polls = []
    silent = None
    for node in nodes:
        try:
            polls.append((node, compute.status(machine_id(node))))
        except KilnError as exc:
            silent = cause_of(exc)
    for node, poll in polls:
        try:
            seen = polled_state(node, poll.result())
        except InstanceNotFoundError as exc:
            message = f'The machine of {node.name} does not exist.'
            cause = Cause(code=ABSENT, message=message, because=cause_of(exc))
            seen = PolledState(state=NodeState.UNHEALTHY, cause=cause)
        except KilnError as exc:
            silent = cause_of(exc)
            continue
        if seen is not None and not _is_known(node, seen):
            polled[node.id] = seen
    return silent


def _is_known(node: Node, seen: PolledState) -> bool:
    return (node.state, node.cause) == (seen.state, seen.cause)
