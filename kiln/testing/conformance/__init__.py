"""The conformance kit: every promise of the compute contract, as a test.

A vendor writes one class::

    class AcmeConformance(ComputeDriverConformance, unittest.TestCase):
        def make_driver(self):
            return AcmeDriver(...)

and :class:`FaultConformance` beside it where the backend can be made to fail.
:func:`run_conformance` runs the same against a driver that is handed in, and
returns a report.
"""

from kiln.testing.conformance.faults import FaultConformance, Faults
from kiln.testing.conformance.fixture import CannotBeShown
from kiln.testing.conformance.report import BehaviourOutcome, BehaviourResult, ConformanceReport
from kiln.testing.conformance.run import run_conformance
from kiln.testing.conformance.suite import ComputeDriverConformance

__all__ = [
    'BehaviourOutcome',
    'BehaviourResult',
    'CannotBeShown',
    'ComputeDriverConformance',
    'ConformanceReport',
    'FaultConformance',
    'Faults',
    'run_conformance',
]
