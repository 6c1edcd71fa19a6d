"""Whether a proposal can be: asked of its driver and its backends before anything is made."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kiln.cluster_drivers.selection.request import Image
from kiln.cluster_drivers.values import Context
from kiln.cluster_service.drivers import SiteDrivers
from kiln.cluster_service.proposals import Proposal
from kiln.clusters.exceptions import InvalidCluster, Problem
from kiln.clusters.spec import MachineSpec, NodeGroupSpec
from kiln.engine.context import Backends
from kiln.engine.plan.changes import GroupPlan
from kiln.engine.plan.reset_rounds import refusal
from kiln.exceptions import AmphoraComputeError, ConfigurationError
from kiln.models import Ability, AmphoraType

_OPEN = MachineSpec()


#: Questions that are out at once; the backends' own lanes are for the engine, too.
AT_ONCE = 32


@dataclasses.dataclass(frozen=True, slots=True)
class _Question:
    """What a backend is asked once, however many groups want to know it."""

    backend: str
    #: The call has the same name.
    ability: Ability
    value: str


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
        names = {node.backend for node in proposal.touched}
        able = [self._backends.get(name).capabilities() for name in sorted(names)]
        if (refused := refusal(proposal.kind, driver, able)) is not None:
            raise refused
        context = Context(defaults=self._defaults, nodes=proposal.nodes)
        problems = list(driver.validate(context, proposal.cluster, proposal.change()))
        places: list[tuple[_Question, str]] = []
        for plan in proposal.plan.groups:
            if plan.adds or plan.replaces:
                problems += self._group_problems(context, proposal, plan, places)
        refusals = self._refusals(dict.fromkeys(question for question, _ in places))
        for question, path in places:
            if question in refusals:
                problems.append(Problem(message=refusals[question], path=path))
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
        self,
        context: Context,
        proposal: Proposal,
        plan: GroupPlan,
        places: list[tuple[_Question, str]],
    ) -> Iterator[Problem]:
        """Yield what is wrong with a group at once; what is to be asked goes to ``places``."""
        effective = context.effective(proposal.cluster, plan.group)
        machine, path = effective.machine, f'nodegroups[{_index(proposal, plan.group)}]'
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
            message = f'backend {compute.name} makes no {kind.value}; it makes {has}'
            yield Problem(message=message, path=f'{path}.server_type')
        group = proposal.cluster.spec.group(plan.group)
        for ability, value, field in _uses(plan, group, machine):
            if ability in able.abilities:
                question = _Question(compute.name, ability, value)
                places.append((question, f'{path}.{field}'))

    def _refusals(self, questions: Iterable[_Question]) -> Mapping[_Question, str]:
        """Ask, and return why backends say no; all at once, or as many as may be."""
        refusals: dict[_Question, str] = {}
        left = iter(questions)
        while some := tuple(itertools.islice(left, AT_ONCE)):
            # Together they take as long as the slowest.
            answers = [(one, self._ask(one)) for one in some]
            for question, answer in answers:
                error = answer.exception()
                if isinstance(error, AmphoraComputeError) and not error.retryable:
                    refusals[question] = str(error)
                elif error is not None:
                    raise error
        return refusals

    def _ask(self, question: _Question) -> Any:
        call = getattr(self._backends.get(question.backend), question.ability.value)
        return call(question.value, timeout=self._timeout_s)


def _uses(
    plan: GroupPlan, group: NodeGroupSpec | None, machine: MachineSpec
) -> Iterator[tuple[Ability, str, str]]:
    """Yield what new nodes of a group take from their backend, and where that is written."""
    if group is not None:
        for flavor in group.fallback.flavors:
            yield Ability.VALIDATE_FLAVOR, flavor, 'fallback'
        for zone in group.fallback.zones:
            yield Ability.VALIDATE_ZONE, zone, 'fallback'
    places = [*(act.place for act in plan.adds), *(act.place for act in plan.replaces)]
    for named in dict.fromkeys(place.flavor or machine.flavor for place in places):
        if named:
            yield Ability.VALIDATE_FLAVOR, named, 'flavors'
    for where in dict.fromkeys(place.zone for place in places):
        if where:
            yield Ability.VALIDATE_ZONE, where, 'zones'
    if machine.image:
        yield Ability.VALIDATE_IMAGE, machine.image, 'image'


def _index(proposal: Proposal, name: str) -> int | str:
    names = [group.name for group in proposal.cluster.spec.groups]
    return names.index(name) if name in names else name
