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
)

#: Time limit of a call; a backend is reported as silent a second before.
LONGEST_S = 4.0
#: Errors that are answers: of the machine, not of the backend.
_ANSWERS = (InstanceNotFoundError, InvalidRequest)
_Reports = queue.SimpleQueue[tuple[str, BaseException | None]]


def find_outages(backends: Backends, nodes: Iterable[Node]) -> Mapping[str, Cause]:
    """Return by backend of some nodes why their machines cannot be polled now.

    One call for each backend, all at once; blocks for :data:`LONGEST_S` at most. The first
    error counts, or that a call is not answered for a while.
    """
    reports: _Reports = queue.SimpleQueue()
    machines = {node.backend: machine_id(node) for node in nodes if node.compute_id}
    calls = {name: _begin(backends, name, one, reports) for name, one in machines.items()}
    waiting, found = set(calls), {}
    while waiting:
        name, error = reports.get()
        if name in waiting:
            waiting.discard(name)
            if error is not None and not isinstance(error, _ANSWERS):
                found[name] = _unseen(name, error)
                if (call := calls[name]) is not None:
                    # It would be repeated, and nobody waits for that.
                    call.cancel()
    return found


def _begin(backends: Backends, name: str, machine: str, reports: _Reports) -> Any:
    """Call a backend; whatever comes of it is put into the queue of reports."""
    try:
        call: Any = backends.get(name).status(machine, timeout=LONGEST_S)
    except KilnError as exc:
        reports.put((name, exc))
        return None
    call.on_hindrance(functools.partial(_hindered, reports, name))
    call.add_done_callback(lambda done: reports.put((name, done.exception())))
    return call


def _hindered(reports: _Reports, name: str, error: BaseException | None) -> None:
    if error is not None:
        reports.put((name, error))


def _unseen(backend: str, error: BaseException) -> Cause:
    # An error of a call names its machine, which stands for all of them.
    of_call = isinstance(error, AmphoraComputeError)
    cause = hindrance_of(error) if of_call else cause_of(error)
    message = f'the machines on {backend} cannot be polled: {cause.message}'
    inner = cause.because
    if inner is not None and inner.message in message:
        inner = None
    return Cause(code='not_seen', message=message, because=inner)
