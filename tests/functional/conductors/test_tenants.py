"""Hostile tenants (findings H1, H2, M1, M5, M6) leave another tenant and the conductor alone.

``kiln conductor`` runs as a process of its own, on the simulated cloud. One tenant has a huge
cluster; the engines of the others' nodes drip, flood, and answer with what acts on terminals or
on regular expressions; calls about the last one's never return. Another site has none of them.
The victim's clusters are created by turns in one and in the other.

KILN_TENANTS_NODES is the size of the huge cluster. With KILN_FULL the machine has nothing else to
do, and the firm times are asserted. Elsewhere the conductor gets any part of a processor. Beside
hostile tenants it never rests, so what it used of the processor is what the victim would have
waited for on a machine of its own; and a thread that is taken for ever fails the test by that.
"""

import collections
import contextlib
import operator
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
from kiln.cluster_service.site import DRIVER_CALLS
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
from tests.unit.cli.processes import PATIENCE_S, Processes

FULL = bool(os.environ.get('KILN_FULL'))
NODES = int(os.environ.get('KILN_TENANTS_NODES', '100000'))
#: How often the victim is measured.
TIMES = 7 if FULL else 3
#: Beside hostile tenants the victim takes at most this many times as long, and so many seconds.
RATIO, LONGEST_S = 3.0, 10.0
#: Seconds in which a conductor ends.
END_S = 5.0
#: The nodes of each cluster whose engines are hostile, and of one for whose calls all threads of
#: drivers together would not be enough.
HOSTILE_NODES = 8
HANGING_NODES = DRIVER_CALLS + 1
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


class Installation:
    """A site in a folder of its own."""

    def __init__(self, folder):
        self.folder = folder
        drivers = folder / 'drivers'
        drivers.mkdir(mode=0o700)
        write_driver(drivers)
        self.config = folder / 'kiln.conf'
        self.config.write_text(CONFIG.format(folder=folder))
        self.site = configured_site(kiln_conf.load([str(self.config)]))

    def enter(self, name, counts):
        """Enter a cluster of groups with these counts; return its operation."""
        groups = tuple(
            NodeGroupSpec(name=group, shape=Shape(count=count)) for group, count in counts.items()
        )
        spec = ClusterSpec(name=name, driver=DRIVER, groups=groups)
        return self.site.clusters.apply(self.site.clusters.plan(Declare(spec=spec)))

    def found(self, operation):
        return self.site.clusters.operation(operation.id)

    def nodes(self, operation):
        return self.site.store.nodes.counts().get(operation.cluster_id, {})


class Tenants(Processes):
    def setUp(self):
        self.honest = self.enterContext(Engine(honest))
        self.hostile = {
            kind: [self.enterContext(Engine(behave)) for behave in ways]
            for kind, ways in KINDS.items()
        }
        self.quiet, self.shared = self.install(), self.install()
        self.victims = []

    def install(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        installation = Installation(folder)
        self.addCleanup(installation.site.close)
        return installation

    def conduct(self, where):
        process = self.start('--config-file', str(where.config), 'conductor')
        self.assertTrue(any('Working on clusters' in line for line in process.stderr))
        return process

    # ---- clusters --------------------------------------------------------------------

    def victim(self, where):
        """Create a cluster of two nodes; return the seconds until it was ready."""
        operation = where.enter(f'victim{len(self.victims)}', asking(2, self.honest))
        self.victims.append((where, operation.cluster_id))
        self.until(lambda: where.found(operation).state.ended)
        ended = where.found(operation)
        self.assertIs(OperationState.SUCCEEDED, ended.state, ended.cause)
        return ended.ended_at - ended.created_at

    def huge(self):
        starts = range(0, NODES, MOST_NODES)
        counts = {f'g{at}': min(MOST_NODES, NODES - at) for at in starts}
        return self.shared.enter('huge', counts)

    def attack(self):
        """Create the clusters of all hostile tenants; return their operations, all at work."""
        operations = [
            self.shared.enter(kind, asking(HOSTILE_NODES // len(engines), *engines))
            for kind, engines in self.hostile.items()
        ]
        engines = [engine for some in self.hostile.values() for engine in some]
        self.until(lambda: all(engine.asked > HOSTILE_NODES for engine in engines))
        hanging, huge = self.shared.enter('hanging', {HUNG: HANGING_NODES}), self.huge()
        self.until(lambda: self.shared.nodes(hanging) == {NodeState.JOINING: HANGING_NODES})
        self.until(lambda: NodeState.READY in self.shared.nodes(huge))
        return [*operations, hanging, huge]

    def compare(self, conductor):
        """Measure the victim by turns.

        Yield its seconds alone, beside the clusters of a conductor, and those that the conductor
        had a processor meanwhile.
        """
        for _ in range(TIMES):
            conductor.send_signal(signal.SIGSTOP)
            alone = self.victim(self.quiet)
            conductor.send_signal(signal.SIGCONT)
            before = processor_s(conductor)
            beside = self.victim(self.shared)
            yield alone, beside, processor_s(conductor) - before

    # ---- what is left ------------------------------------------------------------------

    def assert_whole(self):
        """Check that each cluster of the victim has its nodes, and no node has two machines."""
        machines = []
        for where in (self.quiet, self.shared):
            with contextlib.closing(NoopCloud(where.folder / 'cloud.db')) as cloud:
                machines += cloud.instances()
        keys = collections.Counter(one.build_key for one in machines)
        self.assertEqual([], [key for key, count in keys.items() if count > 1])
        ids = {one.id for one in machines}
        for where, cluster_id in self.victims:
            nodes = where.site.store.nodes.of(cluster_id)
            self.assertEqual([NodeState.READY] * 2, [node.state for node in nodes])
            self.assertLessEqual({node.compute_id for node in nodes}, ids)

    def test_hostile_tenants_hold_up_neither_another_tenant_nor_the_end(self):
        self.conduct(self.quiet)
        conductor = self.conduct(self.shared)
        for where in (self.quiet, self.shared):
            # The first one loads the driver.
            self.victim(where)
        operations = self.attack()
        alone, beside, used = zip(*self.compare(conductor), strict=True)
        judged = beside if FULL else used
        ratio = statistics.median(map(operator.truediv, judged, alone))
        # They were at work all the time.
        done = [one.id for one in operations if self.shared.found(one).state.ended]
        progress = self.shared.nodes(operations[-1])
        began = time.monotonic()
        conductor.send_signal(signal.SIGTERM)
        # Calls about the nodes of one cluster never return.
        status = conductor.wait(PATIENCE_S)
        took_s = time.monotonic() - began
        print(
            f'\n  the victim alone: {shown(alone)}; beside hostile tenants: {shown(beside)}, with '
            f'{shown(used)} of a processor: {ratio:.1f} times; of {NODES} nodes of a huge cluster '
            f'there were {dict(progress)}; the conductor ended in {took_s:.1f} s'
        )
        self.assertEqual([], done, 'a hostile cluster was done too soon')
        self.assertLess(ratio, RATIO)
        self.assertEqual((ExitCode.OK, ''), (status, self.errors(conductor)))
        if FULL:
            self.assertLess(max(beside), LONGEST_S)
            self.assertLess(took_s, END_S)
            leases = self.shared.site.store.leases
            until = [leases.get(one.cluster_id).expires_at for one in operations]
            self.assertEqual([0.0] * len(until), until, 'a lease was not released')
        self.conduct(self.shared)
        self.victim(self.shared)
        self.assert_whole()

    def errors(self, process):
        """Return what a conductor printed that it should not have; its log tells of tenants."""
        lines = process.stderr.read().splitlines()
        expected = ('Stopping', ' INFO ', ' WARNING ')
        return '\n'.join(line for line in lines if not any(one in line for one in expected))


def asking(count, *engines):
    """Return the counts of groups whose nodes have one of these engines each."""
    return {f'{ASKED}-{engine.port}': count for engine in engines}


def shown(seconds):
    return ', '.join(f'{one:.1f}' for one in seconds) + ' s'


def processor_s(process):
    """Return the seconds that a process had a processor."""
    stat = pathlib.Path(f'/proc/{process.pid}/stat').read_text()
    # Behind its name, which can have any characters.
    user, system = stat.rpartition(')')[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf('SC_CLK_TCK')
