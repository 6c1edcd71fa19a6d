"""What calls on the simulated cloud cost, with few and with many machines.

    python -m tests.bench.bench_noop [--sizes 1000,10000,100000]

Prints microseconds a call, the best of several rounds, and how much dearer
each is with the most machines than with the fewest. Fails where a build is
dearer by more than 1.3.
"""

import argparse
import itertools
import sys
import time

from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.testing.clock import VirtualClock

ROUNDS = 15
CALLS = 200
BOUND = 1.3


def cost_us(call):
    """Return the microseconds of one call in the best round."""
    best = float('inf')
    for _ in range(ROUNDS):
        started = time.perf_counter()
        for _ in range(CALLS):
            call()
        best = min(best, (time.perf_counter() - started) / CALLS)
    return best * 1e6


def measure(count):
    """Return the cost of each kind of call among that many machines."""
    clock = VirtualClock()
    driver = NoopDriver(cloud=NoopCloud(clock=clock, build_s=30))
    names = (f'bench-{i}' for i in itertools.count())
    ids = [driver.build(name=next(names)) for _ in range(count)]
    keys = [instance.build_key for instance in itertools.islice(driver.list_amphorae(), 1000)]
    started = time.perf_counter()
    clock.advance(30)
    assert driver.status(ids[0]).ready
    due_us = (time.perf_counter() - started) / count * 1e6
    cursor = driver.changes().cursor
    turn = itertools.count()

    def some(values):
        return values[next(turn) * 7919 % len(values)]

    cost = {
        'status': cost_us(lambda: driver.status(some(ids))),
        'get': cost_us(lambda: driver.get_amphora(amphora_id=some(ids))),
        'find_build': cost_us(lambda: driver.find_build(some(keys))),
        'find by name': cost_us(lambda: driver.get_amphora(f'bench-{next(turn) % count}')),
        'no changes': cost_us(lambda: driver.changes(cursor)),
        'build': cost_us(lambda: driver.build(name=next(names))),
        'come due, each': due_us,
    }
    started = time.perf_counter()
    listed = sum(1 for _ in driver.list_amphorae())
    cost['list, each'] = (time.perf_counter() - started) / listed * 1e6
    some_ids = ids[:1000]
    cost['statuses, each'] = cost_us(lambda: driver.statuses(some_ids[:100])) / 100
    return cost


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--sizes', default='1000,10000,100000')
    sizes = [int(size) for size in parser.parse_args().sizes.split(',')]
    table = {size: measure(size) for size in sizes}
    print(f'{"us per call":16}' + ''.join(f'{size:>12}' for size in sizes) + '       ratio')
    for name in table[sizes[0]]:
        figures = [table[size][name] for size in sizes]
        row = ''.join(f'{figure:12.1f}' for figure in figures)
        print(f'{name:16}{row}{figures[-1] / figures[0]:12.2f}')
    ratio = table[sizes[-1]]['build'] / table[sizes[0]]['build']
    return 1 if ratio > BOUND else 0


if __name__ == '__main__':
    sys.exit(main())
