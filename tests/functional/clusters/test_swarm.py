"""The driver of Docker Swarm keeps every promise, on engines that a bench plays."""

import unittest

from kiln.testing.clusters import ClusterDriverConformance
from kiln.testing.clusters.behaviours.life import Life
from tests.functional.clusters.swarm_bench import SwarmBench


class SwarmConformance(
    *(one for one in ClusterDriverConformance.__bases__ if one is not Life), unittest.TestCase
):
    """On engines that a bench plays; a life with real ones is in tests/functional/swarm."""

    driver = 'kiln.cluster_drivers.swarm_debian_v1.driver:Driver'
    bench_class = SwarmBench
    # Its keys and certificates take a busy machine a while.
    soon_s = 30.0
