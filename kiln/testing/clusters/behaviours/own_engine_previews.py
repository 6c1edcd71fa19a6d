"""Behaviours of previews: what an engine foresees of a change, before anything happens."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from kiln.cluster_drivers.base import ClusterDriver
from kiln.cluster_drivers.calls import call_driver
from kiln.cluster_drivers.values import Cap, Loss
from kiln.cluster_service import requests
from kiln.clusters.exceptions import ClusterDriverError, MissingCapability
from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.testing.clusters.behaviours.own_engine import Nodes, OwnEngine


class Previews(OwnEngine):
    """Previews of changes."""

    def test_a_preview_tells_losses_first(self) -> None:
        self.created()
        lines = self._foreseen(self.declare(self.other_spec()))
        is_loss = [isinstance(line, Loss) for line in lines]
        if True not in is_loss:
            raise CannotBeShown('the engine foresees no loss by what `other` of the bench changes')
        self.assertEqual(sorted(is_loss, reverse=True), is_loss, lines)

    def test_an_update_that_replaces_nodes_is_foreseen_as_a_loss(self) -> None:
        there = self.created()
        self._is_true(self.nodes(there), self.declare(self.other_spec()))

    def test_a_growth_is_foreseen_as_what_it_is(self) -> None:
        there = self.created()
        spec = self.grown(there.spec, self.largest(there.spec), 1)
        self._is_true(self.nodes(there), self.declare(spec))

    def test_an_upgrade_that_replaces_nodes_is_foreseen_as_a_loss(self) -> None:
        self.has(Cap.UPGRADE)
        there = self.created()
        request = requests.Upgrade(cluster=there.name, machine=self.bench.other)
        self._is_true(self.nodes(there), request)

    def _is_true(self, before: Nodes, request: requests.Request) -> None:
        """Fail unless a change loses nodes if, and only if, its preview says so."""
        lost = [line for line in self._foreseen(request) if isinstance(line, Loss)]
        with self.unless_refused():
            self.done(request)
        now = self.now()
        if not all(one.id for one in (*before.values(), *now.values())):
            raise CannotBeShown('the bench does not tell a node from its successor: EngineNode.id')
        kept = {one.id for one in now.values()}
        gone = sorted(name for name, one in before.items() if one.id not in kept)
        if gone and not lost:
            self.fail(f'Nodes {", ".join(gone)} were lost, and preview_cluster returns no Loss.')
        if lost and not gone:
            self.fail(f'Every node is as it was, and preview_cluster returns a Loss: {lost[0]}')

    def _foreseen(self, request: requests.Request) -> Sequence[str]:
        """Return the preview of a change that users ask for."""
        if self.driver_class.preview_cluster is ClusterDriver.preview_cluster:
            self.not_for_this_driver('the driver foresees nothing')
        with self.unless_refused():
            proposal = self.played.clusters.plan(request)
        driver = self.played.open()
        preview = functools.partial(
            driver.preview_cluster,
            context=self.context(),
            cluster=proposal.cluster,
            plan=proposal.change(),
        )
        try:
            found: Sequence[str] = call_driver(driver.name, 'preview_cluster', preview)
        except MissingCapability as exc:
            self.not_for_this_driver(str(exc))
        except ClusterDriverError as exc:
            raise CannotBeShown(f'the engine does not foresee the change: {exc}') from exc
        return found
