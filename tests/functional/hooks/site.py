"""Test site whose cloud and store are files, so that both outlive a process."""

import contextlib
import os

from kiln.clock import SYSTEM_CLOCK
from kiln.compute.facade import Compute
from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.db.store import open_store
from kiln.engine.conductor import Conductor
from kiln.engine.context import Backends, EngineSettings, Parts
from kiln.fairness.threads import FairThreads
from tests.unit.engine.site import STACK, OneDriver, Plain

#: Long enough that an action is running when the next step is written.
LATENCIES = {
    'accept_s': 0.005, 'build_s': 0.03, 'delete_s': 0.02, 'reboot_s': 0.02, 'rebuild_s': 0.02,
}  # fmt: skip
SETTINGS = EngineSettings(settle_s=0.02, lease_s=0.5, quiesce_s=0.05, poll_s=0.02)


def open_cloud(folder):
    """Open the cloud in a directory."""
    return NoopCloud(os.path.join(folder, 'cloud.db'), **LATENCIES)


def open_site_store(folder):
    """Open the store in a directory."""
    return open_store(f'sqlite:///{folder}/kiln.db')


@contextlib.contextmanager
def conducting(store, cloud, **more):
    """Run a conductor and yield it; ``more`` are additional parts."""
    backends = Backends(
        lambda name: Compute(NoopDriver(cloud=cloud), settings=STACK), default='noop'
    )
    threads = FairThreads(4, each=4, name='kiln-cluster-driver')
    conductor = Conductor(
        Parts(
            store=store, backends=backends, drivers=OneDriver(Plain()), clock=SYSTEM_CLOCK,
            run=threads.run, settings=SETTINGS, **more,
        )
    )  # fmt: skip
    conductor.start()
    try:
        yield conductor
    finally:
        conductor.close()
        backends.close()
        threads.close()
