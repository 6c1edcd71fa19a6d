"""Journey of one cluster whose machines a bench plays: the driver polls them as in real life."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.values import Cap
from kiln.cluster_service.requests import (
    Delete,
    Reboot,
    Rebuild,
    Replace,
    Request,
    Resize,
    Rotate,
    Rotated,
    Upgrade,
)
from kiln.clusters.models import Node, OperationState
from kiln.clusters.spec import MachineSpec
from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.exceptions import KilnError
from kiln.testing.clock import VirtualClock
from kiln.testing.clusters.machine_bench import MachineBench
from kiln.testing.clusters.road.file import CLUSTER, cluster_file
from kiln.testing.clusters.road.network import Network
from kiln.testing.clusters.road.played_machines import PlayedMachines
from kiln.testing.clusters.road.user_site import UserSite
from kiln.testing.clusters.road.watching import Watch, watched
from kiln.testing.clusters.samples import SECRET, Secret

#: Virtual seconds of the work of a node that is to go; less than a drain can take.
WORK_S = 20.0
_ROTATIONS = {
    Cap.ROTATE_CREDENTIAL: (Rotated.CREDENTIAL, 'credentials'),
    Cap.ROTATE_CA_CERTIFICATE: (Rotated.CA_CERTIFICATE, 'certificate'),
}
#: Words of the refusal of a change whose nodes must stay.
_REFUSED = 'the driver allows'


@dataclasses.dataclass(kw_only=True)
class MachineJourney:
    """What has happened to a cluster; each list has sentences for people, and is empty if well."""

    #: Changes that have not succeeded, with the reason.
    failures: list[str] = dataclasses.field(default_factory=list)
    #: Differences between the nodes that kiln has and those that the cluster counts.
    differences: list[str] = dataclasses.field(default_factory=list)
    #: What the bench says is wrong.
    wrongs: list[str] = dataclasses.field(default_factory=list)
    #: Troubles that the driver reports of a cluster that is well.
    troubles: list[str] = dataclasses.field(default_factory=list)
    #: Metrics without a value.
    unknown: list[str] = dataclasses.field(default_factory=list)
    #: Verbs that ended with an error, with the error.
    refusals: list[str] = dataclasses.field(default_factory=list)
    #: What a rotation has not renewed.
    kept: list[str] = dataclasses.field(default_factory=list)
    #: Nodes that went while they had work.
    interrupted: list[str] = dataclasses.field(default_factory=list)
    #: What the bench does not offer.
    not_offered: list[str] = dataclasses.field(default_factory=list)
    #: Mistakes of the bench.
    mistakes: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Way:
    """How a journey is made."""

    #: Each call is made twice, on a driver that was just opened; the first answer is lost.
    repeated: bool = False
    #: The first answer of a machine to each request for a change is lost.
    loses: bool = False


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
    """Return the journey of a cluster from its file to its deletion."""
    clock = VirtualClock()
    machines = PlayedMachines(bench_class(clock), loses=way.loses)
    secrets = _Changing()
    watch = Watch(fresh=way.repeated, twice=way.repeated)
    used = watched(driver_class, watch)
    site = UserSite(folder, used, secrets=secrets, clock=clock, emptied=machines.empty)
    network.played = machines.at
    try:
        with network.playing(), site:
            traveller = _Traveller(site, machines, used, secrets)
            watch.before = traveller.look
            watch.after = traveller.take
            traveller.go(machine, other, counts)
    finally:
        network.played = None
    return traveller.journey


class _Changing(Secret):
    """Secrets that operators can change."""

    def change(self) -> None:
        self._value = f'{SECRET}-new'


class _Traveller:
    def __init__(
        self,
        site: UserSite,
        machines: PlayedMachines,
        driver_class: type[NodeClusterDriver],
        secrets: _Changing,
    ) -> None:
        self._site, self._machines, self._driver = site, machines, driver_class
        self._secrets = secrets
        self.journey = MachineJourney()

    # ---- calls of the driver -------------------------------------------------------

    def look(self, method: str, arguments: Mapping[str, Any]) -> None:
        """Let machines boot and stop before a call of the driver."""
        there = {one.id for one in self._site.machines()}
        self._machines.look(arguments['context'].nodes, there)

    def take(self, method: str, arguments: Mapping[str, Any], answer: Any) -> None:
        """Take what a node is given."""
        if method == 'bootstrap':
            self._machines.give(arguments['node'], answer)

    # ---- the way ---------------------------------------------------------------------

    def go(self, machine: MachineSpec, other: MachineSpec, counts: Mapping[str, int]) -> None:
        """Make the journey; it ends where a change does not succeed."""
        for title, change in self._changes(machine, other, counts):
            if not self._done(title, change):
                break
            self._compare(title)
        self.journey.interrupted += self._machines.interrupted
        self.journey.mistakes += [repr(one) for one in self._machines.errors]

    def _changes(
        self, machine: MachineSpec, other: MachineSpec, counts: Mapping[str, int]
    ) -> Iterator[tuple[str, str | Request]]:
        """Yield each change with its title; what the driver cannot do is left out."""
        can, last = self._driver.capabilities, list(counts)[-1]
        yield 'create', cluster_file(self._driver, machine, counts)
        self._ask()
        more = {**counts, last: counts[last] + 1}
        yield 'grow', cluster_file(self._driver, machine, more)
        if Cap.RESIZE in can:
            leaving = self._nodes()[-2]
            self._offered(lambda: self._machines.serve(leaving.name, WORK_S))
            yield 'remove a node that serves', Resize(cluster=CLUSTER, remove=(leaving.name,))
        dying = self._nodes()[0]
        self._machines.dead.add(dying.name)
        yield 'replace a dead node', Replace(cluster=CLUSTER, nodes=(dying.id,))
        if Cap.UPGRADE in can:
            yield 'upgrade', Upgrade(cluster=CLUSTER, machine=other)
        if Cap.REBOOT in can:
            yield 'reboot', Reboot(cluster=CLUSTER)
        if Cap.REBUILD in can:
            yield 'rebuild', Rebuild(cluster=CLUSTER)
        self._secrets.change()
        for cap, (what, mark) in _ROTATIONS.items():
            if cap in can:
                yield from self._rotated(what, getattr(self._machines.bench, mark))
        yield 'delete', Delete(cluster=CLUSTER)

    def _rotated(
        self, what: Rotated, mark: Callable[[], str]
    ) -> Iterator[tuple[str, str | Request]]:
        before = self._offered(mark)
        title = f'rotate the {what.value}'
        yield title, Rotate(cluster=CLUSTER, what=what)
        if before is not None and before == mark():
            self.journey.kept.append(f'{mark.__name__}, after "{title}"')

    def _done(self, title: str, change: str | Request) -> bool:
        """Make a change; return True if it has succeeded, or if nodes of it must stay."""
        try:
            made = self._site.up if isinstance(change, str) else self._site.request
            operation = made(change)  # type: ignore[arg-type]
        except KilnError as exc:
            refused = isinstance(change, Resize) and _REFUSED in str(exc)
            self.journey.failures += [] if refused else [f'{title}: {exc}']
            return refused
        if operation.state is OperationState.SUCCEEDED:
            return True
        cause = operation.cause
        reasons = []
        while cause is not None:
            reasons.append(cause.message)
            cause = cause.because
        self.journey.failures.append(f'{title}: {": ".join(reasons) or operation.state.value}')
        return False

    # ---- what is seen ----------------------------------------------------------------

    def _nodes(self) -> tuple[Node, ...]:
        return self._site.nodes()

    def _compare(self, title: str) -> None:
        """Compare kiln's nodes with the cluster's, once the driver has tended it."""
        if title != 'delete':
            trouble = self._site.tend()
            if trouble is not None:
                self.journey.troubles.append(f'after "{title}": {trouble.message}')
            ours = {node.name for node in self._nodes()}
            counted = self._offered(lambda: set(self._machines.bench.members()))
            for name in () if counted is None else sorted(counted ^ ours):
                where = 'kiln alone' if name in ours else 'the cluster alone'
                self.journey.differences.append(f'after "{title}", {where} has {name}')
        wrongs = self._machines.bench.wrongs()
        self.journey.wrongs += [f'after "{title}": {one}' for one in wrongs]

    def _ask(self) -> None:
        """Measure the cluster, and run each verb that needs no certain argument."""
        if Cap.MONITOR in self._driver.capabilities:
            readings = self._site.site.metrics(CLUSTER)
            self.journey.unknown += [
                f'{one.metric.name}: {one.reason}' for one in readings if one.value is None
            ]
        for name, verb in self._driver.verbs.items():
            if any(one.required for one in verb.parameters):
                continue
            try:
                self._site.site.run_verb(self._driver.name, name, CLUSTER, {})
            except KilnError as exc:
                self.journey.refusals.append(f'{name}: {exc}')

    def _offered(self, call: Callable[[], Any]) -> Any:
        """Return what a method of the bench returns; None if the bench does not have it."""
        try:
            return call()
        except CannotBeShown as exc:
            self.journey.not_offered.append(str(exc))
            return None
