"""What machines cost as stacks of Heat, and as servers of Nova, on a real cloud.

    python -m tests.bench.cloud.stacks [--machines 5 50] [--drivers heat nova]

The cloud is up, with Heat. For each driver kiln builds machines, watches them until all are
active, and deletes them. Requests are split into those for a machine, which grow with their
number, and the ticks of the watcher, which do not.
"""

import argparse
import collections
import contextlib
import logging
import time
import uuid

from kiln.compute.backends import stack_settings
from kiln.compute.facade import Compute
from kiln.compute.goals import Until
from kiln.compute_drivers.heat.driver import StackDriver
from kiln.compute_drivers.nova.driver import NovaDriver
from kiln.exceptions import AmphoraComputeError
from tests.functional.cloud import Cloud
from tests.functional.nova.site import options_of
from tools.devcloud.place import Place, default_home
from tools.devcloud.processes import Supervisor
from tools.devcloud.status import uses
from tools.devcloud.wishes import Wishes

DRIVERS = {one.name: one for one in (StackDriver, NovaDriver)}
TICK_S = 2.0
LIMIT_S = 3600.0
#: Requests of a tick: lists of all stacks, and of all servers or of those that changed; or of
#: the last one that is waited for.
TICKS = (
    '/stacks?tags=', '/stacks?id=', '/servers/detail?tags=kiln-', '/servers/detail?changes-since=',
    '/servers?changes-since=',
)  # fmt: skip


class Requests(logging.Handler):
    """Counts requests by what the client logs."""

    def __init__(self):
        super().__init__()
        self.found = collections.Counter()

    def emit(self, record):
        text = record.getMessage()
        if ' ms (' in text:
            of_tick = any(one in text for one in TICKS)
            self.found['ticks' if of_tick else 'others'] += 1


class Cost:
    """Time, CPU time of the cloud, and requests, since the beginning of a phase."""

    def __init__(self):
        base_port = Wishes.load(default_home() / 'wishes.json').base_port
        self._supervisor = Supervisor(Place(default_home(), base_port))
        self._requests = Requests()
        log = logging.getLogger('kiln.compute_drivers.nova.api.client')
        log.setLevel(logging.DEBUG)
        log.propagate = False
        log.addHandler(self._requests)
        self.begin()

    def begin(self):
        self._former = self._now()

    def show(self, *labels):
        found = [now - then for now, then in zip(self._now(), self._former, strict=True)]
        print(''.join(f'{one!s:>10}' for one in labels), end='')
        print(''.join(f'{one:>12.1f}' for one in found), flush=True)
        self.begin()

    def _now(self):
        cpu_s = {one.name: one.cpu_s for one in uses(self._supervisor)}
        found = self._requests.found
        return (
            time.monotonic(), time.process_time(), cpu_s['heat-engine'], sum(cpu_s.values()),
            found['ticks'], found['others'],
        )  # fmt: skip


def live(driver_class, count, cost):
    """Build machines, watch them until they are active, and delete them."""
    given = {
        **Cloud(default_home()).auth('kiln-user'), 'valid_interfaces': ['public'],
        'networks': ['net1'], 'flavor': 'tiny', 'image': 'tiny', 'timeout': 120.0,
        'watch_interval': TICK_S, 'watch_max_interval': TICK_S, 'build_timeout': int(LIMIT_S),
        'call_timeout': 600.0,
    }  # fmt: skip
    options = options_of(given, driver_class)
    owner = f'b-{uuid.uuid4().hex[:8]}'
    driver = driver_class.open(options, name=driver_class.name, owner=owner)
    with contextlib.closing(Compute(driver, settings=stack_settings(options))) as compute:
        cost.begin()
        started = [compute.build(until=Until.ACTIVE) for _ in range(count)]
        for operation in started:
            operation.result(LIMIT_S)
        cost.show(driver.name, count, 'build')
        found = list(compute.list_amphorae().result())
        cost.show(driver.name, count, 'list')
        started = [compute.delete(one.id, wait=True) for one in found]
        for operation in started:
            with contextlib.suppress(AmphoraComputeError):
                operation.result(LIMIT_S)
        cost.show(driver.name, count, 'delete')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--machines', type=int, nargs='+', default=[5, 50])
    parser.add_argument('--drivers', nargs='+', choices=DRIVERS, default=list(DRIVERS))
    wanted = parser.parse_args()
    cost = Cost()
    print(''.join(f'{one:>10}' for one in ('driver', 'machines', 'change')), end='')
    figures = ('wall, s', 'kiln, s', 'engine, s', 'cloud, s', 'ticks', 'requests')
    print(''.join(f'{one:>12}' for one in figures))
    for count in wanted.machines:
        for name in wanted.drivers:
            live(DRIVERS[name], count, cost)


if __name__ == '__main__':
    main()
