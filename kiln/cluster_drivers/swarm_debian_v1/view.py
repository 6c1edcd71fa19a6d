"""View of a cluster for one call of the driver: its nodes and their engines."""

from __future__ import annotations

import contextlib
import functools
import ssl
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from kiln.clock import SYSTEM_CLOCK
from kiln.cluster_drivers.values import Context
from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.models import Cluster, Node

from . import rules
from .engine import Engine
from .line import Refused, Silent, TlsLine, trust
from .pki import PERIOD_S, Authority, Papers
from .values import GROUP, NODE, ZONE, EngineInfo, Membership, Role

#: The role of the groups that kiln's engine builds first.
CONTROL = 'control'

Params = Callable[[Context, Cluster, Node], Mapping[str, Any]]
Open = Callable[[Context, Cluster, Node], Engine]


class NoManager(ClusterDriverError):
    """No manager answers with a quorum; ``seen`` has the states that engines reported."""

    code = 'no_manager'
    retryable = True
    seen: Mapping[str, EngineInfo] = MappingProxyType({})
    remedy = 'Bring a majority of the managers back, or see "kiln x swarm_debian_v1 recover".'


class View:
    """A cluster at one point in time; used by one thread."""

    def __init__(self, context: Context, cluster: Cluster, params: Params, open_: Open) -> None:
        self.context, self.cluster = context, cluster
        self._params, self._open = params, open_

    # ---- nodes -------------------------------------------------------------------

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All existing nodes."""
        return self.context.nodes

    @property
    def managers(self) -> list[Node]:
        """The nodes that should be managers, the oldest first."""
        return rules.by_age(one for one in self.nodes if self.role(one) is Role.MANAGER)

    @property
    def ending(self) -> bool:
        """True if all managers, and so the swarm, are to be removed."""
        return all(one.doomed or one.state.leaving for one in self.managers)

    def role(self, node: Node) -> Role:
        """Return the desired role of a node."""
        group = self.context.group(self.cluster, node.group)
        return Role.MANAGER if group.role == CONTROL else Role.WORKER

    def availability(self, node: Node) -> str:
        """Return the desired availability of a node."""
        return str(self._params(self.context, self.cluster, node)['availability'])

    def labels(self, node: Node) -> Mapping[str, str]:
        """Return the desired labels of a node in the swarm."""
        own = self._params(self.context, self.cluster, node)['labels'] or {}
        zone = {ZONE: node.place.zone} if node.place.zone else {}
        return {**{name: str(own[name]) for name in own}, **zone, GROUP: node.group, NODE: node.id}

    def papers(self, node: Node) -> Papers:
        """Return the certificate authority of a node, with which it certifies itself.

        :raises ClusterError: the cluster's key is not available.
        """
        manages = self.role(node) is Role.MANAGER
        return authority_of(self.context, self.cluster).for_node(node, by_address=manages)

    # ---- engines -----------------------------------------------------------------

    def engine(self, node: Node) -> Engine:
        """Return the client of a node's engine; send no request."""
        return self._open(self.context, self.cluster, node)

    @contextlib.contextmanager
    def manager(self, *, besides: Node | None = None) -> Iterator[Engine]:
        """Open a manager with a quorum, the oldest that answers.

        :raises NoManager: no manager answers with a quorum.
        """
        seen: dict[str, EngineInfo] = {}
        reasons: list[str] = []
        for node in self.managers:
            if not node.address or (besides is not None and node.id == besides.id):
                continue
            with self.engine(node) as engine:
                try:
                    seen[node.id] = info = engine.info()
                    reason = f'{node.name} does not manage a swarm (state {info.membership})'
                    if info.membership is Membership.ACTIVE and info.manages:
                        engine.swarm()
                        reason = ''
                except (Silent, Refused) as exc:
                    reason = exc.reason.rstrip('.')
                if not reason:
                    yield engine
                    return
                reasons.append(reason)
        error = NoManager(f'No manager answers: {"; ".join(reasons) or "none exists"}.')
        error.seen = seen
        raise error

    def works(self) -> bool:
        """Return True if a manager with a quorum answers."""
        with contextlib.suppress(NoManager), self.manager():
            return True
        return False


def authority_of(context: Context, cluster: Cluster) -> Authority:
    """Return the certificate authority of a cluster.

    :raises ClusterError: the cluster's key is not available.
    """
    return Authority(context.join_key(), cluster.id, cluster.created_at)


def view_of(context: Context, cluster: Cluster, params: Params | None = None) -> View:
    """Return the view of a cluster for one call; send no request."""
    return View(context, cluster, params or _no_params, open_engine)


def open_engine(context: Context, cluster: Cluster, node: Node) -> Engine:
    """Return the client of a node's engine; send no request."""
    period = SYSTEM_CLOCK.time() // PERIOD_S
    tls = _trust(context.join_key(), cluster.id, cluster.created_at, period)
    return Engine(TlsLine(node, tls), node.address or '')


@functools.lru_cache(maxsize=256)
def _trust(key: bytes, cluster_id: str, since: float, period: float) -> ssl.SSLContext:
    # Reading keys takes longer than a request, and each request needs them.
    return trust(Authority(key, cluster_id, since), period * PERIOD_S)


def _no_params(context: Context, cluster: Cluster, node: Node) -> dict[str, object]:
    raise AssertionError(f'this view has no parameters for {node.name}')
