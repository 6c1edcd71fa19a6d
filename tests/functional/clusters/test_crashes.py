"""Crash tests of the in-tree cluster drivers: kill -9 at commits, and cloud failures.

KILN_CRASHES is the number of processes that are killed at times that KILN_CRASH_SEED
chooses; with KILN_FULL every operation is killed at each of its commits.
"""

import os
import unittest

from kiln.clusters.models import OperationKind
from kiln.testing.clusters import CrashConformance
from tests.conformance.test_clusters import EXAMPLE, NODES

ALL = frozenset(OperationKind)
FULL = 'KILN_FULL' in os.environ


class NodesCrashes(CrashConformance, unittest.TestCase):
    driver = NODES
    exhaustive = ALL if FULL else frozenset()
    kills = 3 if FULL else 2


class ExampleCrashes(CrashConformance, unittest.TestCase):
    driver = EXAMPLE
    exhaustive = ALL if FULL else frozenset()
    kills = 3 if FULL else 1
    seed = CrashConformance.seed + 1
