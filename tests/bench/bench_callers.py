"""What a caller pays: submitting, being rejected, being refused, while all hangs.

python -m tests.bench.bench_callers [--hang 60] [--callers 64]
"""

import argparse
import gc
import statistics
import sys
import threading
import time

import futurist

from kiln.compute.facade import Compute
from kiln.compute.stack import StackSettings
from kiln.compute_drivers.calls import Call
from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.compute_drivers.noop.faults import Fault
from kiln.exceptions import CircuitOpenError, OperationRejected
from kiln.wrappers.executor.executor import ExecutorDriver
from kiln.wrappers.executor.settings import ExecutorSettings
from kiln.wrappers.operations.scheduler import Scheduler

BOUNDS_US = {
    'submit p50': 20,
    'submit p99': 5_000,
    'submit max': 200_000,
    'rejection p50': 1_000,
    'refusal p50': 100,
}


class Null(NoopDriver):
    """A backend that costs nothing, so that what is left is kiln."""

    def _status(self, amphora_id):
        return None


def timed(function, count):
    taken = []
    for _ in range(count):
        started = time.perf_counter()
        function()
        taken.append((time.perf_counter() - started) * 1e6)
    return sorted(taken)


def raises(error, function):
    def run():
        try:
            function()
        except error:
            return
        raise SystemExit(f'{function} did not raise {error.__name__}')

    return run


def hanging(callers, seconds, each=100):
    """Return what submitting took for many callers while the backend hangs."""
    cloud = NoopCloud()
    cloud.faults.add(Fault(call='status', action='hang', seconds=seconds))
    executor = ExecutorSettings(max_queue=callers * each, timeout_s=seconds * 2)
    compute = Compute(NoopDriver(cloud=cloud), settings=StackSettings(executor=executor))
    # The first call of a process imports the pool, while all others wait for that.
    compute.list_amphorae().result()
    # To look through all that was imported is not kiln's work, and comes at any time.
    gc.collect()
    gc.freeze()
    taken, start = [], threading.Barrier(callers)

    def call():
        start.wait()
        for _ in range(each):
            # Callers do other things too; a tight loop of 64 threads would
            # measure the interpreter's lock alone.
            taken.extend(timed(lambda: compute.status('x'), 1))
            time.sleep(0.010)

    threads = [threading.Thread(target=call) for _ in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    fill = executor.max_queue
    while fill:
        try:
            compute.status('x')
        except OperationRejected:
            break
        fill -= 1
    rejected = timed(raises(OperationRejected, lambda: compute.status('x')), 500)
    compute.open_circuit('read')
    refused = timed(raises(CircuitOpenError, lambda: compute.status('x')), 500)
    compute.close(0.1)
    return sorted(taken), rejected, refused


def admitted():
    """Return the p50 of an admitted submit, and of futurist's own."""
    scheduler = Scheduler()
    executor = ExecutorDriver(Null(), scheduler=scheduler, settings=ExecutorSettings())
    ours = timed(lambda: executor.submit(Call.STATUS, 'x'), 5_000)
    executor.close()
    scheduler.close()
    with futurist.ThreadPoolExecutor(max_workers=16) as pool:
        theirs = timed(lambda: pool.submit(int), 5_000)
    return statistics.median(ours), statistics.median(theirs)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--hang', type=float, default=60.0)
    parser.add_argument('--callers', type=int, default=64)
    args = parser.parse_args()
    taken, rejected, refused = hanging(args.callers, args.hang)
    figures = {
        'submit p50': statistics.median(taken),
        'submit p99': taken[int(len(taken) * 0.99)],
        'submit max': taken[-1],
        'rejection p50': statistics.median(rejected),
        'refusal p50': statistics.median(refused),
    }
    good = True
    for name, figure in figures.items():
        good = good and figure <= BOUNDS_US[name]
        print(f'{name:<16} {figure:>10.1f} us   (at most {BOUNDS_US[name]} us)')
    ours, theirs = admitted()
    print(f'admitted submit  {ours:>10.1f} us = {ours / theirs:.2f} x futurist ({theirs:.1f} us)')
    good = good and ours <= 2.5 * theirs
    if not good:
        print('BEYOND ITS BOUND')
    return 0 if good else 1


if __name__ == '__main__':
    sys.exit(main())
