"""Preflight checks of a proposal with its driver and backends."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kiln.cluster_drivers.base import ClusterDriver, NodeClusterDriver
from kiln.cluster_drivers.calls import call_driver
from kiln.cluster_drivers.selection.request import Image
from kiln.cluster_drivers.values import Context
from kiln.cluster_service.drivers import SiteDrivers, previews
from kiln.cluster_service.port_checks import GuardedGroup, port_checks
from kiln.cluster_service.proposals import Proposal
from kiln.clusters.exceptions import (
    ClusterDriverError,
    ClusterNotFound,
    InvalidCluster,
    Problem,
)
from kiln.clusters.models import Cluster
from kiln.clusters.spec import MachineSpec, NodeGroupSpec
from kiln.engine.context import Backends
from kiln.engine.driver_context import DriverContexts
from kiln.engine.nodes.join_key import known_key, new_key
from kiln.engine.plan.backend_choice import chosen_by
from kiln.engine.plan.changes import GroupPlan
from kiln.engine.plan.desired import Desired
from kiln.engine.plan.diff import CONTROL
from kiln.engine.plan.reset_rounds import refusal
from kiln.exceptions import (
    AmphoraComputeError,
    AuthenticationFailed,
    ConfigurationError,
    PermissionDenied,
)
from kiln.models import Ability, AmphoraType

#: Queries under way at once; the engine needs the backends' lanes, too.
AT_ONCE = 32
#: Arguments of builds that a backend can lack, with the field of a cluster file for each.
_OPTIONS = {'network_ids': 'networks', 'sec_groups': 'sec_groups', 'keys': 'keys'}


@dataclasses.dataclass(frozen=True, slots=True)
class _Question:
    """A query to a backend, made once, however many groups need it."""

    backend: str
    #: The call has the same name.
    ability: Ability
    args: tuple[Any, ...]


class Preflight:
    """Checks proposals with drivers and backends; creates and changes nothing."""

    def __init__(
        self,
        drivers: SiteDrivers,
        backends: Backends,
        contexts: DriverContexts,
        *,
        timeout_s: float,
    ) -> None:
        self._drivers = drivers
        self._backends = backends
        self._contexts = contexts
        self._timeout_s = timeout_s

    def check(self, proposal: Proposal) -> tuple[str, ...]:
        """Return what the driver's own engine foresees, if all agree.

        Blocks as long as the slowest backend takes to answer.

        :raises InvalidCluster: with every problem, each listed once.
        :raises MissingCapability: the cluster's driver does not support the operation.
        :raises UnsupportedOperation: a backend does not support it.
        :raises DriverSelectionError: the cluster's driver cannot be used.
        :raises AmphoraComputeError: a backend cannot be queried now; ``retryable`` says
            whether to try again.
        """
        driver = self._drivers.open(proposal.cluster.pin)
        names = {node.backend for node in proposal.touched}
        able = [self._backends.get(name).capabilities() for name in sorted(names)]
        if (refused := refusal(proposal.kind, driver, able, proposal.args)) is not None:
            raise refused
        context = self._contexts.context(
            proposal.cluster,
            nodes=proposal.nodes,
            join_key=functools.partial(self._join_key, proposal.cluster),
            template=proposal.template,
        )
        problems = [*proposal.problems, *_credential_problems(context, proposal.cluster)]
        validate = functools.partial(
            driver.validate, context=context, cluster=proposal.cluster, plan=proposal.change()
        )
        problems += call_driver(driver.name, 'validate', validate)
        desired = Desired(
            proposal.cluster, context, backend_of=chosen_by(driver, proposal.cluster)
        )
        places: list[tuple[_Question, str]] = []
        for plan in proposal.plan.groups:
            if plan.adds or plan.replaces:
                problems += self._group_problems(desired, proposal, plan, places)
        places += self._port_questions(driver, desired, proposal)
        refusals = self._refusals(dict.fromkeys(question for question, _ in places))
        known = {problem.message for problem in proposal.problems}
        for question, path in places:
            if question in refusals and refusals[question] not in known:
                problems.append(Problem(message=refusals[question], path=path))
        if problems:
            raise InvalidCluster(dict.fromkeys(problems))
        return _foreseen(driver, context, proposal)

    def _join_key(self, cluster: Cluster) -> bytes:
        """Return the key of a cluster; a key that is thrown away if it has none so far.

        No node is given what is derived from it: checking a cluster that nodes join needs a
        key, and only the conductor that builds its first node writes one.
        """
        try:
            return known_key(self._contexts.store, cluster.id)
        except ClusterNotFound:
            return new_key()

    def image(self, machine: MachineSpec) -> Image | None:
        """Return a backend's facts about an image; None if it cannot report them.

        :raises InvalidCluster: builds are not allowed to use the image.
        :raises AmphoraComputeError: the backend cannot be queried now.
        """
        try:
            compute = self._backends.get(machine.compute_driver)
        except ConfigurationError as exc:
            raise InvalidCluster([Problem(message=str(exc), path='compute_driver')]) from exc
        if machine.image is None or Ability.DESCRIBE_IMAGE not in compute.capabilities().abilities:
            return None
        asked = compute.describe_image(machine.image, timeout=self._timeout_s)
        error = asked.exception()
        if _is_of_request(error):
            raise InvalidCluster([Problem(message=str(error), path='image')]) from error
        facts = asked.result()
        return Image(id=facts.id, name=facts.name, properties=facts.properties)

    def _group_problems(
        self,
        desired: Desired,
        proposal: Proposal,
        plan: GroupPlan,
        places: list[tuple[_Question, str]],
    ) -> Iterator[Problem]:
        """Yield the problems of a group; queries for its backend are added to ``places``."""
        machine, path = desired.machine(plan.group), f'nodegroups[{_index(proposal, plan.group)}]'
        try:
            compute = self._backends.get(machine.compute_driver)
        except ConfigurationError as exc:
            yield Problem(message=str(exc), path=f'{path}.compute_driver')
            return
        able = compute.capabilities()
        kinds = able.limits.amphora_types
        kind = machine.server_type or AmphoraType.VM
        if kind not in kinds:
            has = ', '.join(sorted(kinds))
            message = f'backend {compute.name} does not build {kind.value}; it builds {has}'
            yield Problem(message=message, path=f'{path}.server_type')
        group = proposal.cluster.spec.group(plan.group)
        for option, field in _OPTIONS.items():
            if option in able.limits.refused_options and getattr(machine, field):
                message = f'backend {compute.name} does not support {field}; remove them'
                yield Problem(message=message, path=f'{path}.{field}')
        if len(plan.adds) > 1:
            for network in machine.networks or ():
                if address := network.partition('=')[2]:
                    message = f'{len(plan.adds)} nodes cannot have one address, {address}'
                    yield Problem(message=message, path=f'{path}.networks')
        for ability, value, field in _uses(plan, group, machine):
            if ability in able.abilities:
                question = _Question(compute.name, ability, (value,))
                places.append((question, f'{path}.{field}'))

    def _port_questions(
        self, driver: ClusterDriver, desired: Desired, proposal: Proposal
    ) -> Iterator[tuple[_Question, str]]:
        """Yield whether the nodes of the cluster can reach each other, for each group."""
        plans = proposal.plan.groups
        if (
            not isinstance(driver, NodeClusterDriver)
            or not (driver.open_ports or driver.control_ports)
            or not any(plan.adds or plan.replaces for plan in plans)
        ):
            # No backend is opened where nothing is to be asked.
            return
        guarded = []
        for plan in plans:
            machine = desired.machine(plan.group)
            ports = (*driver.open_ports, *(driver.control_ports if plan.role == CONTROL else ()))
            with contextlib.suppress(ConfigurationError):
                guarded.append(GuardedGroup(
                    name=plan.group, backend=self._backends.get(machine.compute_driver).name,
                    sec_groups=machine.sec_groups or (), ports=ports, count=plan.count,
                    grows=bool(plan.adds or plan.replaces),
                ))  # fmt: skip
        for group, peers in port_checks(guarded):
            able = self._backends.get(group.backend).capabilities().abilities
            if Ability.CHECK_PORTS in able:
                args = (group.sec_groups, group.ports, peers)
                path = f'nodegroups[{_index(proposal, group.name)}].sec_groups'
                yield _Question(group.backend, Ability.CHECK_PORTS, args), path

    def _refusals(self, questions: Iterable[_Question]) -> Mapping[_Question, str]:
        """Query the backends, all at once up to a limit; return why they refuse."""
        refusals: dict[_Question, str] = {}
        left = iter(questions)
        while some := tuple(itertools.islice(left, AT_ONCE)):
            # Together they take as long as the slowest.
            answers = [(one, self._ask(one)) for one in some]
            for question, answer in answers:
                error = answer.exception()
                if _is_of_request(error):
                    refusals[question] = str(error)
                elif error is not None:
                    raise error
        return refusals

    def _ask(self, question: _Question) -> Any:
        call = getattr(self._backends.get(question.backend), question.ability.value)
        return call(*question.args, timeout=self._timeout_s)


def _is_of_request(error: BaseException | None) -> bool:
    """Return True if a backend refuses what the cluster names, not the credentials of kiln."""
    if isinstance(error, AuthenticationFailed | PermissionDenied):
        return False
    return isinstance(error, AmphoraComputeError) and not error.retryable


def _uses(
    plan: GroupPlan, group: NodeGroupSpec | None, machine: MachineSpec
) -> Iterator[tuple[Ability, str, str]]:
    """Yield what new nodes of a group need from their backend, and where it is written."""
    if group is not None:
        for flavor in group.fallback.flavors:
            yield Ability.VALIDATE_FLAVOR, flavor, 'fallback'
        for zone in group.fallback.zones:
            yield Ability.VALIDATE_ZONE, zone, 'fallback'
    yield from _place_uses(plan, machine)
    named = (
        (Ability.VALIDATE_IMAGE, (machine.image,), 'image'),
        (Ability.VALIDATE_NETWORK, machine.networks or (), 'networks'),
        (Ability.VALIDATE_SECURITY_GROUP, machine.sec_groups or (), 'sec_groups'),
    )
    for ability, values, field in named:
        yield from ((ability, value, field) for value in values if value)


def _place_uses(plan: GroupPlan, machine: MachineSpec) -> Iterator[tuple[Ability, str, str]]:
    places = [*(act.place for act in plan.adds), *(act.place for act in plan.replaces)]
    for named in dict.fromkeys(place.flavor or machine.flavor for place in places):
        if named:
            yield Ability.VALIDATE_FLAVOR, named, 'flavors'
    for where in dict.fromkeys(place.zone for place in places):
        if where:
            yield Ability.VALIDATE_ZONE, where, 'zones'


def _foreseen(driver: ClusterDriver, context: Context, proposal: Proposal) -> tuple[str, ...]:
    if not previews(driver):
        return ()
    preview = functools.partial(
        driver.preview_cluster, context=context, cluster=proposal.cluster, plan=proposal.change()
    )
    try:
        return tuple(call_driver(driver.name, 'preview_cluster', preview))
    # An engine that is away does not keep anyone from a plan, unless it could lose what exists.
    except ClusterDriverError as exc:
        if proposal.existing:
            raise
        return (f'{driver.name} cannot foresee what its engine would do: {exc.reason}',)


def _credential_problems(context: Context, cluster: Cluster) -> Iterator[Problem]:
    name = cluster.spec.credentials
    try:
        if name is not None:
            context.secrets.get(name)
    except ClusterDriverError as exc:
        yield Problem(message=str(exc), path='credentials')


def _index(proposal: Proposal, name: str) -> int | str:
    names = [group.name for group in proposal.cluster.spec.groups]
    return names.index(name) if name in names else name
