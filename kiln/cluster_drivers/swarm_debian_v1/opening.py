"""Factories for a cluster's authority, engines and view, from a context."""

from __future__ import annotations

import functools
import ssl

from kiln.cluster_drivers.values import Context
from kiln.clusters.models import Cluster, Node

from .engine import Engine
from .line import TlsLine, trust
from .pki import Authority
from .view import Params, View


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
    tls = _trust(context.join_key(), cluster.id, cluster.created_at)
    return Engine(TlsLine(node, tls), node.address or '')


@functools.lru_cache(maxsize=256)
def _trust(key: bytes, cluster_id: str, since: float) -> ssl.SSLContext:
    # Reading keys takes longer than a request, and each request needs them.
    return trust(Authority(key, cluster_id, since))


def _no_params(context: Context, cluster: Cluster, node: Node) -> dict[str, object]:
    raise AssertionError(f'this view has no parameters for {node.name}')
