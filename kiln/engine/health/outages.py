"""Outages of backends, found by the status of one machine of each."""

from __future__ import annotations

import functools
import queue
from collections.abc import Iterable, Mapping
from typing import Any

from kiln.clusters.models import Cause, Node
from kiln.engine.context import Backends
from kiln.engine.plan.lifecycle import cause_of, hindrance_of
from kiln.engine.plan.names import machine_id
from kiln.exceptions import (
    AmphoraComputeError,
    InstanceNotFoundError,
    InvalidRequest,
    KilnError,
    OperationRejected,
    OperationTimeout,
)

#: Time limit of a call; a backend is reported as silent a second before.
LONGEST_S = 4.0
#: The code of the report that a call has had no answer for a while.
_SILENT = 'no_answer_so_far'
#: Errors that prove no outage: answers about the machine, and calls that were never sent
#: because kiln itself has too many.
_NO_OUTAGE = (InstanceNotFoundError, InvalidRequest, OperationRejected, OperationTimeout)
_Reports = queue.SimpleQueue[tuple[str, BaseException | None]]


def find_outages(backends: Backends, nodes: Iterable[Node]) -> Mapping[str, Cause]:
    """Return by backend of some nodes why it does not answer now.

    One call for each backend, all at once; blocks for :data:`LONGEST_S` at most. A call that
    fails is repeated once, soon: a connection can break without an outage.
    """
    reports: _Reports = queue.SimpleQueue()
    machines = {node.backend: machine_id(node) for node in nodes if node.compute_id}
    calls = {name: _begin(backends, name, one, reports) for name, one in machines.items()}
    waiting, found = set(calls), {}
    while waiting:
        name, error = reports.get()
        if name not in waiting:
            continue
        waiting.discard(name)
        if (call := calls[name]) is not None:
            # Otherwise it would be repeated until its time limit.
            call.cancel()
        if error is not None and not isinstance(error, _NO_OUTAGE):
            # An error of a call names its machine, which stands for all of them.
            of_call = isinstance(error, AmphoraComputeError)
            found[name] = hindrance_of(error) if of_call else cause_of(error)
    return found


def _begin(backends: Backends, name: str, machine: str, reports: _Reports) -> Any:
    """Call a backend; whatever comes of it is put into the queue of reports."""
    try:
        call: Any = backends.get(name).status(machine, timeout=LONGEST_S)
    except KilnError as exc:
        reports.put((name, exc))
        return None
    call.on_hindrance(functools.partial(_hindered, reports, name, []))
    call.add_done_callback(lambda done: reports.put((name, done.exception())))
    return call


def _hindered(
    reports: _Reports, name: str, earlier: list[BaseException], error: BaseException | None
) -> None:
    """Report a silence at once, and any other error if it is not the first one."""
    if error is None:
        return
    if earlier or getattr(error, 'code', '') == _SILENT:
        reports.put((name, error))
    earlier.append(error)
