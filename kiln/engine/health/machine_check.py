"""The machine check of one cluster whose lease is held here, during an operation."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from kiln.clusters.models import Cause
from kiln.engine.health.machine_state import MachinePoller, PollResult, apply, watched
from kiln.engine.nodes.cluster_state import ClusterState
from kiln.engine.plan.lifecycle import cause_of


class MachineCheck:
    """Polls the machines of a cluster and writes what it finds; does nothing else.

    The worker that holds the lease polls the machines itself: no other process can write
    their nodes.
    """

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._poller = MachinePoller(state.parts.backends)
        self._next_at = 0.0
        #: The backends that did not answer the last poll, and why.
        self._silent: Mapping[str, Cause] = {}
        #: True while a poll is under way.
        self.busy = False
        #: The number of polls that have ended.
        self.polls = 0

    def poll_when_due(self) -> None:
        """Start a poll, if it is time for one and there is a machine to poll."""
        now = self._state.tx.monotonic
        if now >= self._next_at and not self.busy:
            self._next_at = now + self._state.parts.settings.watch_s
            if watched(self._state.nodes.nodes()):
                self.poll()

    def poll(self) -> None:
        """Start a poll after the commit."""
        self.busy = True
        poll = functools.partial(self._poller.poll, self._state.nodes.nodes(), self._report)
        self._state.tx.launches.append(functools.partial(self._state.call, poll, self._take))

    def _report(self, backend: str, cause: Cause | None) -> None:
        """Log why a backend does not answer, and have the operation under way show it."""
        self._state.parts.outages.report(backend, cause)
        if cause is not None:
            self._state.call_soon(functools.partial(self._delay, backend, cause))

    def _delay(self, backend: str, cause: Cause) -> None:
        if self.busy:
            self._silent = {**self._silent, backend: cause}

    def _take(self, found: PollResult | None, error: BaseException | None) -> None:
        self.busy, self.polls = False, self.polls + 1
        if error is not None:
            found = PollResult(silent={'': cause_of(error)})
        assert found is not None
        self._silent = found.silent
        apply(self._state.tx, self._state.nodes, found.polled)
        self._state.nodes.replan = True

    @property
    def cause(self) -> Cause | None:
        """Why some machines could not be polled; None if all were."""
        if not self._silent:
            return None
        count = len(self._silent)
        return Cause(
            code='not_seen',
            message=f'Cannot poll all machines: {count} backends did not answer.',
            hint='The states of their nodes were left unchanged. Check again later.',
            because=next(iter(self._silent.values())),
        )
