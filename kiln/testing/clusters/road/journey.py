"""Journey of one cluster: all that a user does with it, and all that is shown on the way."""

from __future__ import annotations

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
from kiln.clusters.models import Cause, OperationState
from kiln.clusters.spec import MachineSpec
from kiln.engine.nodes.join_key import known_key
from kiln.exceptions import KilnError
from kiln.testing.clusters import samples
from kiln.testing.clusters.road.file import CLUSTER, cluster_file
from kiln.testing.clusters.road.user_site import UserSite
from kiln.testing.clusters.road.watching import DriverCall, Watch, watched

CREATE = 'create'


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
) -> Journey:
    """Return the journey of a cluster from its file to its deletion.

    :param driver_class: A driver whose polls need no machine.
    :param other: What differs after an upgrade.
    :param fresh: Open the driver again for each call.
    """
    journey, logged = Journey(), io.StringIO()
    handler = logging.StreamHandler(logged)
    logging.getLogger().addHandler(handler)
    try:
        used = watched(driver_class, Watch(calls=journey.calls, fresh=fresh))
        with UserSite(folder, used) as site:
            _Traveller(site, journey, used).go(machine, other, counts)
    finally:
        logging.getLogger().removeHandler(handler)
    journey.shown += (('a log', line) for line in logged.getvalue().splitlines())
    journey.shown += _reasons(journey.calls)
    return journey


class _Traveller:
    def __init__(
        self, site: UserSite, journey: Journey, driver_class: type[NodeClusterDriver]
    ) -> None:
        self._site, self._journey, self._driver = site, journey, driver_class

    def go(self, machine: MachineSpec, other: MachineSpec, counts: Mapping[str, int]) -> None:
        first = cluster_file(self._driver, machine, counts)
        self._step(CREATE, first)
        if self._journey.steps[CREATE]:
            return
        for node in self._site.nodes():
            self._journey.ready[node.group] = self._journey.ready.get(node.group, 0) + 1
        last = list(counts)[-1]
        self._step('grow', cluster_file(self._driver, machine, {**counts, last: counts[last] + 1}))
        self._verbs()
        self._step('shrink', first)
        self._step('replace', Replace(cluster=CLUSTER, nodes=(self._site.nodes()[-1].id,)))
        if Cap.UPGRADE in self._driver.capabilities:
            self._step('upgrade', Upgrade(cluster=CLUSTER, machine=other))
        if Cap.REBOOT in self._driver.capabilities:
            self._step('reboot', Reboot(cluster=CLUSTER))
        self._step('delete', Delete(cluster=CLUSTER))

    def _step(self, title: str, what: str | Request) -> None:
        site, shown = self._site, self._journey.shown
        try:
            operation = site.up(what) if isinstance(what, str) else site.request(what)
        except KilnError as exc:
            self._journey.steps[title] = str(exc)
            shown.append((f'the refusal to {title}', str(exc)))
        else:
            done = operation.state is OperationState.SUCCEEDED
            reason = ' '.join(_texts(operation.cause)) or operation.state.value
            self._journey.steps[title] = '' if done else reason
            shown.append((f'the operation {title}', reason))
        self._look()

    def _look(self) -> None:
        """Read what is shown now."""
        site, shown = self._site, self._journey.shown
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
        self._journey.tokens |= {key.hex()} | {
            join_token(samples.context(join_key=key), one) for one in site.nodes()
        }

    def _verbs(self) -> None:
        for name, verb in self._driver.verbs.items():
            given = {one.name: self._value(one) for one in verb.parameters if one.required}
            try:
                answer: Any = self._site.site.run_verb(self._driver.name, name, CLUSTER, given)
                told = json.dumps(answer)
            except ClusterDriverDefect as exc:
                answer, told = exc, str(exc)
            except KilnError as exc:
                answer, told = exc, str(exc)
            self._journey.verbs[name] = answer
            self._journey.shown.append((f'verb {name}', told))

    def _value(self, one: Parameter) -> Any:
        """Return a value for an argument; a node if it is about nodes."""
        names = {'node': self._site.nodes()[0].name, 'to': str(self._site.folder / 'to')}
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
