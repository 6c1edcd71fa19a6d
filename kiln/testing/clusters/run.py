"""Runner of the kit for cluster drivers that returns a report."""

from __future__ import annotations

import unittest
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from kiln.clusters.models import OperationKind
from kiln.testing.clusters.behaviours.crashes import CrashConformance
from kiln.testing.clusters.fixture import ClusterFixture
from kiln.testing.clusters.subjects import find_driver
from kiln.testing.clusters.suite import ClusterDriverConformance
from kiln.testing.conformance.report.report import BehaviourResult, ConformanceReport
from kiln.testing.conformance.report.showing import fits, show


def run_cluster_conformance(
    driver: str,
    *,
    select: Iterable[str] | None = None,
    parameters: Mapping[str, Any] | None = None,
    crashes: int | None = None,
    thorough: bool = False,
    progress: Callable[[BehaviourResult], None] | None = None,
) -> ConformanceReport:
    """Judge a cluster driver by every behaviour of the kit, or by those selected.

    :param driver: A directory, ``module:Class``, or the name of an installed driver.
    :param select: Names or subjects of behaviours, with wildcards.
    :param parameters: Values of parameters that need more than a value of their type.
    :param crashes: Number of processes killed at random; None uses the default, a few.
    :param thorough: Kill at each commit of each operation, not at some of them.
    :param progress: Called with the result of each behaviour as it ends.
    :raises ClusterError: the driver does not exist, or its files are wrong.
    """
    find_driver(driver)
    attributes: dict[str, Any] = {
        'driver': driver,
        'parameters': parameters or {},
        'exhaustive': frozenset(OperationKind if thorough else ()),
    }
    if crashes is not None:
        attributes['crashes'] = crashes
    results = []
    for suite, subject, names in behaviours(select):
        judged: Any = type(subject, (suite, unittest.TestCase), attributes)
        try:
            for name in names:
                result = show(judged(name), subject, name)
                results.append(result)
                if progress is not None:
                    progress(result)
        finally:
            judged.doClassCleanups()
    return ConformanceReport(driver=find_driver(driver).name, results=tuple(results))


def behaviours(
    select: Iterable[str] | None = None,
) -> Iterator[tuple[type[ClusterFixture], str, list[str]]]:
    """Yield each suite with its subject and the names of its behaviours, in order."""
    wanted = None if select is None else tuple(select)
    for suite in (*ClusterDriverConformance.__bases__, *CrashConformance.__bases__):
        subject = (suite.__doc__ or '').partition('.')[0]
        names = [
            name
            for name in vars(suite)
            if name.startswith('test_')
            and (wanted is None or any(fits(one, subject, name) for one in wanted))
        ]
        if names:
            yield suite, subject, names
