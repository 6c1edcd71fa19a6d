"""How a deletion ends: with the proof that nothing is left, or with what is given up.

Nothing is given up but by force, and then each thing is on the receipt, and told of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kiln.clusters.models import Cluster, NodeState, Operation
from kiln.engine.cluster.deletion_proof import Sweep
from kiln.engine.context import Backends
from kiln.engine.nodes.node_table import Member, Roster
from kiln.engine.nodes.transaction import Entry
from kiln.engine.plan.names import build_key
from kiln.engine.results import News

#: Failures in a row after which a forced deletion gives something up.
TRIES = 3


class Burial:
    """Sees to the end of the deletion of one cluster."""

    def __init__(
        self, cluster_id: str, backends: Backends, roster: Roster, tell: Callable[[News], None]
    ) -> None:
        self._sweep = Sweep(cluster_id, backends, tell)
        self._roster = roster
        #: Whether what does not go is given up.
        self.forced = False
        #: No look begins before, by the monotonic clock.
        self._look_at = 0.0

    @property
    def busy(self) -> bool:
        """Whether a look for what is left is under way."""
        return self._sweep.busy

    @property
    def proven(self) -> bool:
        """Whether nothing is left, as far as that can be proven."""
        return self._sweep.proven or (self.forced and self._sweep.in_vain >= TRIES)

    def take_up(self, operation: Operation | None) -> None:
        """See whether it is forced; if so, what has failed so far counts for nothing."""
        self.forced = operation is not None and operation.forced
        if self.forced:
            self._roster.renew()

    def gives_up(self, member: Member) -> bool:
        """Whether nothing more is tried to have a node go."""
        return self.forced and bool(member.node.doomed) and member.tries >= TRIES

    def is_due(self) -> bool:
        """Whether no node is left but those that are given up."""
        return not self._roster.busy and all(map(self.gives_up, self._roster.members()))

    def could_end(self) -> bool:
        """Whether, out of time, it may end: whatever is left was at least told to go."""
        return self.forced and all(
            self.gives_up(member) or member.node.state is NodeState.DELETING
            for member in self._roster.members()
        )

    def may_look(self, moment: float) -> bool:
        """Whether it is time for a look, and none is under way."""
        return not self.busy and moment >= self._look_at

    def look(self, entry: Entry, names: Iterable[str]) -> None:
        """Have backends looked at for what is left, after the commit."""
        # Who does not answer for a node does not answer for the rest either.
        silent = {member.node.backend for member in self._roster.members()}
        asked = [name for name in names if name not in silent]
        self._sweep.busy = True
        entry.launches.append(lambda: self._sweep.look(asked))

    def learn(self, news: News, entry: Entry, *, settle_s: float) -> bool:
        """Take in what was found; return whether to look once more, after ``settle_s``."""
        again = self._sweep.learn(news, entry)
        # What was found takes time to go, and who gave no answer to give one.
        self._look_at = entry.moment + settle_s if self._sweep.in_vain else 0.0
        return again

    def bury(self, entry: Entry, cluster: Cluster, *, driven: bool) -> None:
        """Have the cluster forgotten, and told and written what is given up with it.

        :param driven: its driver was there, so what another engine has made is gone.
        """
        for member in self._roster.members():
            node = member.node
            kind, name = 'server', node.compute_id
            if name is None:
                # Whether there is anything is not known, but what it would be found by.
                kind, name = 'build', build_key(node)
            entry.abandon(node.backend, kind, name, node)
        for backend, amphora_id in self._sweep.left:
            entry.abandon(backend, 'server', amphora_id)
        if cluster.driver_handle is not None and not driven:
            entry.abandon(cluster.pin.name, 'handle', cluster.driver_handle)
        entry.bury(forced=self.forced)
