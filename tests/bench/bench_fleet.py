"""Many builds in flight at once: threads, memory, time, and nothing lost.

    python -m tests.bench.bench_fleet [--builds 10000] [--latency 30]
    python -m tests.bench.bench_fleet --virtual [--builds 100000]

The first runs on the real clock. The second runs on a virtual one and
compares the cost per build of a small and of a large fleet.
"""

import argparse
import functools
import sys
import threading
import time

from kiln.clock import SYSTEM_CLOCK
from kiln.compute.facade import Compute
from kiln.compute.goals import Until
from kiln.compute.stack import StackSettings
from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.testing.clock import VirtualClock
from kiln.wrappers.executor.settings import ExecutorSettings


def rss_mb():
    with open('/proc/self/statm') as statm:
        return int(statm.read().split()[1]) * 4096 / 1e6


def fleet(count, latency_s, clock=SYSTEM_CLOCK):
    cloud = NoopCloud(clock=clock, build_s=latency_s)
    settings = StackSettings(executor=ExecutorSettings(max_queue=count + 1))
    compute = Compute(NoopDriver(cloud=cloud), settings=settings)
    operations = [
        compute.build(build_key=f'fleet-{i}', until=Until.ACTIVE, timeout=latency_s * 1000)
        for i in range(count)
    ]
    return cloud, compute, operations


def settle(operations, holds, tick=lambda: None):
    for operation in operations:
        while not holds(operation):
            tick()
            time.sleep(0.005)


def check(cloud, operations):
    ids = {operation.result() for operation in operations}
    keys = [instance.build_key for instance in cloud.instances()]
    if len(ids) != len(operations) or len(keys) != len(set(keys)) or len(keys) != len(ids):
        raise SystemExit(f'LOST OR DOUBLED: {len(operations)} {len(ids)} {len(set(keys))}')


def real(count, latency_s):
    before = rss_mb()
    started = time.monotonic()
    cloud, compute, operations = fleet(count, latency_s)
    submitted = time.monotonic() - started
    threads, memory = 0, 0.0
    while not all(operation.done() for operation in operations):
        threads = max(threads, threading.active_count())
        memory = max(memory, rss_mb() - before)
        time.sleep(0.25)
    took = time.monotonic() - started
    check(cloud, operations)
    compute.close()
    print(
        f'{count} builds of {latency_s:g} s: submitted in {submitted:.2f} s, all active after '
        f'{took:.1f} s = {took / latency_s:.2f} x the latency, at most {threads} threads, '
        f'{memory:.0f} MB more'
    )
    return took / latency_s <= 1.3 and threads <= 32 and memory <= 150


def cpu_s(size):
    clock = VirtualClock()
    started = time.process_time()
    cloud, compute, operations = fleet(size, 30.0, clock)
    # No virtual time passes until the cloud has agreed to all, or the clock
    # would run away from the threads that do the work.
    settle(operations, lambda op: op.amphora_id is not None or op.done())
    clock.advance(30)
    settle(operations, lambda op: op.done(), tick=functools.partial(clock.advance, 1))
    took = time.process_time() - started
    check(cloud, operations)
    compute.close()
    return took


def virtual(count):
    cost_us = {}
    for size in sorted({min(1_000, count), min(10_000, count), count}):
        # A small fleet lasts a moment, which may be a bad one: take several.
        fleets = max(1, min(20, count // size))
        cost_us[size] = sum(cpu_s(size) for _ in range(fleets)) / fleets / size * 1e6
        print(f'{size:>7} builds in flight, virtual clock: {cost_us[size]:.0f} us of CPU each')
    ratio = cost_us[max(cost_us)] / cost_us[min(cost_us)]
    print(f'cost per build, largest to smallest fleet: {ratio:.2f}')
    return ratio <= 1.3


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--builds', type=int)
    parser.add_argument('--latency', type=float, default=30.0)
    parser.add_argument('--virtual', action='store_true')
    args = parser.parse_args()
    if args.virtual:
        good = virtual(args.builds or 100_000)
    else:
        good = real(args.builds or 10_000, args.latency)
    if not good:
        print('BEYOND ITS BOUND')
    return 0 if good else 1


if __name__ == '__main__':
    sys.exit(main())
