"""Fingerprint of the bootstrap data of nodes, to compare between processes."""

from __future__ import annotations

import hashlib
import pickle
import sys

from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.clusters.models import Cluster
from kiln.testing.clusters import samples
from kiln.testing.clusters.subjects import find_driver


def fingerprint(driver: NodeClusterDriver, cluster: Cluster) -> str:
    """Return a digest of all that the nodes of a cluster are given."""
    whole = hashlib.sha256()
    for number in (1, 2):
        node = samples.node(cluster.id, number)
        given = driver.bootstrap(context=samples.context(node), cluster=cluster, node=node)
        whole.update(given.user_data or b'')
        for file in given.files:
            whole.update(repr(file).encode() + file.content)
        whole.update((given.join_token or '').encode())
    return whole.hexdigest()


def main() -> None:
    """Print the fingerprint of a driver for a cluster, which is pickled on stdin."""
    driver = find_driver(sys.argv[1]).open()
    cluster = pickle.load(sys.stdin.buffer)  # noqa: S301  # from the kit itself
    assert isinstance(driver, NodeClusterDriver)
    sys.stdout.write(fingerprint(driver, cluster))
