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
#: The code of the report that a call has had no answer for a while.
_SILENT = 'no_answer_so_far'
#: Errors that prove no outage: answers about the machine, and calls that were never sent
#: because kiln itself has too many.
_NO_OUTAGE = (InstanceNotFoundError, InvalidRequest, OperationRejected, OperationTimeout)


def find_outages(
    backends: Backends, nodes: Iterable[Node], known: Collection[str] = ()
) -> Mapping[str, Cause]:
    """Return by backend of some nodes why it does not answer now.

    One call for each backend, all at once; blocks for :data:`LONGEST_S` at most. A call that
    fails is repeated once, soon, because a connection can break without an outage; it is not
    repeated for a backend whose outage is ``known``.
    """
    machines = {node.backend: machine_id(node) for node in nodes if node.compute_id}
    checks = [_Check(name, repeats=name not in known) for name in machines]
    # All backends are called before the first one is waited for.
    for check in checks:
        check.begin(backends, machines[check.backend])
    found = {check.backend: check.outage() for check in checks}
    return {name: cause for name, cause in found.items() if cause is not None}


class _Check:
    """The call of one backend, until it has answered or failed."""

    def __init__(self, backend: str, *, repeats: bool) -> None:
        self.backend = backend
        self._repeats = repeats
        self._call: Any = None
        self._results: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def begin(self, backends: Backends, machine: str) -> None:
        try:
            self._call = backends.get(self.backend).status(machine, timeout=LONGEST_S)
        except KilnError as exc:
            self._results.put(exc)
            return
        self._call.on_hindrance(self._hinder)
        self._call.add_done_callback(lambda call: self._results.put(call.exception()))

    def _hinder(self, error: BaseException | None) -> None:
        if error is None:
            return
        # A silence has lasted long enough.
        if self._repeats and getattr(error, 'code', '') != _SILENT:
            self._repeats = False
        else:
            self._results.put(error)

    def outage(self) -> Cause | None:
        """Wait for the result, and return why the backend does not answer, if so."""
        error = self._results.get()
        if self._call is not None:
            # It would be repeated until its time limit.
            self._call.cancel()
        if error is None or isinstance(error, _NO_OUTAGE):
            return None
        # An error of a call names its machine, which stands for all of them.
        of_call = isinstance(error, AmphoraComputeError)
        return hindrance_of(error) if of_call else cause_of(error)
