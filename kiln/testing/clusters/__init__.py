"""The conformance kit for cluster drivers: every promise of the contract, as a test.

An author writes one class, and has all of it judged by any test runner::

    class AcmeConformance(ClusterDriverConformance, unittest.TestCase):
        driver = 'drivers/acme_v1'

and :class:`CrashConformance` in the same way, which kills the processes at work at each
commit of each operation. :func:`run_cluster_conformance` runs both without a test runner,
and returns a report; so does ``kiln driver test PATH``.
"""

from kiln.testing.clusters.crashes import CrashConformance
from kiln.testing.clusters.run import run_cluster_conformance
from kiln.testing.clusters.site import Site
from kiln.testing.clusters.subjects import find_driver
from kiln.testing.clusters.suite import ClusterDriverConformance

__all__ = [
    'ClusterDriverConformance',
    'CrashConformance',
    'Site',
    'find_driver',
    'run_cluster_conformance',
]
