"""The conformance kit: every promise of the compute contract, as a test.

A vendor writes one class::

    class AcmeConformance(ComputeDriverConformance, unittest.TestCase):
        def make_driver(self):
            return AcmeDriver(...)

and :class:`FaultConformance` beside it where the backend can be made to fail.
What a driver is to be tried with, its faults among it, is its :class:`Bench`.
:func:`run_conformance` runs the same against a driver that is handed in, and
returns a report.
"""

from kiln.compute_drivers.authoring.bench import Bench, CannotBeShown, Faults
from kiln.testing.conformance.behaviours.faults import FaultConformance
from kiln.testing.conformance.report.report import (
    BehaviourOutcome,
    BehaviourResult,
    ConformanceReport,
)
from kiln.testing.conformance.report.run import run_conformance
from kiln.testing.conformance.suite import ComputeDriverConformance

__all__ = [
    'BehaviourOutcome',
    'BehaviourResult',
    'Bench',
    'CannotBeShown',
    'ComputeDriverConformance',
    'ConformanceReport',
    'FaultConformance',
    'Faults',
    'run_conformance',
]
