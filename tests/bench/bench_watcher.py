"""What a look costs by the number of waits, and how fast all of them end.

    python -m tests.bench.bench_watcher [--waits 100000]

The cost of a look must follow what has changed, not how many wait; the CPU
time of a whole wait must be the same in a small crowd and in a large one. The
garbage collector rests meanwhile: it walks all that lives, so with it even
making a bare future costs three times as much among 100,000 as among 1,000.
A third table counts what the backend must hand over under each way of asking, which
is where the rule in ``kiln.wrappers.watcher.poll`` comes from.
"""

import argparse
import gc
import statistics
import sys
import time
import tracemalloc

from kiln.clock import Deadline
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.models import Changes, ComputeStatus, Limits, State
from kiln.telemetry.events import Listener
from kiln.testing.clock import VirtualClock
from kiln.wrappers.operations.scheduler import Scheduler
from kiln.wrappers.watcher import poll
from kiln.wrappers.watcher.watcher import Watcher

CHANGES = 10
LOOKS = 40


class Backend(AmphoraComputeDriver):
    """Answers at no cost of its own, so that what is measured is the watcher."""

    limits = Limits()

    def __init__(self):
        self.name, self.clock = 'bench', VirtualClock()
        self.all, self.news = {}, []
        self.calls = self.rows = 0

    def put(self, amphora_id, state=State.BUILDING):
        status = ComputeStatus(amphora_id=amphora_id, state=state)
        self.all[amphora_id] = status
        self.news.append(status)

    def answered(self, answer, rows):
        self.calls += 1
        self.rows += rows
        return answer

    def _statuses(self, amphora_ids):
        return self.answered({one: self.all[one] for one in amphora_ids}, len(amphora_ids))

    def _changes(self, since):
        told = tuple(self.news if since else self.all.values())
        self.news = []
        return self.answered(Changes(statuses=told, cursor='here', complete=not since), len(told))

    def _build(self, request): ...
    def _delete(self, amphora_id): ...
    def _get(self, amphora_id): ...
    def _list(self, owner): ...


class Ticks(Listener):
    def __init__(self):
        self.count = 0

    def ticked(self, backend, watched, lag_s):
        self.count += 1


class Bench:
    def __init__(self, waits):
        self.backend, self.ticks = Backend(), Ticks()
        self.clock = self.backend.clock
        self.scheduler = Scheduler(clock=self.clock)
        self.watcher = Watcher(self.backend, scheduler=self.scheduler, listener=self.ticks)
        self.ids = [f'amphora-{number}' for number in range(waits)]
        self.futures = []

    def begin(self):
        for amphora_id in self.ids:
            self.backend.put(amphora_id)
        deadline = Deadline.after(1e6, self.clock)
        self.futures = [
            self.watcher.watch(one, {State.ACTIVE}, deadline=deadline) for one in self.ids
        ]
        for _ in range(3):
            self.look()

    def look(self):
        """Have one look made; return the seconds from the alarm to its end."""
        seen = self.ticks.count
        while self.clock.next_alarm_s() is None and self.ticks.count == seen:
            time.sleep(0.0001)
        started = time.perf_counter()
        while self.ticks.count == seen:
            self.clock.advance(1.2)
            time.sleep(0.00005)
        return time.perf_counter() - started

    def change(self, count, state):
        for _ in range(count):
            self.backend.put(self.ids.pop(), state)

    def close(self):
        self.watcher.close()
        self.scheduler.close()


def cost_of_a_look(waits):
    bench = Bench(waits)
    bench.begin()
    costs = []
    for _ in range(LOOKS):
        for number in range(CHANGES):
            bench.backend.put(bench.ids[number], State.PENDING)
            bench.backend.put(bench.ids[number], State.BUILDING)
        bench.backend.calls = 0
        costs.append(bench.look())
        if bench.backend.calls > 1:
            raise SystemExit(f'{bench.backend.calls} calls in one look')
    bench.close()
    return statistics.median(costs)


def size_of_a_wait(waits):
    tracemalloc.start()
    bench = Bench(waits)
    before = tracemalloc.get_traced_memory()[0]
    bench.begin()
    known = sum(sys.getsizeof(status) for status in bench.backend.all.values())
    size = (tracemalloc.get_traced_memory()[0] - before - known) / waits
    tracemalloc.stop()
    bench.close()
    return size


def whole_waits(waits):
    """Return the seconds of CPU per wait, until it is seen and until it has ended."""
    bench = Bench(waits)
    gc.collect()
    gc.disable()
    started = time.process_time()
    bench.begin()
    begun = time.process_time()
    bench.change(waits, State.ACTIVE)
    while not all(future.done() for future in bench.futures):
        bench.look()
    ended = time.process_time()
    gc.enable()
    bench.close()
    return (begun - started) / waits, (ended - begun) / waits


def ways_of_asking(instances, waits, few):
    """Return calls and rows per look, over a minute, with so many asked for by id."""
    was, poll.FEW = poll.FEW, few
    bench = Bench(instances)
    for amphora_id in bench.ids:
        bench.backend.put(amphora_id)
    bench.ids = bench.ids[:waits]
    bench.begin()
    while bench.clock.monotonic() < 60:
        bench.look()
    bench.close()
    poll.FEW = was
    return bench.backend.calls / bench.ticks.count, bench.backend.rows / bench.ticks.count


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--waits', type=int, default=100_000)
    sizes = [parser.parse_args().waits // divisor for divisor in (100, 10, 1)]
    print(f'{"waits":>8} {"look, ms":>9} {"begin, us":>10} {"end, us":>8} {"bytes":>6}')
    looks, wholes = [], []
    for waits in sizes:
        looks.append(cost_of_a_look(waits))
        begin, end = min((whole_waits(waits) for _ in range(3)), key=sum)
        size = size_of_a_wait(waits)
        wholes.append(begin + end)
        print(f'{waits:8} {looks[-1] * 1e3:9.2f} {begin * 1e6:10.1f} {end * 1e6:8.1f} {size:6.0f}')
    ratios = looks[-1] / looks[0], wholes[-1] / wholes[0]
    print(f'a look: x{ratios[0]:.2f}, a wait: x{ratios[1]:.2f} from {sizes[0]} to {sizes[-1]}')

    print(f'\nof {sizes[1]} instances:  by id              by changes')
    for waits in (1, 4, 16, 64):
        by_id, changes = (ways_of_asking(sizes[1], waits, few) for few in (waits, 0))
        print(
            f'{waits:4} waits: {by_id[0]:4.1f} calls {by_id[1]:6.1f} rows; '
            f'{changes[0]:4.1f} calls {changes[1]:8.1f} rows'
        )
    return 1 if ratios[0] > 2 or ratios[1] > 1.5 else 0


if __name__ == '__main__':
    sys.exit(main())
