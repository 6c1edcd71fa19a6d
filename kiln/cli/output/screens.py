"""Progress of cluster operations: drawn on a terminal, else line by line."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from kiln.cli.cluster.following import Show
from kiln.cli.output.operation_progress import Course, GroupCourse
from kiln.cli.output.visible_stream import drawn_on
from kiln.clock import clock_time
from kiln.cluster_service.why import hint, span
from kiln.clusters.models import Cause, Event, Node, NodeState
from kiln.engine.plan.changes import named
from kiln.engine.plan.lifecycle import ActionKind
from kiln.exceptions import redact, visible

if TYPE_CHECKING:
    from rich.text import Text

_COLOURS = {
    NodeState.PLANNED: 'bright_black',
    NodeState.BUILDING: 'yellow',
    NodeState.BOOTING: 'yellow',
    NodeState.JOINING: 'cyan',
    NodeState.READY: 'green',
    NodeState.UNHEALTHY: 'red',
    NodeState.RESETTING: 'cyan',
    NodeState.DRAINING: 'magenta',
    NodeState.DELETING: 'magenta',
    NodeState.FAILED: 'red',
    NodeState.UNKNOWN: 'red',
}
_STATES = {
    'ready': 'green',
    'succeeded': 'green',
    'failed': 'red',
    'rolled_back': 'red',
    'waiting': 'yellow',
    'paused': 'yellow',
    'cancelled': 'yellow',
}
_BAR = 24
#: Number of causes that are shown in full.
_CAUSES = 3
_EVENTS = 4
#: By code of a cause: seconds for which it is a part of normal work, such as the boot of a
#: machine. Printed lines tell it only after these.
_NORMAL_S = {'readiness_not_yet': 30.0, 'hook': 4.0}

_CIRCUIT = 'circuit_open'
#: Codes of causes that pass without the user, once a backend answers.
_OUTAGES = frozenset(
    {
        _CIRCUIT,
        'no_answer_so_far',
        'service_unavailable',
        'service_timeout',
        'build_outcome_unknown',
    }
)
#: Seconds after which an outage is told again, with the time of the next try.
_AGAIN_S = 60.0

#: Events of attempts that failed.
_TRIES = frozenset(f'{kind.value}-failed' for kind in ActionKind)

#: A cause and its event read the same: they are one line, if no more seconds lie between them.
_SAME_S = 10.0


@contextlib.contextmanager
def screen(stream: TextIO, *, silent: bool = False) -> Iterator[Show]:
    """Show progress on a stream; the drawing on a terminal stays after the end."""
    if silent:
        yield lambda courses, events: None
    elif not stream.isatty():
        yield Lines(stream).show
    else:
        from rich.console import Console
        from rich.live import Live

        console = Console(file=drawn_on(stream))
        # Drawn only by show().
        with Live(console=console, auto_refresh=False, redirect_stdout=False) as live:
            yield Drawn(live).show


class Lines:
    """Prints a line for each event, and for each new cause that holds an operation up."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        #: By operation and kind of cause: when it was told last.
        self._told: dict[tuple[str, str], float] = {}
        #: The names of clusters, each with an advice that was given.
        self._advised: set[tuple[str, str]] = set()
        #: The operations that an outage holds up, of which it was told.
        self._out: set[str] = set()
        #: When each cause was seen first.
        self._seen: dict[tuple[str, str], float] = {}
        #: By cluster and text: when each line was written last.
        self._written: dict[tuple[str, str], float] = {}

    def show(self, courses: Sequence[Course], events: Sequence[Event]) -> None:
        names = {one.operation.cluster_id: one.name for one in courses}
        going_on = {node.id for one in courses for node in one.held_up}
        for event in events:
            # Its cause is told below, for all nodes that have it.
            if event.kind in _TRIES and event.node_id in going_on:
                continue
            name = names.get(event.cluster_id, event.cluster_id)
            self._write(event.at, name, self._news(name, event))
        for one in courses:
            self._tell_causes(one)
        self._stream.flush()

    def _tell_causes(self, course: Course) -> None:
        operation, out = course.operation, False
        at = operation.created_at + course.elapsed_s
        for cause, nodes in course.causes():
            out |= cause.code in _OUTAGES
            key = (operation.id, _kind(cause))
            normal_until = self._seen.setdefault(key, at) + _NORMAL_S.get(cause.code, 0.0)
            again_s = _AGAIN_S if cause.code == _CIRCUIT else float('inf')
            if at < max(normal_until, self._told.get(key, float('-inf')) + again_s):
                continue
            self._told[key] = at
            if cause.code in _OUTAGES:
                self._out.add(operation.id)
            held = f'{_held(course, nodes)}{_from_before(course, nodes)}'
            self._write(at, course.name, f'{held}: {cause.line}')
            advice = hint(cause)
            if advice and (course.name, advice) not in self._advised:
                self._advised.add((course.name, advice))
                self._write(at, course.name, f'-> {advice}')
        if operation.id in self._out and not out:
            self._out.remove(operation.id)
            # The same outage is news another time.
            self._told = {key: when for key, when in self._told.items() if key[0] != operation.id}
            if not operation.state.ended:
                self._write(at, course.name, f'{operation.kind.value} goes on')

    def _news(self, name: str, event: Event) -> str:
        text = _line(event.message)
        # Why a node has failed was told when it failed.
        node, failed, reason = text.partition(' is to go: failed: ')
        if failed and (name, f'{node}: {reason}') in self._written:
            return f'{node} is to go: failed'
        return text

    def _write(self, at: float, name: str, text: str) -> None:
        line = _line(text)
        before = self._written.get((name, line))
        if before is None or abs(at - before) > _SAME_S:
            self._written[name, line] = at
            self._stream.write(f'{clock_time(at)} {name}: {line}\n')


def _kind(cause: Cause) -> str:
    """Return what tells a cause from others: not which call of the backend met an outage."""
    if cause.code not in _OUTAGES:
        return cause.message
    root = cause
    while root.because is not None:
        root = root.because
    # A circuit is told as well as what opened it, for the time of its next try.
    is_circuit = cause.code == _CIRCUIT
    return f'{_CIRCUIT if is_circuit else ""}: {root.message.partition(": ")[2]}'


class Drawn:
    """Draws a tree of each cluster with its groups, the last events, and the causes."""

    def __init__(self, live: Any) -> None:
        self._live = live
        self._events: collections.deque[tuple[Event, str]] = collections.deque(maxlen=_EVENTS)

    def show(self, courses: Sequence[Course], events: Sequence[Event]) -> None:
        names = {one.operation.cluster_id: one.name for one in courses}
        # Only the last few events are visible.
        for event in events[-_EVENTS:]:
            self._events.append((event, names.get(event.cluster_id, '')))
        self._live.update(drawing(courses, list(self._events)), refresh=True)


def drawing(courses: Sequence[Course], events: Sequence[tuple[Event, str]]) -> Text:
    """Return the drawing; a pure function."""
    from rich.text import Text

    text = Text(no_wrap=True, overflow='ellipsis')
    for one in courses:
        _draw_cluster(text, one)
    over = all(one.operation.state.ended for one in courses)
    for event, name in () if over else events:
        prefix = f'{name}: ' if len(courses) > 1 else ''
        line = f'  {clock_time(event.at)}  {prefix}{_line(event.message)}\n'
        text.append(line, style='bright_black')
    text.rstrip()
    return text


def _draw_cluster(text: Text, one: Course) -> None:
    operation = one.operation
    text.append(one.name, style='bold')
    text.append(f'  {operation.kind.value} ')
    text.append(one.state, style=_STATES.get(one.state, 'cyan'))
    # Only its driver knows the nodes that an engine of the driver's own builds.
    counted = f'{one.done}/{one.total}  ' if one.groups else ''
    text.append(f'  {counted}{span(one.elapsed_s)}')
    if one.left_s is not None:
        text.append(f', about {span(one.left_s)} left', style='bright_black')
    text.append('\n')
    width = max((len(group.name) for group in one.groups), default=0)
    for group in one.groups:
        last = group is one.groups[-1]
        _draw_group(text, group, width, last=last)
    if not operation.state.ended:
        for cause, nodes in list(one.causes())[:_CAUSES]:
            text.append(f'  {_held(one, nodes)}: ', style='yellow')
            text.append('\n    <- '.join(_messages(cause)) + '\n', style='yellow')
            if advice := hint(cause):
                text.append(f'    -> {_line(advice)}\n', style='cyan')


def _draw_group(text: Text, group: GroupCourse, width: int, *, last: bool) -> None:
    full = _BAR if not group.total else _BAR * group.done // group.total
    text.append(f'{"└─" if last else "├─"} {group.name:<{width}}  ')
    text.append('━' * full, style='green')
    text.append('━' * (_BAR - full), style='bright_black')
    text.append(f'  {group.done}/{group.total} ')
    for state in NodeState:
        if count := group.counts.get(state):
            text.append(f'  {count} {state.value}', style=_COLOURS.get(state, ''))
    text.append('\n')


def _from_before(one: Course, nodes: Sequence[Node]) -> str:
    """Return since when nodes have been so, if that is older than the operation."""
    since = max((node.since for node in nodes), default=one.operation.created_at)
    return f' since {clock_time(since)}' if since < one.operation.created_at else ''


def _held(one: Course, nodes: Sequence[Node]) -> str:
    if not nodes:
        return f'{one.operation.kind.value} {one.operation.state.value}'
    return named(nodes)


def _messages(cause: Cause | None) -> Iterator[str]:
    while cause is not None:
        yield _line(cause.message)
        cause = cause.because


def _line(text: str) -> str:
    return redact(visible(' '.join(text.split())))
