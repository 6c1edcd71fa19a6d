"""``kiln`` with a poller that takes a stack for left alone after seconds.

python -m tests.functional.heat.conductor --config-file FILE conductor
"""

import sys

from kiln.cli.main import main
from kiln.cluster_drivers.heat.base import HeatDriver
from kiln.cluster_drivers.heat.poller import HeatPoller

#: Longer than Heat takes for most resources of these tests; a request for nothing does no harm.
QUIET_S = 12.0

if __name__ == '__main__':
    HeatDriver.poller = HeatPoller(quiet_s=QUIET_S)
    sys.exit(main())
