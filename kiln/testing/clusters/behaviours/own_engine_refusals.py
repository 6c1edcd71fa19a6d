"""Behaviours of validation: what a driver refuses is reported in time, and with its place."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from kiln.clusters.exceptions import Problem
from kiln.clusters.spec import ClusterSpec, MachineSpec
from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.testing.clusters import samples
from kiln.testing.clusters.behaviours.own_engine import OwnEngine


class EngineRefusals(OwnEngine):
    """Refusals."""

    def test_a_wrong_value_is_reported_with_its_place(self) -> None:
        for wrong in self._refused():
            # Beside values that are right, before and after them.
            for machine in _beside(self.spec().machine, wrong):
                found = self._problems(machine=machine)
                self._named(found, _places(wrong))

    def test_all_wrong_values_are_reported_together(self) -> None:
        refused = self._refused()
        whole = self.spec().machine
        for one in refused:
            whole = samples.merged(whole, one)
        expected = {place for one in refused for place in _places(one)}
        self._named(self._problems(machine=whole), expected)

    def test_a_wrong_value_of_a_group_is_reported_with_the_group(self) -> None:
        for wrong in self._refused():
            spec = self.spec()
            group = dataclasses.replace(self.largest(spec), machine=wrong)
            found = self._problems(self.with_group(spec, group))
            number = [one.name for one in spec.groups].index(group.name)
            there = {f'nodegroups[{number}]', f'nodegroups[{group.name}]'}
            inner = {'parameters', *_places(wrong)}
            places = there | {f'{one}.{place}' for one in there for place in inner}
            self.assertTrue(
                found and all(one.path in places and one.message.strip() for one in found),
                f'The problems of group {group.name} are not reported as its own: {_told(found)}',
            )

    def test_a_refusal_leaves_the_engine_alone(self) -> None:
        before = set(self.bench.resources())
        for wrong in self._refused():
            self._problems(machine=samples.merged(self.spec().machine, wrong))
        self.assertEqual(before, set(self.bench.resources()), 'A refusal has changed the engine.')

    def _refused(self) -> Sequence[MachineSpec]:
        if not self.bench.refused:
            raise CannotBeShown('the bench of the driver names no values that are refused')
        return self.bench.refused

    def _problems(self, spec: ClusterSpec | None = None, **machine: Any) -> Sequence[Problem]:
        asked = spec or dataclasses.replace(self.spec(), **machine)
        cluster = self.record(asked, 'kit-wrong')
        driver, plan = self.played.open(), samples.creation(cluster)
        return tuple(driver.validate(context=self.context(), cluster=cluster, plan=plan))

    def _named(self, found: Sequence[Problem], expected: Iterable[str]) -> None:
        """Fail unless there are problems at some places and at no others, each with words."""
        self.assertEqual(
            set(expected), {one.path for one in found},
            f'The path of a problem is a place in the cluster file, such as parameters.port: '
            f'{_told(found)}',
        )  # fmt: skip
        silent = [one.path for one in found if not one.message.strip()]
        self.none_of(silent, 'A problem has no message.')


def _beside(right: MachineSpec, wrong: MachineSpec) -> Iterable[MachineSpec]:
    """Yield values that are right with others, which come last, or first."""
    last = samples.merged(right, wrong)
    first = {**wrong.parameters, **right.parameters, **wrong.parameters}
    yield last
    yield dataclasses.replace(last, parameters=first)


def _places(machine: MachineSpec) -> set[str]:
    """Return the places of values in a cluster file."""
    fields = {one.name for one in dataclasses.fields(MachineSpec)} - {'parameters'}
    given = {name for name in fields if getattr(machine, name)}
    return given | {f'parameters.{name}' for name in machine.parameters}


def _told(found: Sequence[Problem]) -> str:
    return '; '.join(str(one) for one in found) or 'none'
