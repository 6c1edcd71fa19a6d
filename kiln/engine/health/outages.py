"""Outages of backends, found by the status of one machine of each."""

from __future__ import annotations

import queue
from collections.abc import Collection, Iterable, Mapping
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
#: Time limit of the second call: what is left of that, as the first fails before a silence is
#: reported.
_AGAIN_S = 1.0
#: The code of the report that a call has had no answer for a while.
_SILENT = 'no_answer_so_far'
#: Errors that prove no outage: answers about the machine, and calls that were never sent
#: because kiln itself has too many.
_NO_OUTAGE = (InstanceNotFoundError, InvalidRequest, OperationRejected, OperationTimeout)


def find_outages(
    backends: Backends, nodes: Iterable[Node], known: Collection[str] = ()
) -> Mapping[str, Cause]:
    """Return by backend of some nodes why it does not answer now.

    One call for each backend, all at once; blocks for :data:`LONGEST_S` at most. Where it fails,
    the last machine of the backend is asked for as well, as one machine or one connection can
    break without an outage; not so for a backend whose outage is ``known``.
    """
    machines: dict[str, list[str]] = {}
    for node in nodes:
        if node.compute_id:
            machines.setdefault(node.backend, []).append(machine_id(node))
    # All backends are called before the first one is waited for.
    first = {name: _Call(backends, name, ids[0], LONGEST_S) for name, ids in machines.items()}
    found = {name: error for name, call in first.items() if (error := call.error()) is not None}
    second = {
        name: _Call(backends, name, machines[name][-1], _AGAIN_S)
        for name, error in found.items()
        if name not in known and getattr(error, 'code', '') != _SILENT
    }
    answered = {name for name, call in second.items() if call.error() is None}
    return {name: _cause(error) for name, error in found.items() if name not in answered}


class _Call:
    """A call for the status of a machine, until it has answered, failed once or been silent."""

    def __init__(self, backends: Backends, backend: str, machine: str, limit_s: float) -> None:
        self._call: Any = None
        self._results: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        try:
            self._call = backends.get(backend).status(machine, timeout=limit_s)
        except KilnError as exc:
            self._results.put(exc)
            return
        self._call.on_hindrance(self._hinder)
        self._call.add_done_callback(lambda call: self._results.put(call.exception()))

    def _hinder(self, error: BaseException | None) -> None:
        if error is not None:
            self._results.put(error)

    def error(self) -> BaseException | None:
        """Wait for the result, and return the error if it speaks for an outage."""
        error = self._results.get()
        if self._call is not None:
            # It would be repeated until its time limit.
            self._call.cancel()
        return None if isinstance(error, _NO_OUTAGE) else error


def _cause(error: BaseException) -> Cause:
    # An error of a call names its machine, which stands for all of them.
    of_call = isinstance(error, AmphoraComputeError)
    return hindrance_of(error) if of_call else cause_of(error)
