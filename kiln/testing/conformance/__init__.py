"""Conformance kit for compute drivers: every promise of the contract, as a test.

A vendor writes one class::

    class AcmeConformance(ComputeDriverConformance, unittest.TestCase):
        def make_driver(self):
            return AcmeDriver(...)

and a second one with :class:`FaultConformance` where the backend can be made to fail.
A :class:`Bench` has the values to test a driver with, and its faults.
:func:`run_conformance` runs the same behaviours against a given driver and
returns a report.
"""

from kiln.compute_drivers.authoring.bench import Bench, CannotBeShown, Faults, Refusal
from kiln.testing.conformance.suite import (
    ComputeDriverConformance,
    FaultConformance,
    run_conformance,
)
from kiln.testing.report import BehaviourOutcome, BehaviourResult, ConformanceReport

__all__ = [
    'BehaviourOutcome',
    'BehaviourResult',
    'Bench',
    'CannotBeShown',
    'ComputeDriverConformance',
    'ConformanceReport',
    'FaultConformance',
    'Faults',
    'Refusal',
    'run_conformance',
]
