"""Which driver builds a cluster: chosen once, with its reasons, and pinned.

Pure. The same inputs give the same answer, in whatever order the drivers were
installed. Nothing is ever guessed: where two drivers fit equally well and
nobody has said which to take, that is an error that names both.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from kiln.cluster_drivers import refusals
from kiln.cluster_drivers.matching import (
    NO_PREFERENCES,
    Preferences,
    best,
    current,
    in_order,
    preferred,
)
from kiln.cluster_drivers.records import WILDCARD, ClusterType, DriverRecord, DriverState
from kiln.cluster_drivers.wanted import Image, Request, Wanted, Wish, read_wanted, system_names
from kiln.cluster_exceptions import DriverSelectionError
from kiln.cluster_models import DriverPin

_NOTHING_ASKED = Request()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """The driver of a cluster, and how it was chosen."""

    pin: DriverPin
    wanted: ClusterType
    request: Request
    template: Request
    image: Image | None
    steps: tuple[str, ...]
    #: What somebody should know, or change, though it went well.
    notices: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, to be stored with the cluster."""
        data = dataclasses.asdict(self)
        return {**data, **{name: list(data[name]) for name in ('wanted', 'steps', 'notices')}}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the decision that ``to_dict`` made plain."""
        return cls(
            pin=DriverPin(**data['pin']),
            wanted=ClusterType(*data['wanted']),
            request=Request(**data['request']),
            template=Request(**data['template']),
            image=Image(**data['image']) if data['image'] else None,
            steps=tuple(data['steps']),
            notices=tuple(data['notices']),
        )


def resolve(
    request: Request,
    *,
    records: Iterable[DriverRecord],
    template: Request = _NOTHING_ASKED,
    image: Image | None = None,
    preferences: Preferences = NO_PREFERENCES,
) -> Decision:
    """Choose the driver of a new cluster, or say why none can be chosen.

    :raises DriverSelectionError: its ``steps`` say how far the choice had come.
    """
    wanted = read_wanted(request, template, image)
    choice = _Choice(wanted, image, preferences, in_order(records))
    try:
        chosen = choice.make()
    except DriverSelectionError as exc:
        exc.steps = tuple(choice.steps)
        raise
    return Decision(
        pin=pin_of(chosen),
        wanted=wanted.kind.cluster_types()[0],
        request=request,
        template=template,
        image=image.only_what_counts() if image else None,
        steps=tuple(choice.steps),
        notices=tuple(choice.notices),
    )


def explain(outcome: Decision | DriverSelectionError) -> list[str]:
    """Return, line by line, how a choice came about, and what came of it."""
    if isinstance(outcome, DriverSelectionError):
        return [*outcome.steps, f'error {outcome.code}: {outcome}']
    pin = outcome.pin
    notices = [f'notice: {notice}' for notice in outcome.notices]
    return [*outcome.steps, *notices, f'pinned: {pin.name} {pin.version}, digest {pin.digest}']


def pin_of(record: DriverRecord) -> DriverPin:
    """Return what binds a cluster to a driver."""
    return DriverPin(
        name=record.name, version=record.version, origin=record.origin, digest=record.digest
    )


class _Choice:
    """One choice under way, and what there is to tell about it."""

    def __init__(
        self,
        wanted: Wanted,
        image: Image | None,
        preferences: Preferences,
        records: Sequence[DriverRecord],
    ) -> None:
        self._kind, self._wishes = wanted.kind, wanted.wishes
        self._image, self._preferences, self._records = image, preferences, records
        self._usable = current(records)
        self._candidates = best(self._usable, self._kind)
        self.steps, self.notices = list(wanted.steps), list(wanted.notices)

    def make(self) -> DriverRecord:
        """Return the driver.

        :raises DriverSelectionError: there is none, or more than one.
        """
        if not self._wishes:
            self.steps.append('driver: nobody names one')
            return self._told(*self._matched())
        wish, *others = self._wishes
        self.steps.append(f'driver: {wish} ({wish.source})')
        self.notices += [
            f'{other.source} asks for driver {other}; {wish.source} asks for {wish}, and wins.'
            for other in others
            if other.name != wish.name
        ]
        return self._told(self._wished(wish), f'asked for by {wish.source}', wish)

    def _wished(self, wish: Wish) -> DriverRecord:
        admitted = [one for one in self._records if _asked_for(one, wish)]
        if not admitted:
            raise refusals.unknown(wish, self._records)
        usable = [one for one in admitted if one.state is DriverState.ACTIVE]
        if not usable:
            raise refusals.unusable(wish, admitted[-1], self._candidates)
        record = usable[-1]
        if any(self._kind.fit(offered) for offered in record.provides):
            return record
        misses = [self._kind.differences(offered) for offered in record.provides]
        if not self._kind.systems and ('os',) in misses:
            raise refusals.without_distro(self._image)
        raise refusals.mismatch(wish, record, self._kind, self._candidates)

    def _matched(self) -> tuple[DriverRecord, str]:
        told = ', '.join(map(str, self._candidates)) or 'none'
        self.steps.append(f'candidates: {told}')
        if not self._candidates:
            if not self._kind.systems:
                raise refusals.without_distro(self._image)
            raise refusals.nobody(self._kind, self._usable, self._records)
        if len(self._candidates) == 1:
            return self._candidates[0], 'no other fits as closely'
        choice = preferred(self._kind, self._candidates, self._preferences)
        if choice is None:
            self.steps.append('preferences: none for any of them')
            raise refusals.ambiguous(self._kind, self._candidates)
        return choice.driver, choice.reason

    def _told(self, record: DriverRecord, why: str, wish: Wish | None = None) -> DriverRecord:
        self.steps.append(f'chosen: {record} ({record.origin}), {why}')
        self.notices += dict.fromkeys(
            f'{record} is used, for "{one.name}" {refusals.why_unused(one)}'
            for one in self._records
            if one.name == record.name and one.recency > record.recency
            if wish is None or wish.admits(one.version)
        )
        systems = self._kind.systems
        closest = max(fit[1] for offered in record.provides if (fit := self._kind.fit(offered)))
        built = systems[-closest] if closest else WILDCARD
        if closest < len(systems) and built in system_names(systems[0]):
            self.notices.append(f'{record} builds {built}, of which {systems[0]} is a variant.')
        return record


def _asked_for(record: DriverRecord, wish: Wish) -> bool:
    return record.name == wish.name and wish.admits(record.version)
