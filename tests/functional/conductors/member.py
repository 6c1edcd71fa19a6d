"""A conductor in a process of its own, until its input ends.

    python -m tests.functional.conductors.member STORE KEYS CLOUD SOURCE [TIMEOUT_S [ACCEPT_S]]

It prints ``ready`` on stdout, and its log on stderr; at SIGUSR1 also the stacks of its
threads.
"""

import contextlib
import dataclasses
import faulthandler
import logging
import os
import signal
import sys

from kiln.clock import SYSTEM_CLOCK
from kiln.compute.facade import Compute
from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.db.store import open_store
from kiln.engine.conductor import Conductor
from kiln.engine.context import Backends, EngineSettings, Parts
from kiln.engine.work_sources.opening import open_source
from kiln.fairness.threads import FairThreads
from tests.unit.engine.site import STACK, OneDriver, Plain

LATENCIES = {'build_s': 0.3, 'delete_s': 0.1}
SETTINGS = EngineSettings(settle_s=0.1, lease_s=2.0, quiesce_s=0.3, poll_s=0.3)


def main(store_url, keys, cloud_path, where, call_timeout_s='60', accept_s='0.01'):
    faulthandler.register(signal.SIGUSR1)
    executor = dataclasses.replace(STACK.executor, timeout_s=float(call_timeout_s))
    guards = dataclasses.replace(STACK, executor=executor)
    logging.basicConfig(format=f'%(asctime)s {os.getpid()} %(name)s %(message)s')
    logging.getLogger('kiln').setLevel(logging.INFO)
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(open_store(store_url, keys=keys or None))
        cloud = NoopCloud(cloud_path, accept_s=float(accept_s), **LATENCIES)
        backends = Backends(
            lambda name: Compute(NoopDriver(cloud=cloud), settings=guards), default='noop'
        )
        stack.callback(backends.close)
        threads = FairThreads(4, each=4, name='kiln-cluster-driver')
        stack.callback(threads.close)
        source = open_source(where, store, claim_s=SETTINGS.lease_s, sweep_s=5.0)
        stack.callback(source.close)
        parts = Parts(
            store=store, backends=backends, drivers=OneDriver(Plain()), clock=SYSTEM_CLOCK,
            run=threads.run, settings=SETTINGS,
        )  # fmt: skip
        conductor = Conductor(parts, source=source)
        stack.callback(conductor.close)
        conductor.start()
        print('ready', flush=True)
        sys.stdin.read()
    return 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
