"""Runner of the kit for compute drivers that returns a report."""

from __future__ import annotations

import contextlib
import unittest
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kiln.clock import Clock
from kiln.compute.facade import Compute
from kiln.compute_drivers.authoring.bench import Faults, bench_of
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.testing.conformance.behaviours.faults import FaultConformance
from kiln.testing.conformance.fixture import ConformanceFixture
from kiln.testing.conformance.report.report import BehaviourResult, ConformanceReport
from kiln.testing.conformance.report.showing import fits, show
from kiln.testing.conformance.suite import ComputeDriverConformance
from kiln.testing.conformance.sweep import remains, sweep

MakeDriver = Callable[[], AmphoraComputeDriver]
MakeCompute = Callable[[AmphoraComputeDriver], Compute]
MakeFaults = Callable[[AmphoraComputeDriver], Faults]


def run_conformance(
    make_driver: MakeDriver,
    *,
    faults: MakeFaults | None = None,
    guards: MakeCompute = Compute,
    clock: Clock | None = None,
    select: Iterable[str] | None = None,
    build_arguments: Mapping[str, Any] | None = None,
    port_ids: Sequence[str] = (),
    network_ids: Sequence[str] = (),
    timeout_s: float = ConformanceFixture.timeout_s,
    progress: Callable[[BehaviourResult], None] | None = None,
) -> ConformanceReport:
    """Judge a driver by every behaviour of the kit, or by those selected.

    ``make_driver`` is called for each behaviour. The backend can be live: the names and
    keys of all instances of a run have one prefix, only these instances are touched,
    and they are deleted even if the run fails. Arguments, ports, networks and
    ``faults`` (which make the backend of a driver fail) default to the driver's
    bench. ``guards`` puts a driver behind its guards, to test what is promised of
    builds there. ``select`` has names or subjects, with wildcards; ``progress`` is
    called with the result of each behaviour as it ends.

    :raises DriverLoadError: the driver names a bench that cannot be imported.
    """

    class Given(ConformanceFixture, unittest.TestCase):
        def make_driver(self) -> AmphoraComputeDriver:
            return make_driver()

        def make_compute(self, driver: AmphoraComputeDriver) -> Compute:
            return guards(driver)

        def make_faults(self, driver: AmphoraComputeDriver) -> Faults:
            return self.bench if faults is None else faults(driver)

    Given.prefix = f'kit-{uuid.uuid4().hex[:8]}'
    Given.clock = clock
    Given.timeout_s = timeout_s
    Given.build_arguments = build_arguments or {}
    Given.port_ids, Given.network_ids = port_ids, network_ids

    with contextlib.closing(make_driver()) as driver:
        # A missing bench is reported once, not by each behaviour.
        bench_of(driver)
    results = []
    try:
        for suite, subject, name in behaviours(select):
            case = type(subject, (Given, suite), {})(name)
            result = show(case, subject, name)
            results.append(result)
            if progress is not None:
                progress(result)
    except BaseException:
        # Interrupted: send the deletes, but do not wait for them.
        with contextlib.closing(make_driver()) as driver:
            sweep(driver, Given.prefix)
        raise
    with contextlib.closing(make_driver()) as driver:
        left = remains(driver, Given.prefix, clock or driver.clock, timeout_s)
        return ConformanceReport(driver=driver.name, results=tuple(results), left_behind=left)


def behaviours(
    select: Iterable[str] | None = None,
) -> Iterator[tuple[type[ConformanceFixture], str, str]]:
    """Yield suite, subject and name of each behaviour, in the order of the kit."""
    wanted = None if select is None else tuple(select)
    for suite in (*ComputeDriverConformance.__bases__, FaultConformance):
        subject = (suite.__doc__ or '').partition('.')[0]
        for name in vars(suite):
            if name.startswith('test_') and (
                wanted is None or any(fits(one, subject, name) for one in wanted)
            ):
                yield suite, subject, name
