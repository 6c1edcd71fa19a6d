"""Behaviours of bootstrap data: the same for an attempt, wherever and whenever it is asked for."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.clusters.models import Cluster, Node, NodeState
from kiln.testing.clusters import samples
from kiln.testing.clusters.fingerprint import absolute, fingerprints
from kiln.testing.clusters.fixture import ClusterFixture
from kiln.testing.shared_results import SharedResults

_PROGRAM = 'from kiln.testing.clusters.fingerprint import main; main()'
#: Starting another process can be slow on a busy machine.
_LONGEST_S = 600
#: What is different where the same is asked for.
_DIFFERENT = ('environment', 'working directory', 'host name', 'time of day')
NOTHING, ORDER = 'nothing', 'order'
#: Fingerprints in other processes, by what is different, for each subject.
_FOUND: SharedResults[Mapping[str, Mapping[str, str]]] = SharedResults()


class BootstrapFixture(ClusterFixture):
    """Bootstrap data of nodes, in this process and in others."""

    def two_clusters(self, opened: NodeClusterDriver) -> Sequence[Cluster]:
        """Return two clusters of the same groups."""
        first = self.a_whole(opened)
        return first, dataclasses.replace(first, id='kit-2', name='kit-2')

    def here(self, opened: NodeClusterDriver, clusters: Sequence[Cluster]) -> Mapping[str, str]:
        """Return the fingerprints in this process."""
        with self.network.playing():
            return fingerprints(opened, clusters)

    def elsewhere(self, clusters: Sequence[Cluster]) -> Mapping[str, Mapping[str, str]]:
        """Return the fingerprints in other processes, by what is different in each."""
        key = repr((self.driver, clusters))
        return _FOUND.get(key, lambda: self._asked_for(clusters))

    def _asked_for(self, clusters: Sequence[Cluster]) -> Mapping[str, Mapping[str, str]]:
        groups = [[], *([one] for one in (*_DIFFERENT, ORDER))]
        environment = {
            **os.environ,
            # An order that depends on hashing differs under this seed.
            'PYTHONHASHSEED': '4711',
            'PYTHONPATH': os.pathsep.join(map(os.path.abspath, sys.path)),
        }
        done = subprocess.run(  # noqa: S603  # this interpreter
            [sys.executable, '-c', _PROGRAM, absolute(self.driver), json.dumps(groups)],
            env=environment, timeout=_LONGEST_S, capture_output=True, check=False,
            input=pickle.dumps(clusters),
        )  # fmt: skip
        self.assertEqual(0, done.returncode, done.stderr.decode())
        # What the driver prints comes first.
        found = json.loads(done.stdout.decode().splitlines()[-1])
        return dict(zip((NOTHING, *_DIFFERENT, ORDER), found, strict=True))


class SameAnswer(BootstrapFixture):
    """Same answer."""

    def test_bootstrap_is_the_same_in_another_process(self) -> None:
        opened = self.nodes_driver()
        clusters = self.two_clusters(opened)
        here, found = self.here(opened, clusters), self.elsewhere(clusters)
        differs = [one for one in (NOTHING, *_DIFFERENT) if here != found[one]]
        if differs:
            where = 'in each process' if NOTHING in differs else f'with the {", ".join(differs)}'
            self.fail(
                f'What a node is given differs {where}: after a crash kiln asks again, '
                f'elsewhere, and repeats the build with the answer.'
            )

    def test_bootstrap_of_an_attempt_stays_the_same_when_the_cluster_changes(self) -> None:
        opened = self.nodes_driver()
        cluster = self.a_whole(opened)
        nodes = samples.nodes_of(cluster)
        for node in nodes:
            before = self.given_to(opened, cluster, node)
            for change, later, others in _changes(cluster, nodes, node):
                after = self.given_to(opened, later, node, others)
                self.assertEqual(before, after, f'{node.name} is given something else {change}')


def _changes(
    cluster: Cluster, nodes: Sequence[Node], node: Node
) -> Iterator[tuple[str, Cluster, Sequence[Node]]]:
    """Yield what can happen to a cluster while one of its nodes is built.

    The oldest node stays as it is: others can need its address.
    """
    later = dataclasses.replace(cluster, generation=7, updated_at=9.0, outputs={'kit': 'kit'})
    yield 'once the cluster has another generation', later, nodes
    groups = tuple(
        dataclasses.replace(one, shape=dataclasses.replace(one.shape, count=one.shape.count + 2))
        for one in cluster.spec.groups
    )
    spec = dataclasses.replace(cluster.spec, groups=groups)
    yield 'once its groups have other counts', dataclasses.replace(cluster, spec=spec), nodes
    young = samples.node(cluster.id, len(nodes) + 1)
    yield 'once the cluster has another node', cluster, [*nodes, young]
    yield 'if its nodes are in another order', cluster, [*reversed(nodes)]
    oldest = nodes[0]
    left = [one for one in nodes if one.id in (oldest.id, node.id)]
    yield 'once younger nodes are gone', cluster, left
    changed: dict[str, Any] = {'state': NodeState.UNHEALTHY, 'doomed': 'asked for', 'since': 99.0}
    others = [
        one if one.id in (oldest.id, node.id) else dataclasses.replace(one, **changed)
        for one in nodes
    ]
    yield 'once other nodes are unhealthy', cluster, others
    begun: dict[str, Any] = {'state': NodeState.BUILDING, 'compute_id': None, 'address': None}
    building = [
        dataclasses.replace(one, **begun) if one.id == node.id != oldest.id else one
        for one in nodes
    ]
    yield 'while its own machine has no address', cluster, building
