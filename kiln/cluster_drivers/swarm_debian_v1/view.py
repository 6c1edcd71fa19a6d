"""A cluster as one call of the driver sees it: its nodes, and ways to their engines."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kiln.cluster_drivers.values import Context
from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.models import Cluster, Node

from . import rules
from .engine import Engine
from .line import Refused, Silent
from .values import GROUP, NODE, ZONE, EngineInfo, Membership, Role

#: Groups of this role are those that the engine of kiln makes first.
CONTROL = 'control'

Params = Callable[[Context, Cluster, Node], Mapping[str, Any]]
Open = Callable[[Context, Cluster, Node], Engine]


class NoManager(ClusterDriverError):
    """No manager can be asked; ``seen`` is what the engines of some said of themselves."""

    code = 'no_manager'
    remedy = 'Bring a majority of the managers back, or see "kiln x swarm_debian_v1 recover".'

    def __init__(self, reason: str, hint: str = '', retryable: bool = True) -> None:
        super().__init__(reason, hint, retryable)
        self.seen: Mapping[str, EngineInfo] = {}


class View:
    """One cluster at one moment; used by one thread."""

    def __init__(self, context: Context, cluster: Cluster, params: Params, open_: Open) -> None:
        self.context, self.cluster = context, cluster
        self._params, self._open = params, open_

    # ---- its nodes ---------------------------------------------------------------

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All that are not gone."""
        return self.context.nodes

    @property
    def managers(self) -> list[Node]:
        """Those that are to be managers, the oldest first."""
        return rules.by_age(one for one in self.nodes if self.role(one) is Role.MANAGER)

    @property
    def ending(self) -> bool:
        """Whether every manager is to go, and the swarm with them."""
        return all(one.doomed or one.state.leaving for one in self.managers)

    def role(self, node: Node) -> Role:
        """Return what a node is to be."""
        group = self.context.group(self.cluster, node.group)
        return Role.MANAGER if group.role == CONTROL else Role.WORKER

    def availability(self, node: Node) -> str:
        """Return whether a node is to take tasks."""
        return str(self._params(self.context, self.cluster, node)['availability'])

    def labels(self, node: Node) -> Mapping[str, str]:
        """Return the labels that a node is to have in the swarm."""
        own = self._params(self.context, self.cluster, node)['labels'] or {}
        zone = {ZONE: node.place.zone} if node.place.zone else {}
        return {**{name: str(own[name]) for name in own}, **zone, GROUP: node.group, NODE: node.id}

    # ---- their engines -----------------------------------------------------------

    def engine(self, node: Node) -> Engine:
        """Return a way to the engine of a node; nothing is asked yet."""
        return self._open(self.context, self.cluster, node)

    @contextlib.contextmanager
    def manager(self, *, besides: Node | None = None) -> Iterator[Engine]:
        """Give a manager that has a quorum behind it, the oldest that answers.

        :raises NoManager: there is none.
        """
        seen: dict[str, EngineInfo] = {}
        reasons: list[str] = []
        for node in self.managers:
            if not node.address or (besides is not None and node.id == besides.id):
                continue
            with self.engine(node) as engine:
                try:
                    seen[node.id] = info = engine.info()
                    if info.membership is Membership.ACTIVE and info.manages:
                        engine.swarm()
                        found = True
                    else:
                        reasons.append(f'{node.name} is {info.membership} in no swarm yet')
                        found = False
                except (Silent, Refused) as exc:
                    reasons.append(exc.reason.rstrip('.'))
                    found = False
                if found:
                    yield engine
                    return
        error = NoManager(f'No manager can be asked: {"; ".join(reasons) or "there is none"}.')
        error.seen = seen
        raise error

    def works(self) -> bool:
        """Return whether there is a manager with a quorum behind it."""
        with contextlib.suppress(NoManager), self.manager():
            return True
        return False
