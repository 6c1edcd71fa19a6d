"""Hostile tenants (findings H1, H2, M1, M5, M6) leave another tenant and the conductor alone.

``kiln conductor`` runs as a process of its own, on the simulated cloud. One tenant has a huge
cluster; the engines of the others' nodes drip, flood, and answer with what acts on terminals or
on regular expressions; calls about the last one's never return. KILN_TENANTS_NODES is the size
of the huge cluster, and with KILN_FULL the firm times are asserted; otherwise more, as the
machine can be busy with other tests.
"""

import collections
import contextlib
import os
import pathlib
import signal
import statistics
import tempfile
import time

from kiln import conf as kiln_conf
from kiln.cli.exit_codes import ExitCode
from kiln.cli.site.stores import configured_site
from kiln.cluster_service.requests import Declare
from kiln.clusters.models import NodeState, OperationState
from kiln.clusters.spec import MOST_NODES, ClusterSpec, NodeGroupSpec, Shape
from kiln.compute_drivers.noop.cloud import NoopCloud
from tests.functional.conductors.engines import (
    ASKED,
    DRIVER,
    HUNG,
    KINDS,
    Engine,
    honest,
    write_driver,
)
from tests.unit.cli.processes import Processes

FULL = bool(os.environ.get('KILN_FULL'))
NODES = int(os.environ.get('KILN_TENANTS_NODES', '100000'))
#: How often the time of the victim is measured, without and with the others.
TIMES = 7 if FULL else 3
#: With hostile tenants the victim takes at most this many times as long.
RATIO, LONGEST_S = (3.0, 10.0) if FULL else (6.0, 60.0)
END_S = 5.0 if FULL else 20.0
#: The nodes of each cluster whose engines are hostile.
HOSTILE_NODES = 8
CONFIG = """\
[compute]
default_backend = noop
[compute:noop]
path = {folder}/cloud.db
build_s = 0.3
[db]
url = sqlite:///{folder}/kiln.db
[clusters]
driver_path = {folder}/drivers
max_nodes_per_cluster = 1000000
max_nodes_per_owner = 1000000
max_nodes_per_site = 1000000
"""


class Tenants(Processes):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        drivers = self.folder / 'drivers'
        drivers.mkdir(mode=0o700)
        write_driver(drivers)
        self.config = self.folder / 'kiln.conf'
        self.config.write_text(CONFIG.format(folder=self.folder))
        conf = kiln_conf.load([str(self.config)])
        self.site = self.enterContext(contextlib.closing(configured_site(conf)))
        self.honest = self.enterContext(Engine(honest))
        self.hostile = {
            kind: [self.enterContext(Engine(behave)) for behave in ways]
            for kind, ways in KINDS.items()
        }
        self.victims = []

    def conduct(self):
        process = self.start('--config-file', str(self.config), 'conductor')
        self.assertIn('Working on clusters', process.stderr.readline())
        return process

    # ---- clusters --------------------------------------------------------------------

    def enter(self, name, counts):
        """Enter a cluster of groups with these counts; return its operation."""
        groups = tuple(
            NodeGroupSpec(name=group, shape=Shape(count=count)) for group, count in counts.items()
        )
        spec = ClusterSpec(name=name, driver=DRIVER, groups=groups)
        return self.site.clusters.apply(self.site.clusters.plan(Declare(spec=spec)))

    def victim(self):
        """Create a cluster of two nodes; return the seconds until it was ready."""
        name = f'victim{len(self.victims)}'
        operation = self.enter(name, asking(2, self.honest))
        self.victims.append(operation.cluster_id)
        self.until(lambda: self.found(operation).state.ended)
        ended = self.found(operation)
        self.assertIs(OperationState.SUCCEEDED, ended.state, ended.cause)
        return ended.ended_at - ended.created_at

    def found(self, operation):
        return self.site.clusters.operation(operation.id)

    def huge(self):
        starts = range(0, NODES, MOST_NODES)
        return self.enter('huge', {f'g{at}': min(MOST_NODES, NODES - at) for at in starts})

    def attack(self):
        """Create the clusters of all hostile tenants; return their operations, all at work."""
        operations = [
            self.enter(kind, asking(HOSTILE_NODES // len(engines), *engines))
            for kind, engines in self.hostile.items()
        ]
        engines = [engine for some in self.hostile.values() for engine in some]
        self.until(lambda: all(engine.asked > HOSTILE_NODES for engine in engines))
        operations += [self.enter('hanging', {HUNG: HOSTILE_NODES}), self.huge()]
        self.until(lambda: self.nodes(operations[-2]) == {NodeState.JOINING: HOSTILE_NODES})
        self.until(lambda: NodeState.READY in self.nodes(operations[-1]))
        return operations

    def nodes(self, operation):
        return self.site.store.nodes.counts().get(operation.cluster_id, {})

    # ---- what is left ------------------------------------------------------------------

    def assert_whole(self):
        """Check that each cluster of the victim has its nodes, and no node has two machines."""
        with contextlib.closing(NoopCloud(self.folder / 'cloud.db')) as cloud:
            machines = cloud.instances()
        keys = collections.Counter(one.build_key for one in machines)
        self.assertEqual([], [key for key, count in keys.items() if count > 1])
        ids = {one.id for one in machines}
        for cluster_id in self.victims:
            nodes = self.site.store.nodes.of(cluster_id)
            self.assertEqual([NodeState.READY] * 2, [node.state for node in nodes])
            self.assertLessEqual({node.compute_id for node in nodes}, ids)

    def test_hostile_tenants_hold_up_neither_another_tenant_nor_the_end(self):
        conductor = self.conduct()
        # The first one loads the driver.
        self.victim()
        alone = [self.victim() for _ in range(TIMES)]
        operations = self.attack()
        beside = [self.victim() for _ in range(TIMES)]
        # They were at work all the time.
        open_ones = [one.id for one in operations if not self.found(one).state.ended]
        progress = self.nodes(operations[-1])
        began = time.monotonic()
        conductor.send_signal(signal.SIGTERM)
        status = conductor.wait(600)
        took_s = time.monotonic() - began
        ratio = statistics.median(beside) / statistics.median(alone)
        print(
            f'\n  the victim alone: {shown(alone)}; beside hostile tenants: {shown(beside)}: '
            f'{ratio:.1f} times as long, {NODES} nodes of a huge cluster were wanted and '
            f'{dict(progress)} there; the conductor ended in {took_s:.1f} s'
        )
        self.assertEqual(5, len(open_ones), 'a hostile cluster was done too soon')
        self.assertLess(ratio, RATIO)
        self.assertLess(max(beside), LONGEST_S)
        self.assertEqual((ExitCode.OK, ''), (status, self.errors(conductor)))
        self.assertLess(took_s, END_S)
        for operation in operations:
            self.assertEqual(0.0, self.site.store.leases.get(operation.cluster_id).expires_at)
        self.conduct()
        self.victim()
        self.assert_whole()

    def errors(self, process):
        """Return what a conductor printed that it should not have."""
        lines = process.stderr.read().splitlines()
        return '\n'.join(line for line in lines if 'Stopping' not in line)


def asking(count, *engines):
    """Return the counts of groups whose nodes have one of these engines each."""
    return {f'{ASKED}-{engine.port}': count for engine in engines}


def shown(seconds):
    return ', '.join(f'{one:.1f}' for one in seconds) + ' s'
