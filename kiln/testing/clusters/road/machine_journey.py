"""Journey of a cluster whose machines a bench plays: the driver polls them as in real life."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kiln.clock import Deadline, deadline_scope
from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.values import Cap, ReadyState
from kiln.cluster_service.requests import Rebuild, Replace, Resize, Rotate, Rotated
from kiln.clusters.exceptions import ClusterDriverDefect, ClusterError
from kiln.clusters.models import Node, NodeState
from kiln.clusters.spec import MachineSpec
from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.engine.nodes.join_key import known_key
from kiln.exceptions import KilnError
from kiln.testing.clock import VirtualClock
from kiln.testing.clusters import samples
from kiln.testing.clusters.machine_bench import MachineBench
from kiln.testing.clusters.road.file import CLUSTER, DRAIN_S, LONGEST_S
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
#: How often a cluster is tended again whose machines refuse and lose requests.
_TRIES = 11
#: Virtual seconds in which a cluster is deleted, whatever work its nodes have.
_DELETED_S = DRAIN_S / 2
#: Virtual seconds in which a node among dead ones could do harm.
_ALONE_S = 60.0
#: How often the oldest node is polled in that time.
_POLLS = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Way:
    """How a journey is made."""

    #: Each call is made on a driver that was just opened.
    fresh: bool = False
    #: It ends once the cluster was created.
    creation_only: bool = False
    #: Each call is made twice; the first answer is lost.
    twice: bool = False
    #: Machines refuse requests at first, and lose answers; one never comes up.
    troubled: bool = False


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
    #: Nodes that were ready before the cluster counted them.
    early: list[str] = dataclasses.field(default_factory=list)
    #: What is told of the cluster, and is not what the bench says.
    mistold: list[str] = dataclasses.field(default_factory=list)
    #: Nodes that the cluster lost while their machines ran, and that nobody brought back.
    lost: list[str] = dataclasses.field(default_factory=list)
    #: What is measured although no machine answers.
    stale: list[str] = dataclasses.field(default_factory=list)
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
    machines = PlayedMachines(bench_class(clock), troubled=way.troubled)
    watch = Watch(calls=journey.calls, fresh=way.fresh, twice=way.twice)
    used = watched(driver_class, watch)
    site = UserSite(folder, used, secrets=secrets, clock=clock, emptied=machines.empty)
    network.played = machines.at
    try:
        with overheard(journey), network.playing(), site:
            traveller = _Traveller(site, journey, used, machines, secrets, network)
            traveller.troubled = way.troubled
            traveller.creation_only = way.creation_only
            watch.before, watch.after = traveller.look, traveller.take
            traveller.go(machine, other, counts)
    finally:
        network.played = None
    journey.untimely += machines.untimely
    journey.mistakes += [repr(one) for one in machines.errors]
    return journey


class _Traveller(Traveller):
    journey: MachineJourney
    #: True if machines refuse requests at first, and lose answers.
    troubled = False

    def __init__(
        self,
        site: UserSite,
        journey: MachineJourney,
        driver_class: type[NodeClusterDriver],
        machines: PlayedMachines,
        secrets: ChangingSecret,
        network: Network,
    ) -> None:
        super().__init__(site, journey, driver_class)
        self._machines, self._secrets, self._network = machines, secrets, network
        #: True if the monitor of the driver asks machines.
        self._asks = False
        self._deleted_from = 0.0

    # ---- calls of the driver -------------------------------------------------------

    def look(self, method: str, arguments: Mapping[str, Any]) -> None:
        """Let machines boot and stop before a call of the driver."""
        there = {one.id for one in self.site.machines()}
        self._machines.look(arguments['context'].nodes, there)

    def take(self, method: str, arguments: Mapping[str, Any], answer: Any) -> None:
        """Take what a node is given."""
        node = arguments.get('node')
        if method == 'bootstrap':
            self._machines.give(arguments['node'], answer)
        if method == 'is_ready' and node is not None and answer.state is ReadyState.READY:
            with contextlib.suppress(CannotBeShown):
                if node.name not in self._machines.bench.members():
                    self.journey.early.append(node.name)

    # ---- the way ---------------------------------------------------------------------

    def removal(self, first: str, group: str) -> Iterator[Step]:
        """Remove a node by its name while it serves."""
        self._measure()
        self._compare_told('of a cluster that is well')
        if Cap.RESIZE in self.driver.capabilities:
            # Not the newest of all: that can be of another group, in place of one that never
            # came up.
            leaving = [node for node in self.site.nodes() if node.group == group][-2]
            self._offered(lambda: self._machines.serve(leaving.name, WORK_S))
            self._compare_told('of a cluster that serves')
            yield 'remove a node that serves', Resize(cluster=CLUSTER, remove=(leaving.name,))

    def replaced(self) -> Node:
        """Return the oldest node, whose machine has died."""
        dying = self.site.nodes()[0]
        self._machines.kill(dying.name)
        self._compare_told('of a cluster with a dead machine')
        return dying

    def more(self, counts: Mapping[str, int]) -> Iterator[Step]:
        """Rebuild the nodes, rotate what the driver can rotate, and let all nodes have work."""
        can = self.driver.capabilities
        if Cap.REBUILD in can:
            yield 'rebuild', Rebuild(cluster=CLUSTER)
        self._secrets.change()
        for cap, (what, mark) in _ROTATIONS.items():
            if cap in can:
                before = self._offered(getattr(self._machines.bench, mark))
                yield f'rotate the {what.value}', Rotate(cluster=CLUSTER, what=what)
                self._renewed(mark, before)
        self._measure_nothing()
        group = samples.group_of(list(counts)[-1])
        if not self.troubled:
            self._lose_one()
            yield from self._recovery(counts)
            self._leave_one(group)
            self._grow_alone(group)
            self._return_alone()
        self._offered(lambda: self._machines.serve_to_the_end(LONGEST_S))
        self._deleted_from = self.site.clock.monotonic()

    def _lose_one(self) -> None:
        """Let the cluster forget a node whose machine runs: tending it brings the node back."""
        for lost in {one.group: one for one in self.site.nodes()}.values():
            try:
                self._machines.bench.lose(lost.name)
            except CannotBeShown as exc:
                self.journey.not_offered.append(str(exc))
                return
            for _ in range(_POLLS):
                trouble = self.site.tend()
                back = self._offered(lambda: lost.name in self._machines.bench.members())  # noqa: B023
                if trouble is not None and back and lost.name in trouble.message:
                    self.journey.lost.append(f'{lost.name} is back, and still: {trouble.message}')
                self.site.clock.advance(_ALONE_S / _POLLS)
            if back is False:
                told = 'nobody reports it' if trouble is None else trouble.message
                self.journey.lost.append(f'{lost.name}: {told}')

    def _recovery(self, counts: Mapping[str, int]) -> Iterator[Step]:
        """Go on with one node of the first role, all others of which have died."""
        verb, group = self._machines.bench.recovery, samples.group_of(next(iter(counts)))
        *dead, kept = (one for one in self.site.nodes() if one.group == group)
        if not verb or not dead:
            return
        for one in dead:
            self._machines.kill(one.name)
        if reason := self._run(verb, {'node': kept.name})[1]:
            self.journey.mistold.append(
                f'verb {verb}, which is to go on with {kept.name}: {reason}'
            )
            return
        yield (
            'replace what was lost',
            Replace(cluster=CLUSTER, nodes=tuple(one.id for one in dead)),
        )

    def _leave_one(self, group: str) -> None:
        """Ask whether a node with work can go while one node of its group stays."""
        nodes = self.site.nodes()
        *leaving, kept = (one for one in nodes if one.group == group)
        if not leaving:
            return
        node = leaving[0]
        try:
            self._machines.bench.serve(node.name, WORK_S)
        except CannotBeShown:
            return
        # Not those of other groups: a cluster can end with them.
        going = tuple(
            dataclasses.replace(one, doomed='asked for', state=NodeState.DRAINING)
            if one in leaving
            else one
            for one in nodes
        )
        found = self._call('drain', going, node)
        if found is not None and found.done:
            self.journey.untimely.append(
                f'{node.name} went with its work, although {kept.name} stays'
            )
        # What was asked is called off: an idle cluster takes its nodes into use again.
        self.site.tend()

    def _grow_alone(self, group: str) -> None:
        """Add a node while all others are dead: it must not begin another cluster."""
        self._machines.kill_all()
        if Cap.RESIZE not in self.driver.capabilities:
            return
        there = sum(node.group == group for node in self.site.nodes())
        alone = Resize(cluster=CLUSTER, group=group, count=there + 1)
        with contextlib.suppress(KilnError):
            self.site.request(alone, timeout_s=_ALONE_S)
        self._find_wrongs('once a node was added to dead ones')

    def _return_alone(self) -> None:
        """Boot the oldest node again, with an empty disk: it must not begin another cluster."""
        oldest, *others = self.site.nodes()
        self._machines.boot_again(oldest.name)
        nodes = (
            dataclasses.replace(oldest, state=NodeState.JOINING),
            *(dataclasses.replace(one, state=NodeState.UNHEALTHY) for one in others),
        )
        for _ in range(_POLLS):
            self._call('is_ready', nodes, nodes[0])
            self.site.clock.advance(_ALONE_S / _POLLS)
        self._find_wrongs('once the oldest node was rebuilt among dead ones')

    def _call(self, method: str, nodes: Sequence[Node], node: Node) -> Any:
        """Return what the driver answers about a node; None for an error."""
        return self._ask(method, nodes, node=node)

    def _ask(
        self,
        method: str,
        nodes: Sequence[Node],
        *,
        then: Callable[[Any], Any] = lambda answer: answer,
        **more: Any,
    ) -> Any:
        """Return what the driver answers about a cluster with some nodes; None for an error."""
        cluster = self.site.cluster()
        given: dict[str, Any] = {'secrets': self._secrets}
        with contextlib.suppress(ClusterError):
            given['join_key'] = known_key(self.site.store, cluster.id)
        of = {'context': samples.context(*nodes, **given), 'cluster': cluster, **more}
        with deadline_scope(Deadline.after(_ALONE_S, self.site.clock)):
            try:
                return then(getattr(self.driver.open(), method)(**of))
            # The code of an author can raise anything.
            except Exception:
                return None

    def _renewed(self, mark: str, before: Mapping[str, str] | None) -> None:
        if before is not None:
            now = getattr(self._machines.bench, mark)()
            self.journey.kept += [
                f'the {mark} of {name}' for name in before if now.get(name) == before[name]
            ]

    def goes_on(self, title: str) -> bool:
        """Compare what kiln has with what the machines have; go on if the change succeeded."""
        reason = self.journey.steps[title]
        goes_on = not reason or _REFUSED in reason
        self._find_wrongs(f'at the end of "{title}"')
        if goes_on and title != 'delete':
            self._compare(title)
        elif goes_on and (took_s := self._deleted_in_s()) > _DELETED_S:
            self.journey.untimely.append(
                f'the deletion waited {took_s:.0f} s for work that has nowhere to go'
            )
        self._find_wrongs(f'after "{title}"')
        return goes_on

    # ---- what is seen ----------------------------------------------------------------

    def _find_wrongs(self, when: str) -> None:
        self.journey.wrongs += [f'{when}: {one}' for one in self._machines.bench.wrongs()]

    def _deleted_in_s(self) -> float:
        return self.site.clock.monotonic() - self._deleted_from

    def _compare(self, title: str) -> None:
        """Compare kiln's nodes with the cluster's, once the driver has tended it."""
        trouble = self.site.tend()
        for _ in range(_TRIES if self.troubled else 0):
            trouble = trouble and self.site.tend()
        if trouble is not None:
            self.journey.troubles.append(f'after "{title}": {trouble.message}')
        ours = {node.name for node in self.site.nodes()}
        counted = self._offered(lambda: set(self._machines.bench.members()))
        for name in () if counted is None else sorted(counted ^ ours):
            where = 'kiln alone' if name in ours else 'the cluster alone'
            self.journey.differences.append(f'after "{title}", {where} has {name}')

    def _compare_told(self, what: str) -> None:
        """Compare what is told of the cluster with what its bench says."""
        if self.troubled:
            return
        self.journey.mistold += [
            f'{one}, {what}'
            for one in (*self._readings(), *self._orders(), *self._answers(), *self._troubles())
        ]
        self._find_wrongs(f'once verbs were run {what}')

    def _readings(self) -> Iterator[str]:
        expected = self._machines.bench.readings()
        if not expected:
            return
        found = {one.metric.name: one.value for one in self.site.site.metrics(CLUSTER)}
        for name, value in expected.items():
            if not _is_near(value, found.get(name)):
                yield f'{name} is {found.get(name)}, not {value}'

    def _orders(self) -> Iterator[str]:
        nodes = self.site.nodes()
        for group in self.site.cluster().spec.groups:
            asked = [one for one in nodes if one.group == group.name]
            expected = self._machines.bench.order(asked)
            if expected is None:
                continue
            found = self._ask('get_scale_manager', nodes, then=lambda one: one.order(group, asked))  # noqa: B023
            names = [one.name for one in found or ()]
            if names != [one.name for one in expected]:
                yield f'nodes of group {group.name} go in the order {", ".join(names)}'

    def _answers(self) -> Iterator[str]:
        folder = Path(tempfile.mkdtemp(dir=self.site.folder))
        for verb, arguments, expected in self._machines.bench.answers(folder):
            answer, reason = self._run(verb, arguments)
            if answer != expected:
                told = f'answers {answer or reason}, not {expected}'
                yield f'verb {verb} with {dict(arguments)} {told}'

    def _run(self, verb: str, arguments: Mapping[str, Any]) -> tuple[Any, str]:
        """Return what a verb answers, or None and its error."""
        try:
            return self.site.site.run_verb(self.driver.name, verb, CLUSTER, arguments), ''
        except ClusterDriverDefect as exc:
            return exc, str(exc)
        except KilnError as exc:
            return None, str(exc)

    def _troubles(self) -> Iterator[str]:
        expected = self._machines.bench.troubles()
        if expected is None or self.driver.tend is NodeClusterDriver.tend:
            return
        trouble = self.site.tend()
        told = '' if trouble is None else trouble.message
        yield from (f'no trouble is reported with {one}' for one in expected if one not in told)
        if told and not expected:
            yield f'a trouble is reported: {told}'

    def _measure(self) -> None:
        if Cap.MONITOR in self.driver.capabilities:
            asked = len(self._network.asked)
            readings = self.site.site.metrics(CLUSTER)
            self._asks = len(self._network.asked) > asked
            self.journey.unknown += [
                f'{one.metric.name}: {one.reason}' for one in readings if one.value is None
            ]

    def _measure_nothing(self) -> None:
        """Measure the cluster while no machine answers."""
        if Cap.MONITOR not in self.driver.capabilities:
            return
        before = [one.value for one in self.site.site.metrics(CLUSTER)]
        self._machines.all_away = True
        now = [one.value for one in self.site.site.metrics(CLUSTER)]
        self._machines.all_away = False
        if before == now and self._asks:
            self.journey.stale.append('every metric has the value that it had before')

    def _offered(self, call: Callable[[], Any]) -> Any:
        """Return what a method of the bench returns; None if the bench does not have it."""
        try:
            return call()
        except CannotBeShown as exc:
            self.journey.not_offered.append(str(exc))
            return None


def _is_near(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=1e-6)
