"""What CI leaves out once its time is up.

Some suites try a hundred behaviours on a server that needs seconds for each. CI runs them for as
long as KILN_LONG_UNTIL says (seconds since 1970), so that it ends on a slow machine too. Later it
runs a small share, which is the same each time, and in the end nothing; it says what it has left
out. Without the variable everything runs, as in a soak.
"""

import collections
import hashlib
import os
import time

#: By the beginning of a test's name: one test in so many runs at any time, with 0 no test.
#: The first that fits counts; a test that no beginning fits always runs.
SHARES = {
    'tests/bench/': 0,
    'tests/conformance/test_appliance.py': 6,
    'tests/conformance/test_clusters.py': 6,
    'tests/conformance/test_generated.py': 6,
    'tests/conformance/test_noop.py': 6,
    'tests/conformance/test_wrapped.py': 6,
    'tests/functional/ansible_swarm/': 0,
    'tests/functional/cli/test_completion.py': 2,
    'tests/functional/cli/test_forks.py': 5,
    'tests/functional/clusters/test_crashes.py': 4,
    'tests/functional/clusters/test_heat.py': 16,
    'tests/functional/clusters/test_models.py': 8,
    'tests/functional/clusters/test_swarm.py': 8,
    'tests/functional/conductors/test_tenants.py': 0,
    'tests/functional/db/': 4,
    'tests/functional/devcloud/': 0,
    'tests/functional/docker/test_conformance.py': 16,
    'tests/functional/docker/test_driver.py': 3,
    'tests/functional/docker/test_restarts.py': 4,
    'tests/functional/docker/test_storm.py': 0,
    'tests/functional/foreign_drivers/': 4,
    'tests/functional/freshroot/': 0,
    'tests/functional/heat/test_adoption.py': 2,
    'tests/functional/heat/test_compute.py': 2,
    'tests/functional/heat/test_compute_conformance.py': 8,
    'tests/functional/heat/test_engine_kills.py': 0,
    'tests/functional/heat/test_heat.py': 4,
    'tests/functional/heat/test_kills.py': 0,
    'tests/functional/hostile/test_servers.py': 1,
    'tests/functional/hostile/': 0,
    'tests/functional/images/': 4,
    'tests/functional/ironic/test_conformance.py': 16,
    'tests/functional/ironic/test_kills.py': 0,
    'tests/functional/ironic/test_network_conformance.py': 16,
    'tests/functional/ironic/test_network_kills.py': 0,
    'tests/functional/ironic/test_redfish.py': 0,
    'tests/functional/nova/test_claims.py': 2,
    'tests/functional/nova/test_cluster_crashes.py': 0,
    'tests/functional/nova/test_conformance.py': 16,
    'tests/functional/nova/test_driver.py': 3,
    'tests/functional/nova/test_mistakes.py': 3,
    'tests/functional/nova/test_notifications.py': 0,
    'tests/functional/nova/test_security_groups.py': 2,
    'tests/functional/nova/test_storm.py': 0,
    'tests/functional/octavia/test_board_and_bus.py': 0,
    'tests/functional/octavia/test_cost.py': 0,
    'tests/functional/octavia/test_life.py': 2,
    'tests/functional/scaffold/': 4,
    'tests/functional/swarm/': 0,
    'tests/functional/swarm_heat/': 0,
    'tests/functional/swarm_nova/': 0,
    'tests/kit/test_written_before.py': 16,
    'tests/kit/': 6,
    'tests/octavia/': 2,
}
#: Seconds after which not even the small share goes on, so that a very slow machine ends, too.
LAST_S = 2100
LEFT_OUT = 'left out, as the time of this run is up'


def is_left_out(test: str) -> bool:
    """Return True if a test is not to begin any more."""
    late_s = time.time() - float(os.environ.get('KILN_LONG_UNTIL', 'inf'))
    return late_s > LAST_S or (late_s > 0 and not runs_always(test))


def runs_always(test: str) -> bool:
    """Return True if a test is in the share that runs at any time."""
    for beginning, one_in in SHARES.items():
        if test.startswith(beginning):
            return one_in > 0 and _drawn(test) % one_in == 0
    return True


def _drawn(test: str) -> int:
    return int.from_bytes(hashlib.sha256(test.encode()).digest()[:4])


def told(left_out: list[str]) -> str:
    """Return how many tests of which modules were left out."""
    modules = collections.Counter(test.split('::')[0] for test in left_out)
    return ', '.join(f'{count} of {module}' for module, count in sorted(modules.items()))
