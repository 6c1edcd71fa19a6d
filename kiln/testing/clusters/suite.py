"""Conformance suite of cluster drivers, and its runner that returns a report."""

from __future__ import annotations

import time
import unittest
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kiln.cluster_drivers.base import ClusterDriver, NodeClusterDriver
from kiln.cluster_drivers.command.command_driver import CommandDriver
from kiln.clusters.models import OperationKind
from kiln.testing.clusters.behaviours.answers import Answers
from kiln.testing.clusters.behaviours.choice import Choice
from kiln.testing.clusters.behaviours.crashes import CrashConformance
from kiln.testing.clusters.behaviours.declaration import Declaration
from kiln.testing.clusters.behaviours.disclosure import Disclosure
from kiln.testing.clusters.behaviours.each_node import EachNode
from kiln.testing.clusters.behaviours.in_machines import InMachines
from kiln.testing.clusters.behaviours.incomplete import Incomplete
from kiln.testing.clusters.behaviours.legible import Legible
from kiln.testing.clusters.behaviours.life import Life
from kiln.testing.clusters.behaviours.own_engine import OwnEngine
from kiln.testing.clusters.behaviours.own_engine_answers import EngineAnswers
from kiln.testing.clusters.behaviours.own_engine_apart import Apart, Leavings, Memory
from kiln.testing.clusters.behaviours.own_engine_existing import GoingOn
from kiln.testing.clusters.behaviours.own_engine_life import OwnEngineLife, WhatStands
from kiln.testing.clusters.behaviours.own_engine_previews import Previews
from kiln.testing.clusters.behaviours.own_engine_programs import ProgramConduct
from kiln.testing.clusters.behaviours.own_engine_refusals import EngineRefusals
from kiln.testing.clusters.behaviours.own_engine_repeats import EngineRepeats
from kiln.testing.clusters.behaviours.own_engine_truth import EngineTruth
from kiln.testing.clusters.behaviours.repeats import Repeats
from kiln.testing.clusters.behaviours.same_answer import SameAnswer
from kiln.testing.clusters.behaviours.truth import Truth
from kiln.testing.clusters.behaviours.user_way import UserWay
from kiln.testing.clusters.behaviours.verb_runs import VerbRuns
from kiln.testing.clusters.behaviours.versions import Versions
from kiln.testing.clusters.behaviours.waiting import Waiting
from kiln.testing.clusters.beside import Beside, kills
from kiln.testing.clusters.fixture import ClusterFixture
from kiln.testing.clusters.subjects import find_driver
from kiln.testing.report import BehaviourResult, ConformanceReport
from kiln.testing.runner import Behaviour, Interrupted, Progress, run, selected, subject_of

_ADVICE = (
    'To have more shown, write a bench for the driver, or more methods of its bench; it opens '
    'the driver on an engine for tests, and lists what stands there. See "How the kit judges an '
    'engine of your own" in the guide of cluster drivers.'
)


class ClusterDriverConformance(
    Declaration,
    Answers,
    SameAnswer,
    EachNode,
    Legible,
    Incomplete,
    UserWay,
    Choice,
    Waiting,
    Repeats,
    Truth,
    InMachines,
    Disclosure,
    VerbRuns,
    Versions,
    Life,
):
    """Every promise of a driver of nodes; without the crash tests."""


class OwnEngineConformance(
    Declaration,
    Answers,
    OwnEngineLife,
    WhatStands,
    Previews,
    EngineRefusals,
    EngineRepeats,
    EngineTruth,
    Apart,
    Leavings,
    Memory,
    GoingOn,
    EngineAnswers,
):
    """Every promise of a driver with an engine of its own."""


class ProgramConformance(*OwnEngineConformance.__bases__, ProgramConduct):  # type: ignore[misc]
    """Every promise of a driver whose engine is a program."""


def run_cluster_conformance(
    driver: str,
    *,
    select: Iterable[str] | None = None,
    parameters: Mapping[str, Any] | None = None,
    groups: Mapping[str, int] | None = None,
    crashes: int | None = None,
    thorough: bool = False,
    progress: Progress | None = None,
) -> ConformanceReport:
    """Judge a cluster driver by every behaviour of the kit, or by those selected.

    :param driver: A directory, ``module:Class``, or the name of an installed driver.
    :param select: Names or subjects of behaviours, with wildcards.
    :param parameters: Values of parameters that need more than a value of their type.
    :param groups: The nodes of each role, for a driver that needs certain ones.
    :param crashes: Number of processes killed at random; None uses the default, a few.
    :param thorough: Kill at each commit and call of each operation, not at three of them.
    :param progress: Called with the result of each behaviour as it ends.
    :raises Interrupted: on Ctrl-C; it has the report of the behaviours that ended before.
    :raises ClusterError: the driver does not exist, or its files are wrong.
    """
    driver_class = find_driver(driver)
    attributes: dict[str, Any] = {
        'driver': driver,
        'parameters': parameters or {},
        'exhaustive': frozenset(OperationKind if thorough else ()),
    }
    if groups:
        attributes['groups'] = groups
    if crashes is not None:
        attributes['crashes'] = crashes
    started = time.monotonic()
    try:
        results = _results(attributes, list(behaviours(select, driver_class)), progress)
    except Interrupted as exc:
        exc.report = ConformanceReport(
            driver=driver_class.name,
            results=exc.results,
            took_s=time.monotonic() - started,
            interrupted_in=exc.running,
        )
        raise
    own = not issubclass(driver_class, NodeClusterDriver)
    return ConformanceReport(
        driver=driver_class.name,
        results=results,
        took_s=time.monotonic() - started,
        essential=_essential() if own else frozenset(),
        advice=_ADVICE if own else '',
    )


def _results(
    attributes: Mapping[str, Any], chosen: Sequence[Behaviour], progress: Progress | None
) -> tuple[BehaviourResult, ...]:
    """Run behaviours, with those that kill processes beside the others."""
    given: Any = type('Given', (ClusterFixture, unittest.TestCase), dict(attributes))
    with Beside(attributes, chosen) as beside:
        found = run(given, (one for one in chosen if not kills(one)), progress)
        # They are the last of the kit.
        return (*found, *beside.results(progress))


def _essential() -> frozenset[str]:
    """Return the subjects that show what a driver's own engine does."""
    return frozenset(
        subject_of(suite)
        for suite in OwnEngineConformance.__bases__
        if issubclass(suite, OwnEngine)
    )


def _own(driver_class: type[ClusterDriver]) -> tuple[type, ...]:
    """Return the suites of a driver with an engine of its own."""
    is_program = issubclass(driver_class, CommandDriver)
    return (ProgramConformance if is_program else OwnEngineConformance).__bases__


def behaviours(
    select: Iterable[str] | None = None, driver_class: type[ClusterDriver] | None = None
) -> Iterator[Behaviour]:
    """Yield each behaviour, or those selected, in the order of the kit.

    :param driver_class: only the behaviours of drivers of its kind; None yields all.
    """
    nodes = (*ClusterDriverConformance.__bases__, *CrashConformance.__bases__)
    suites = (*nodes, *ProgramConformance.__bases__)
    if driver_class is not None:
        suites = nodes if issubclass(driver_class, NodeClusterDriver) else _own(driver_class)
    return selected(dict.fromkeys(suites), select)
