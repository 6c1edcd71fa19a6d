"""Journey of one cluster: all that a user does with it, and all that is shown on the way."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.parameters import Parameter
from kiln.cluster_drivers.values import Cap, Drained, Readiness, join_token
from kiln.cluster_service.requests import Delete, Reboot, Replace, Request, Upgrade
from kiln.clusters.exceptions import ClusterDriverDefect, ClusterError
from kiln.clusters.models import Cause, Node, OperationState
from kiln.clusters.spec import MachineSpec
from kiln.engine.nodes.join_key import known_key
from kiln.exceptions import KilnError
from kiln.testing.clusters import samples
from kiln.testing.clusters.road.file import CLUSTER, cluster_file
from kiln.testing.clusters.road.user_site import UserSite
from kiln.testing.clusters.road.watching import DriverCall, Watch, watched

CREATE = 'create'
#: A title, and a cluster file or a request.
Step = tuple[str, str | Request]


@dataclasses.dataclass(kw_only=True)
class Journey:
    """What has happened on the way."""

    #: By step: why it has not succeeded; empty if it has.
    steps: dict[str, str] = dataclasses.field(default_factory=dict)
    #: By verb: its answer, or the error that it ended with.
    verbs: dict[str, Any] = dataclasses.field(default_factory=dict)
    calls: list[DriverCall] = dataclasses.field(default_factory=list)
    #: What people and programs could read, with where it was.
    shown: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    #: Join tokens of all attempts, and the key that they are made with.
    tokens: set[str] = dataclasses.field(default_factory=set)
    #: Virtual seconds that the driver waited in calls.
    waited_s: float = 0.0
    #: By group: the number of its ready nodes after the creation.
    ready: dict[str, int] = dataclasses.field(default_factory=dict)


def travelled(
    folder: Path,
    driver_class: type[NodeClusterDriver],
    machine: MachineSpec,
    other: MachineSpec,
    counts: Mapping[str, int],
    *,
    fresh: bool = False,
    creation_only: bool = False,
) -> Journey:
    """Return the journey of a cluster from its file to its deletion.

    :param driver_class: A driver whose polls need no machine.
    :param other: What differs after an upgrade.
    :param fresh: Open the driver again for each call.
    :param creation_only: End once the cluster was created.
    """
    journey = Journey()
    used = watched(driver_class, Watch(calls=journey.calls, fresh=fresh))
    with overheard(journey), UserSite(folder, used) as site:
        traveller = Traveller(site, journey, used)
        traveller.creation_only = creation_only
        traveller.go(machine, other, counts)
    return journey


@contextlib.contextmanager
def overheard(journey: Journey) -> Iterator[None]:
    """Add what is logged, and the reasons and errors of calls, to what was shown."""
    logged = io.StringIO()
    handler = logging.StreamHandler(logged)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
    journey.shown += (('a log', line) for line in logged.getvalue().splitlines())
    journey.shown += _reasons(journey.calls)


class Traveller:
    """Makes the changes of a journey, and reads what is shown after each."""

    #: True if the journey ends once the cluster was created.
    creation_only = False

    def __init__(
        self, site: UserSite, journey: Journey, driver_class: type[NodeClusterDriver]
    ) -> None:
        self.site, self.journey, self.driver = site, journey, driver_class

    def go(self, machine: MachineSpec, other: MachineSpec, counts: Mapping[str, int]) -> None:
        """Make the journey; without a cluster it ends at once."""
        for title, change in self.changes(machine, other, counts):
            self._step(title, change)
            if not self.goes_on(title):
                return

    def changes(
        self, machine: MachineSpec, other: MachineSpec, counts: Mapping[str, int]
    ) -> Iterator[Step]:
        """Yield the changes one by one, each made before the next is asked for."""
        first, can = cluster_file(self.driver, machine, counts), self.driver.capabilities
        yield CREATE, first
        for node in self.site.nodes():
            self.journey.ready[node.group] = self.journey.ready.get(node.group, 0) + 1
        if self.creation_only:
            return
        last = list(counts)[-1]
        yield 'grow', cluster_file(self.driver, machine, {**counts, last: counts[last] + 1})
        self._verbs()
        yield from self.removal(first, samples.group_of(last))
        yield 'replace', Replace(cluster=CLUSTER, nodes=(self.replaced().id,))
        if Cap.UPGRADE in can:
            yield 'upgrade', Upgrade(cluster=CLUSTER, machine=other)
        if Cap.REBOOT in can:
            yield 'reboot', Reboot(cluster=CLUSTER)
        yield from self.more(counts)
        yield 'delete', Delete(cluster=CLUSTER)

    def removal(self, first: str, group: str) -> Iterator[Step]:
        """Yield how the group that has grown loses a node again."""
        yield 'shrink', first

    def replaced(self) -> Node:
        """Return the node to be replaced."""
        return self.site.nodes()[-1]

    def more(self, counts: Mapping[str, int]) -> Iterator[Step]:
        """Yield what can be done before the deletion."""
        yield from ()

    def goes_on(self, title: str) -> bool:
        """Return True if the next change can be made after one."""
        return title != CREATE or not self.journey.steps[CREATE]

    def _step(self, title: str, what: str | Request) -> None:
        site, shown = self.site, self.journey.shown
        try:
            operation = site.up(what) if isinstance(what, str) else site.request(what)
        except KilnError as exc:
            self.journey.steps[title] = str(exc)
            shown.append((f'the refusal to {title}', str(exc)))
        else:
            done = operation.state is OperationState.SUCCEEDED
            reason = ' '.join(_texts(operation.cause)) or operation.state.value
            self.journey.steps[title] = '' if done else reason
            shown.append((f'the operation {title}', reason))
        self._look()

    def _look(self) -> None:
        """Read what is shown now."""
        site, shown = self.site, self.journey.shown
        try:
            cluster = site.cluster()
        except ClusterError:
            shown += (('an event', f'{one.message} {dict(one.facts)}') for one in site.events())
            return
        shown.append(('the outputs', repr(dict(cluster.outputs))))
        shown.append(('the state of the driver', repr(dict(cluster.driver_state))))
        shown += ((f'node {one.name}', ' '.join(_texts(one.cause))) for one in site.nodes())
        shown += ((f'machine {one.name}', repr(one)) for one in site.machines())
        try:
            key = known_key(site.store, cluster.id)
        except ClusterError:
            return
        self.journey.tokens |= {key.hex()} | {
            join_token(samples.context(join_key=key), one) for one in site.nodes()
        }

    def _verbs(self) -> None:
        for name, verb in self.driver.verbs.items():
            given = {one.name: self._value(one) for one in verb.parameters if one.required}
            try:
                answer: Any = self.site.site.run_verb(self.driver.name, name, CLUSTER, given)
                told = json.dumps(answer)
            except ClusterDriverDefect as exc:
                answer, told = exc, str(exc)
            except KilnError as exc:
                answer, told = exc, str(exc)
            self.journey.verbs[name] = answer
            self.journey.shown.append((f'verb {name}', told))

    def _value(self, one: Parameter) -> Any:
        """Return a value for an argument; a node if it is about nodes."""
        names = {'node': self.site.nodes()[0].name, 'to': str(self.site.folder / 'to')}
        return names.get(one.name, samples.value(one))


def _texts(cause: Cause | None) -> Iterator[str]:
    while cause is not None:
        yield f'{cause.message} {cause.hint}'
        cause = cause.because


def _reasons(calls: list[DriverCall]) -> Iterator[tuple[str, str]]:
    for call in calls:
        if isinstance(call.answer, Readiness | Drained):
            yield f'the reason of {call.method}', call.answer.reason
        if call.error is not None:
            yield f'an error of {call.method}', str(call.error)
