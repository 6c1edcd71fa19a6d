"""Journey of a cluster whose machines a bench plays: the driver polls them as in real life."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.values import Cap
from kiln.cluster_service.requests import Rebuild, Resize, Rotate, Rotated
from kiln.clusters.models import Node
from kiln.clusters.spec import MachineSpec
from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.testing.clock import VirtualClock
from kiln.testing.clusters.machine_bench import MachineBench
from kiln.testing.clusters.road.file import CLUSTER
from kiln.testing.clusters.road.journey import Journey, Step, Traveller, overheard
from kiln.testing.clusters.road.network import Network
from kiln.testing.clusters.road.played_machines import PlayedMachines
from kiln.testing.clusters.road.user_site import UserSite
from kiln.testing.clusters.road.watching import Watch, watched
from kiln.testing.clusters.samples import ChangingSecret

#: Virtual seconds of the work of a node that is to go; less than a drain can take.
WORK_S = 20.0
_ROTATIONS = {
    Cap.ROTATE_CREDENTIAL: (Rotated.CREDENTIAL, 'credentials'),
    Cap.ROTATE_CA_CERTIFICATE: (Rotated.CA_CERTIFICATE, 'certificate'),
}
#: Words of the refusal of a change whose nodes must stay.
_REFUSED = 'the driver allows'


@dataclasses.dataclass(frozen=True, kw_only=True)
class Way:
    """How a journey is made."""

    #: Each call is made on a driver that was just opened.
    fresh: bool = False
    #: Each call is made twice; the first answer is lost.
    twice: bool = False
    #: The first answer of a machine to each request for a change is lost.
    loses: bool = False


@dataclasses.dataclass(kw_only=True)
class MachineJourney(Journey):
    """What has happened; each list has sentences for people, and is empty if all is well."""

    #: Differences between the nodes that kiln has and those that the cluster counts.
    differences: list[str] = dataclasses.field(default_factory=list)
    #: What the bench says is wrong.
    wrongs: list[str] = dataclasses.field(default_factory=list)
    #: Troubles that the driver reports of a cluster that is well.
    troubles: list[str] = dataclasses.field(default_factory=list)
    #: Metrics without a value.
    unknown: list[str] = dataclasses.field(default_factory=list)
    #: What a rotation has not renewed.
    kept: list[str] = dataclasses.field(default_factory=list)
    #: Nodes that went while they had work, or long after it.
    untimely: list[str] = dataclasses.field(default_factory=list)
    #: What the bench does not offer.
    not_offered: list[str] = dataclasses.field(default_factory=list)
    #: Mistakes of the bench.
    mistakes: list[str] = dataclasses.field(default_factory=list)


def travelled(
    folder: Path,
    driver_class: type[NodeClusterDriver],
    bench_class: type[MachineBench],
    network: Network,
    machine: MachineSpec,
    other: MachineSpec,
    counts: Mapping[str, int],
    way: Way,
) -> MachineJourney:
    """Return the journey of a cluster from its file to its deletion.

    :param other: What differs after an upgrade.
    """
    journey, clock, secrets = MachineJourney(), VirtualClock(), ChangingSecret()
    machines = PlayedMachines(bench_class(clock), loses=way.loses)
    watch = Watch(calls=journey.calls, fresh=way.fresh, twice=way.twice)
    used = watched(driver_class, watch)
    site = UserSite(folder, used, secrets=secrets, clock=clock, emptied=machines.empty)
    network.played = machines.at
    try:
        with overheard(journey), network.playing(), site:
            traveller = _Traveller(site, journey, used, machines, secrets)
            watch.before, watch.after = traveller.look, traveller.take
            traveller.go(machine, other, counts)
    finally:
        network.played = None
    journey.untimely += machines.untimely
    journey.mistakes += [repr(one) for one in machines.errors]
    return journey


class _Traveller(Traveller):
    journey: MachineJourney

    def __init__(
        self,
        site: UserSite,
        journey: MachineJourney,
        driver_class: type[NodeClusterDriver],
        machines: PlayedMachines,
        secrets: ChangingSecret,
    ) -> None:
        super().__init__(site, journey, driver_class)
        self._machines, self._secrets = machines, secrets

    # ---- calls of the driver -------------------------------------------------------

    def look(self, method: str, arguments: Mapping[str, Any]) -> None:
        """Let machines boot and stop before a call of the driver."""
        there = {one.id for one in self.site.machines()}
        self._machines.look(arguments['context'].nodes, there)

    def take(self, method: str, arguments: Mapping[str, Any], answer: Any) -> None:
        """Take what a node is given."""
        if method == 'bootstrap':
            self._machines.give(arguments['node'], answer)

    # ---- the way ---------------------------------------------------------------------

    def removal(self, first: str) -> Iterator[Step]:
        """Remove a node by its name while it serves."""
        self._measure()
        if Cap.RESIZE in self.driver.capabilities:
            leaving = self.site.nodes()[-2]
            self._offered(lambda: self._machines.serve(leaving.name, WORK_S))
            yield 'remove a node that serves', Resize(cluster=CLUSTER, remove=(leaving.name,))

    def replaced(self) -> Node:
        """Return the oldest node, whose machine has died."""
        dying = self.site.nodes()[0]
        self._machines.dead.add(dying.name)
        return dying

    def more(self) -> Iterator[Step]:
        """Rebuild the nodes, and rotate what the driver can rotate."""
        can = self.driver.capabilities
        if Cap.REBUILD in can:
            yield 'rebuild', Rebuild(cluster=CLUSTER)
        self._secrets.change()
        for cap, (what, mark) in _ROTATIONS.items():
            if cap in can:
                before = self._offered(getattr(self._machines.bench, mark))
                yield f'rotate the {what.value}', Rotate(cluster=CLUSTER, what=what)
                if before is not None and before == getattr(self._machines.bench, mark)():
                    self.journey.kept.append(f'the {mark}')

    def goes_on(self, title: str) -> bool:
        """Compare what kiln has with what the machines have; go on if the change succeeded."""
        reason = self.journey.steps[title]
        if reason and _REFUSED not in reason:
            return False
        if title != 'delete':
            self._compare(title)
        wrongs = self._machines.bench.wrongs()
        self.journey.wrongs += [f'after "{title}": {one}' for one in wrongs]
        return True

    # ---- what is seen ----------------------------------------------------------------

    def _compare(self, title: str) -> None:
        """Compare kiln's nodes with the cluster's, once the driver has tended it."""
        trouble = self.site.tend()
        if trouble is not None:
            self.journey.troubles.append(f'after "{title}": {trouble.message}')
        ours = {node.name for node in self.site.nodes()}
        counted = self._offered(lambda: set(self._machines.bench.members()))
        for name in () if counted is None else sorted(counted ^ ours):
            where = 'kiln alone' if name in ours else 'the cluster alone'
            self.journey.differences.append(f'after "{title}", {where} has {name}')

    def _measure(self) -> None:
        if Cap.MONITOR in self.driver.capabilities:
            self.journey.unknown += [
                f'{one.metric.name}: {one.reason}'
                for one in self.site.site.metrics(CLUSTER)
                if one.value is None
            ]

    def _offered(self, call: Callable[[], Any]) -> Any:
        """Return what a method of the bench returns; None if the bench does not have it."""
        try:
            return call()
        except CannotBeShown as exc:
            self.journey.not_offered.append(str(exc))
            return None
