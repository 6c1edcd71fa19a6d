"""The check operation: polls the machines of a cluster whose lease is held here."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kiln.clusters.models import Cause, Node
from kiln.engine.health.machine_state import MachinePoller, PollResult, apply
from kiln.engine.nodes.node_table import NodeTable
from kiln.engine.nodes.transaction import Transaction
from kiln.engine.plan.lifecycle import ActionKind, cause_of
from kiln.engine.results import ActionResult


class Check:
    """Polls the machines of a cluster and writes what it finds; does nothing else."""

    def __init__(
        self,
        cluster_id: str,
        poller: MachinePoller,
        run: Callable[[Callable[[], None]], Any],
        tell: Callable[[ActionResult], None],
    ) -> None:
        self._cluster_id = cluster_id
        self._poller = poller
        self._run = run
        self._tell = tell
        self._seen: PollResult | None = None
        #: The backends that did not answer the last poll, and why.
        self.silent: Mapping[str, Cause] = {}
        #: True while a poll is under way.
        self.busy = False

    def learn(self, news: ActionResult) -> None:
        """Take in the result of a poll."""
        self.busy = False
        failed = PollResult(silent={'': cause_of(news.error)}) if news.error is not None else None
        self._seen = failed or news.value

    def look(self, tx: Transaction, nodes: Sequence[Node]) -> None:
        """Start a poll, unless one is under way."""
        if not self.busy:
            self.busy = True
            look = functools.partial(self._look, nodes)
            tx.launches.append(functools.partial(self._run, look))

    def apply(self, tx: Transaction, table: NodeTable) -> bool:
        """Write the result of the last poll, once; return whether there was one."""
        seen, self._seen = self._seen, None
        if seen is not None:
            self.silent = seen.silent
            apply(tx, table, seen.polled)
        return seen is not None

    @property
    def cause(self) -> Cause | None:
        """Why some machines could not be polled; None if all were."""
        if not self.silent:
            return None
        count = len(self.silent)
        return Cause(
            code='not_seen',
            message=f'Cannot poll all machines: {count} backends did not answer.',
            hint='The states of their nodes were left unchanged. Check again later.',
            because=next(iter(self.silent.values())),
        )

    def _look(self, nodes: Sequence[Node]) -> None:
        try:
            news = ActionResult(
                self._cluster_id, act=ActionKind.LOOK, value=self._poller.look(nodes)
            )
        # Whatever fails, the round must receive a result, so that it stops waiting.
        except Exception as exc:
            news = ActionResult(self._cluster_id, act=ActionKind.LOOK, error=exc)
        self._tell(news)
