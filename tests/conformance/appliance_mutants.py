"""What judges mutants of the Appliance driver, for ``kiln driver mutate``.

The kit on a pool where nothing takes time, and on machines that are claimed, probed, rebooted
and wiped for real. Name a class of this module before ``tests.unit.compute_drivers.appliance``.
"""

import tests.unhurried  # noqa: F401  # before tests with examples
from tests.conformance import test_appliance


class InstantPool(test_appliance.InstantPoolConformance):
    pass


class WorkingPool(test_appliance.WorkingPoolConformance):
    timeout_s = 20.0
