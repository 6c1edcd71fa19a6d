"""Conformance suite of compute drivers, and its runner that returns a report."""

from __future__ import annotations

import contextlib
import unittest
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeGuard

from kiln.clock import Clock
from kiln.compute.facade import Compute
from kiln.compute_drivers.authoring.bench import Faults
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.exceptions import DriverLoadError, KilnError
from kiln.testing.conformance.behaviours.abilities import Abilities
from kiln.testing.conformance.behaviours.addresses import FixedAddresses
from kiln.testing.conformance.behaviours.arguments import Arguments, Files
from kiln.testing.conformance.behaviours.building import Building
from kiln.testing.conformance.behaviours.claiming import Claiming, LostClaims
from kiln.testing.conformance.behaviours.deleting import Deleting
from kiln.testing.conformance.behaviours.errors import Errors
from kiln.testing.conformance.behaviours.execution import Execution
from kiln.testing.conformance.behaviours.faults import Failures
from kiln.testing.conformance.behaviours.finding import Finding
from kiln.testing.conformance.behaviours.groups import Groups
from kiln.testing.conformance.behaviours.listing import Listing
from kiln.testing.conformance.behaviours.offers import Offers
from kiln.testing.conformance.behaviours.outages import Outages
from kiln.testing.conformance.behaviours.ports import Ports
from kiln.testing.conformance.behaviours.repeating import Repeating
from kiln.testing.conformance.behaviours.requests import Requests
from kiln.testing.conformance.behaviours.sharing import Sharing, Strangers
from kiln.testing.conformance.behaviours.states import States
from kiln.testing.conformance.behaviours.threads import Threads
from kiln.testing.conformance.behaviours.translation import Translation
from kiln.testing.conformance.behaviours.values import Values
from kiln.testing.conformance.behaviours.watching import Watching
from kiln.testing.conformance.fixture import ConformanceFixture
from kiln.testing.conformance.form import WrongBench, WrongForm, open_checked
from kiln.testing.conformance.sweep import remains, sweep
from kiln.testing.report import BehaviourOutcome, ConformanceReport
from kiln.testing.runner import (
    Behaviour,
    Interrupted,
    Progress,
    result_of,
    run,
    selected,
)


class ComputeDriverConformance(
    Building,
    Requests,
    FixedAddresses,
    Repeating,
    Deleting,
    Finding,
    Listing,
    Watching,
    Sharing,
    Strangers,
    Claiming,
    States,
    Execution,
    Ports,
    Groups,
    Offers,
    Arguments,
    Files,
    Errors,
    Threads,
    Values,
    Abilities,
):
    """Judges a compute driver; mix it into a TestCase that has ``make_driver``.

    An ability or an option that the driver lacks is not skipped: the suite
    checks that it is refused.
    """


class FaultConformance(Failures, LostClaims, Outages, Translation):
    """Judges a compute driver whose backend can be made to fail; mix it into a second TestCase."""


#: All subjects, in the order of the kit.
SUBJECTS = (*ComputeDriverConformance.__bases__, *FaultConformance.__bases__)


def run_conformance(
    make_driver: Callable[[], AmphoraComputeDriver],
    *,
    faults: Callable[[AmphoraComputeDriver], Faults] | None = None,
    guards: Callable[[AmphoraComputeDriver], Compute] = Compute,
    clock: Clock | None = None,
    select: Iterable[str] | None = None,
    build_arguments: Mapping[str, Any] | None = None,
    port_ids: Sequence[str] = (),
    network_ids: Sequence[str] = (),
    timeout_s: float = 0.0,
    progress: Progress | None = None,
) -> ConformanceReport:
    """Judge a driver by every behaviour of the kit, or by those selected.

    ``make_driver`` is called for each behaviour. The backend can be live: the names and
    keys of all instances of a run have one prefix, only these instances are touched,
    and they are deleted even if the run fails. Arguments, ports, networks,
    ``timeout_s`` (the seconds within which each effect must have taken place) and
    ``faults`` (which make the backend of a driver fail) default to the driver's
    bench. ``guards`` puts a driver behind its guards, to test what is promised of
    builds there. ``select`` has names or subjects, with wildcards; ``progress`` is
    called with the result of each behaviour as it ends.

    :raises Interrupted: on Ctrl-C; it has the report of the behaviours that ended before.
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

    wanted = tuple(behaviours(select))
    try:
        driver, bench = open_checked(make_driver)
    except WrongForm as exc:
        if not isinstance(exc, WrongBench) and _is_of_caller(exc.__cause__):
            raise exc.__cause__ from None
        return _of_wrong_form(exc, wanted, progress)
    driver.close()
    try:
        results = run(Given, wanted, progress)
    except BaseException as exc:
        if isinstance(exc, Interrupted):
            exc.report = ConformanceReport(
                driver=driver.name, results=exc.results, interrupted_in=exc.running
            )
        # Send the deletes, but do not wait for them. A second Ctrl-C ends even this.
        try:
            with contextlib.closing(make_driver()) as driver:
                sweep(driver, Given.prefix)
        finally:
            raise exc
    with contextlib.closing(make_driver()) as driver:
        left = remains(driver, Given.prefix, clock or driver.clock, timeout_s or bench.timeout_s)
        return ConformanceReport(driver=driver.name, results=results, left_behind=left)


def _is_of_caller(error: BaseException | None) -> TypeGuard[KilnError]:
    """Return True if opening failed for a reason that says nothing about the driver."""
    if isinstance(error, DriverLoadError):
        return error.install is not None
    return isinstance(error, KilnError)


def _of_wrong_form(
    wrong: WrongForm, wanted: Iterable[Behaviour], progress: Progress | None
) -> ConformanceReport:
    failed = next(behaviours([wrong.behaviour]))
    results = [result_of(failed, BehaviourOutcome.FAILED, str(wrong))]
    results += [
        result_of(one, BehaviourOutcome.NOT_RUN, f'Not run, because {wrong.behaviour} has failed.')
        for one in wanted
        if one != failed
    ]
    if progress is not None:
        for result in results:
            progress(result)
    return ConformanceReport(driver='the driver', results=tuple(results))


def behaviours(select: Iterable[str] | None = None) -> Iterator[Behaviour]:
    """Yield each behaviour, or those selected, in the order of the kit."""
    return selected(SUBJECTS, select)
