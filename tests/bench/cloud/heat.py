"""What a cluster costs Heat and kiln, by the drivers in tree, on a real Heat.

    python -m tests.bench.cloud.heat [--nodes 5 50]

The cloud is up, with Heat. Each driver creates a cluster, removes a node from the middle,
adds one, and deletes the cluster. Requests are those beside the lists, of which all clusters
of a site need one a tick.
"""

import argparse
import dataclasses
import logging
import re
import time
import uuid

from kiln.cluster_drivers.heat.connections import Connections
from kiln.cluster_drivers.heat.poller import HeatPoller
from kiln.cluster_drivers.heat_generated_v1.driver import Driver as GeneratedDriver
from kiln.cluster_drivers.heat_group_v1.driver import Driver as GroupDriver
from kiln.cluster_drivers.values import Progress
from kiln.cluster_file.reading import read
from kiln.clusters.placing.counts import resized
from kiln.clusters.spec import MachineSpec
from kiln.testing.clusters import samples
from tests.functional.heat.bench import GENERATED_FILE, OneSecret
from tools.devcloud.place import Place, default_home
from tools.devcloud.processes import Supervisor
from tools.devcloud.status import uses
from tools.devcloud.wishes import Wishes

TICK_S = 1.0
LIMIT_S = 1800.0
LISTS = re.compile(r'heat GET /stacks: ')


class Requests(logging.Handler):
    """Counts the requests to Heat beside the lists, by what the client logs."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def emit(self, record):
        text = record.getMessage()
        self.count += text.startswith('heat ') and not LISTS.match(text)


class Cost:
    """CPU time of the cloud, requests to Heat, and time, since the beginning of a phase."""

    def __init__(self):
        base_port = Wishes.load(default_home() / 'wishes.json').base_port
        self._supervisor = Supervisor(Place(default_home(), base_port))
        self._requests = Requests()
        log = logging.getLogger('kiln.cluster_drivers.heat.client')
        log.setLevel(logging.DEBUG)
        log.addHandler(self._requests)
        self.begin()

    def begin(self):
        self._former = self._now()

    def show(self, *labels):
        found = [now - then for now, then in zip(self._now(), self._former, strict=True)]
        print(''.join(f'{one!s:>18}' for one in labels), end='')
        print(''.join(f'{one:>10.1f}' for one in found), flush=True)
        self.begin()

    def _now(self):
        cpu_s = {one.name: one.cpu_s for one in uses(self._supervisor)}
        return (
            time.monotonic(), cpu_s['heat-engine'], cpu_s['heat-api'], sum(cpu_s.values()),
            self._requests.count,
        )  # fmt: skip


class Life:
    """A cluster of some nodes, from the beginning to the end."""

    def __init__(self, driver_class, count, cost):
        self.cost, self.count = cost, count
        self.driver = driver_class.open()
        self.driver.connections, self.driver.poller = Connections(), HeatPoller(tick_s=TICK_S)
        self.context = samples.context(site='cost', secrets=OneSecret(), credentials='heat')
        (spec,) = read(GENERATED_FILE).clusters
        # The group is all of the cluster.
        spec = dataclasses.replace(spec, groups=spec.groups[1:])
        cluster = samples.cluster(driver_class, MachineSpec(), 0, id_=uuid.uuid4().hex)
        self.cluster = dataclasses.replace(cluster, spec=spec)

    def live(self):
        self.sized(self.count)
        self.phase('create', self.driver.create_cluster, cluster_create_timeout=LIMIT_S)
        group = self.sized(self.count - 1)
        middle = f'work-{self.count // 2 + 1}'
        self.phase(
            'remove one', self.driver.resize_cluster, nodegroup=group,
            node_count=self.count - 1, nodes_to_remove=(middle,),
        )  # fmt: skip
        self.sized(self.count)
        self.phase('add one', self.driver.update_cluster)
        self.phase('delete', self.driver.delete_cluster)

    def sized(self, count):
        (group,) = self.cluster.spec.groups
        group = dataclasses.replace(group, shape=resized(group.shape, count))
        spec = dataclasses.replace(self.cluster.spec, groups=(group,))
        self.cluster = dataclasses.replace(
            self.cluster, spec=spec, generation=self.cluster.generation + 1
        )
        return group

    def phase(self, label, change, **more):
        self.cost.begin()
        report = self.take(change(context=self.context, cluster=self.cluster, **more))
        end = time.monotonic() + LIMIT_S
        while report.progress is Progress.IN_PROGRESS and time.monotonic() < end:
            time.sleep(TICK_S)
            report = self.take(self.driver.update_cluster_status(self.context, self.cluster))
        if report.progress is not Progress.COMPLETE:
            raise SystemExit(f'{label}: {report.reason}')
        self.cost.show(self.driver.name, self.count, label)

    def take(self, report):
        if report.driver_state is not None:
            self.cluster = dataclasses.replace(self.cluster, driver_state=report.driver_state)
        return report


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--nodes', type=int, nargs='+', default=[5, 50])
    cost = Cost()
    titles = ('driver', 'nodes', 'change')
    print(''.join(f'{one:>18}' for one in titles), end='')
    figures = ('wall, s', 'engine, s', 'API, s', 'cloud, s', 'requests')
    print(''.join(f'{one:>10}' for one in figures))
    for count in parser.parse_args().nodes:
        for driver_class in (GeneratedDriver, GroupDriver):
            Life(driver_class, count, cost).live()


if __name__ == '__main__':
    main()
