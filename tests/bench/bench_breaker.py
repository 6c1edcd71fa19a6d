"""What a guard costs, beside pybreaker itself.

Prints medians of one run and fails where a promise is broken.
"""

import statistics
import sys
import threading
import time

import pybreaker

from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.calls import Traffic
from kiln.exceptions import CircuitOpenError, InstanceNotFoundError, ServiceTimeout
from kiln.models import ComputeStatus, Limits, State
from kiln.wrappers.circuit.breaker import BreakerDriver
from kiln.wrappers.circuit.settings import CircuitSettings
from kiln.wrappers.rate import RateDriver, RateSettings

ROUNDS, CALLS = 300, 200
READS_IN_STOCK_CALLS = 10
REFUSAL_US = 100
PARALLEL_S = 0.2


#: Open for as long as a slow machine may need for all rounds.
OPEN = CircuitSettings(open_s=3600, open_max_s=3600)


class Trivial(AmphoraComputeDriver):
    """Costs next to nothing, so that the guard is what is measured."""

    limits = Limits()
    answer = ComputeStatus(amphora_id='x', state=State.ACTIVE)
    act = staticmethod(lambda: None)

    def _build(self, request):
        return 'x'

    def _delete(self, amphora_id):
        self.act()

    def _get(self, amphora_id):
        raise InstanceNotFoundError('none')

    def _list(self, owner):
        return ()

    def _status(self, amphora_id):
        return self.answer


def p50_us(functions):
    """Return the median microseconds of each function, measured in turns."""
    seen = {name: [] for name in functions}
    for _ in range(ROUNDS):
        for name, function in functions.items():
            started = time.perf_counter()
            for _ in range(CALLS):
                function()
            seen[name].append((time.perf_counter() - started) / CALLS * 1e6)
    return {name: statistics.median(times) for name, times in seen.items()}


def refused(driver):
    def ask():
        try:
            driver.status('x')
        except CircuitOpenError:
            return
        raise AssertionError('the circuit is open, and the call went through')

    return ask


def costs():
    stock, bare = pybreaker.CircuitBreaker(), Trivial()
    guarded, opened = BreakerDriver(Trivial()), BreakerDriver(Trivial(), settings=OPEN)
    slow_aware = BreakerDriver(Trivial(), settings=CircuitSettings(slow_call_s=5))
    limited = BreakerDriver(
        RateDriver(Trivial(), settings=RateSettings(rate_per_s=1e9, burst=1000))
    )
    opened.circuits[Traffic.READ].trip(ServiceTimeout('no answer'))
    circuit = guarded.circuits[Traffic.READ]
    return p50_us(
        {
            'stock pybreaker call() of a no-op': lambda: stock.call(Trivial.act),
            'circuit admit and settle': lambda: circuit.settle(circuit.admit()),
            'bare read': lambda: bare.status('x'),
            'guarded read': lambda: guarded.status('x'),
            'guarded read, slow calls counted': lambda: slow_aware.status('x'),
            'guarded and rate-limited read': lambda: limited.status('x'),
            'refusal of an open circuit': refused(opened),
        }
    )


def side_by_side(threads, function):
    """Return the seconds that many threads need for one call each."""
    barrier = threading.Barrier(threads + 1)

    def run():
        barrier.wait()
        function()

    running = [threading.Thread(target=run) for _ in range(threads)]
    for thread in running:
        thread.start()
    barrier.wait()
    started = time.perf_counter()
    for thread in running:
        thread.join()
    return time.perf_counter() - started


def parallel_s():
    backend = Trivial()
    backend.act = lambda: time.sleep(0.1)
    driver = BreakerDriver(backend)
    return side_by_side(64, lambda: driver.delete('x'))


def half_open_calls():
    backend, calls = Trivial(), []

    def act():
        calls.append(1)
        time.sleep(0.1)

    backend.act = act
    driver = BreakerDriver(backend)
    driver.circuits[Traffic.CHANGE].half_open()

    def ask():
        try:
            driver.delete('x')
        except CircuitOpenError:
            pass

    side_by_side(100, ask)
    return len(calls)


def main():
    found = costs()
    for name, microseconds in found.items():
        print(f'{name:36} {microseconds:8.2f} us p50')
    ratio = found['guarded read'] / found['stock pybreaker call() of a no-op']
    refusal_us, parallel, calls = (
        found['refusal of an open circuit'],
        parallel_s(),
        half_open_calls(),
    )
    promises = [
        (f'guarded read = {ratio:.2f} x stock call()', ratio <= READS_IN_STOCK_CALLS),
        (f'refusal in {refusal_us:.1f} us', refusal_us < REFUSAL_US),
        (f'64 parallel calls of 0.1 s in {parallel:.3f} s', parallel < PARALLEL_S),
        (f'half-open, 100 threads: {calls} call(s)', calls == 1),
    ]
    for promise, kept in promises:
        print(f'{"ok  " if kept else "MISS"} {promise}')
    return 0 if all(kept for _, kept in promises) else 1


if __name__ == '__main__':
    sys.exit(main())
