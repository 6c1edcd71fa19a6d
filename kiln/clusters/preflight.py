"""Whether a proposal can be: asked of its driver and its backends before anything is made."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from kiln.cluster_drivers.values import Cap, Context
from kiln.cluster_drivers.wanted import Image
from kiln.cluster_exceptions import InvalidCluster, Problem
from kiln.cluster_models import OperationKind
from kiln.cluster_spec import MachineSpec
from kiln.clusters.drivers import SiteDrivers
from kiln.clusters.proposals import Proposal
from kiln.compute import Compute
from kiln.engine.parts import Backends
from kiln.engine.plans import GroupPlan
from kiln.engine.rounds import refusal
from kiln.exceptions import AmphoraComputeError, ConfigurationError
from kiln.models import Ability, AmphoraType

_OPEN = MachineSpec()
#: What a driver must be able to do for an operation.
_CAPS = {
    OperationKind.RESIZE: Cap.RESIZE,
    OperationKind.UPGRADE: Cap.UPGRADE,
}


@dataclasses.dataclass(frozen=True, slots=True)
class _Question:
    """One thing that a backend is asked about, and where it is written."""

    ability: Ability
    verb: str
    value: str
    path: str


class Preflight:
    """Asks everyone who has a say; makes and changes nothing."""

    def __init__(
        self,
        drivers: SiteDrivers,
        backends: Backends,
        *,
        defaults: MachineSpec = _OPEN,
        timeout_s: float = 30.0,
    ) -> None:
        self._drivers = drivers
        self._backends = backends
        self._defaults = defaults
        self._timeout_s = timeout_s

    def check(self, proposal: Proposal) -> None:
        """Return if all agree. Blocks as long as the slowest backend takes to answer.

        :raises InvalidCluster: with all that is wrong, each told once.
        :raises MissingCapability: the cluster's driver cannot do such a thing.
        :raises UnsupportedOperation: a backend cannot.
        :raises DriverSelectionError: the cluster's driver cannot be used.
        :raises AmphoraComputeError: a backend cannot be asked now; ``retryable`` says
            whether to try again.
        """
        driver = self._drivers.open(proposal.cluster.pin)
        if (cap := _CAPS.get(proposal.kind)) is not None:
            driver.require(cap)
        names = {node.backend for node in proposal.touched}
        able = [self._backends.get(name).capabilities() for name in sorted(names)]
        if (refused := refusal(proposal.kind, driver, able)) is not None:
            raise refused
        context = Context(defaults=self._defaults, nodes=proposal.nodes)
        problems = list(driver.validate(context, proposal.cluster, proposal.change()))
        growing = [plan for plan in proposal.plan.groups if plan.adds or plan.replaces]
        for plan in growing:
            problems += self._group_problems(context, proposal, plan)
        if problems:
            raise InvalidCluster(dict.fromkeys(problems))

    def image(self, machine: MachineSpec) -> Image | None:
        """Return what a backend says of an image; None where it cannot tell.

        :raises InvalidCluster: builds may not use it.
        :raises AmphoraComputeError: the backend cannot be asked now.
        """
        try:
            compute = self._backends.get(machine.compute_driver)
        except ConfigurationError as exc:
            raise InvalidCluster([Problem(message=str(exc), path='compute_driver')]) from exc
        if machine.image is None or Ability.DESCRIBE_IMAGE not in compute.capabilities().abilities:
            return None
        asked = compute.describe_image(machine.image, timeout=self._timeout_s)
        error = asked.exception()
        if isinstance(error, AmphoraComputeError) and not error.retryable:
            raise InvalidCluster([Problem(message=str(error), path='image')]) from error
        facts = asked.result()
        return Image(id=facts.id, name=facts.name, properties=facts.properties)

    def _group_problems(
        self, context: Context, proposal: Proposal, plan: GroupPlan
    ) -> Iterator[Problem]:
        effective = context.effective(proposal.cluster, plan.group)
        machine, path = effective.machine, f'nodegroups[{_index(proposal, plan.group)}]'
        try:
            compute = self._backends.get(machine.compute_driver)
        except ConfigurationError as exc:
            yield Problem(message=str(exc), path=f'{path}.compute_driver')
            return
        kinds = compute.capabilities().limits.amphora_types
        kind = machine.server_type or AmphoraType.VM
        if kind not in kinds:
            has = ', '.join(sorted(kinds))
            message = f'backend {compute.name} makes no {kind.value}; it makes {has}'
            yield Problem(message=message, path=f'{path}.server_type')
        yield from self._answers(compute, dict.fromkeys(_questions(plan, proposal, machine, path)))

    def _answers(self, compute: Compute, questions: Mapping[_Question, None]) -> Iterator[Problem]:
        able = compute.capabilities().abilities
        # All at once: together they take as long as the slowest.
        asked = [
            (one, getattr(compute, one.verb)(one.value, timeout=self._timeout_s))
            for one in questions
            if one.ability in able
        ]
        for question, answer in asked:
            error = answer.exception()
            if isinstance(error, AmphoraComputeError) and not error.retryable:
                yield Problem(message=str(error), path=question.path)
            elif error is not None:
                raise error


def _questions(
    plan: GroupPlan, proposal: Proposal, machine: MachineSpec, path: str
) -> Iterator[_Question]:
    group = proposal.cluster.spec.group(plan.group)
    places = [*(act.place for act in plan.adds), *(act.place for act in plan.replaces)]
    flavors: list[Any] = [place.flavor or machine.flavor for place in places]
    zones: list[Any] = [place.zone for place in places]
    if group is not None:
        for flavor in group.fallback.flavors:
            yield _Question(Ability.VALIDATE_FLAVOR, 'validate_flavor', flavor, f'{path}.fallback')
        for zone in group.fallback.zones:
            yield _Question(Ability.VALIDATE_ZONE, 'validate_zone', zone, f'{path}.fallback')
    for flavor in flavors:
        if flavor:
            yield _Question(Ability.VALIDATE_FLAVOR, 'validate_flavor', flavor, f'{path}.flavors')
    for zone in zones:
        if zone:
            yield _Question(Ability.VALIDATE_ZONE, 'validate_zone', zone, f'{path}.zones')
    if machine.image:
        yield _Question(Ability.VALIDATE_IMAGE, 'validate_image', machine.image, f'{path}.image')


def _index(proposal: Proposal, name: str) -> int | str:
    names = [group.name for group in proposal.cluster.spec.groups]
    return names.index(name) if name in names else name
