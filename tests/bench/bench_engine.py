"""What the engine adds to the machines it makes: beside a bare loop, and by their number.

    python -m tests.bench.bench_engine [--nodes 100 1000 10000]

Each cluster is created on the simulated cloud, with a store in a file and each commit
on the disk. The bare loop makes as many machines through the same facade, and writes
for each what the engine writes: the intent of all in one commit, and each result in
one; it decides nothing, holds no lease, and finds nothing again after a crash.
"""

import argparse
import dataclasses
import gc
import resource
import sys
import tempfile
import threading
import time
import uuid

from kiln.clock import SYSTEM_CLOCK
from kiln.clusters.models import Cluster, Holding, Node, NodeState, Operation, OperationKind
from kiln.clusters.spec import ClusterSpec, Place
from kiln.compute.facade import Compute
from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.db.store import open_store
from kiln.engine.conductor import Conductor
from kiln.engine.context import Backends, EngineSettings, Parts
from kiln.fairness.threads import FairThreads
from tests.unit.engine.site import PIN, OneDriver, Plain, group

WITHIN_S = 15.0
RATIO = 1.5
KIB = 20.0
LONG_S = 600.0


def operation(cluster_id, kind):
    now = time.time()
    return Operation(
        id=str(uuid.uuid4()), cluster_id=cluster_id, kind=kind, created_at=now,
        deadline_at=now + LONG_S,
    )  # fmt: skip


def entered(store, count):
    """Enter a cluster into a store; return it and its operation."""
    cluster = Cluster(
        id=str(uuid.uuid4()), name='web', generation=1, pin=PIN,
        spec=ClusterSpec(name='web', groups=(group(count),)),
    )  # fmt: skip
    creation = operation(cluster.id, OperationKind.CREATE)
    store.clusters.create(cluster, creation)
    return cluster, creation


class Engine:
    """The engine takes a cluster to READY, shrinks it by name, and deletes it."""

    def __init__(self, folder):
        self.store = open_store(f'sqlite:///{folder}/kiln.db')
        compute = Compute(NoopDriver(cloud=NoopCloud()))
        self._threads = FairThreads(8, each=8, name='kiln-cluster-driver')
        self._backends = Backends(lambda name: compute, default=compute.name)
        self._conductor = Conductor(
            Parts(
                store=self.store, backends=self._backends, drivers=OneDriver(Plain()),
                clock=SYSTEM_CLOCK, run=self._threads.run, settings=EngineSettings(settle_s=0.1),
            )
        )  # fmt: skip
        self._conductor.start()

    def create(self, count):
        cluster, creation = entered(self.store, count)
        self.done(creation)
        return cluster

    def shrink(self, cluster, by):
        nodes = self.store.nodes.of(cluster.id)
        middle = nodes[len(nodes) // 2 :][:by]
        spec = dataclasses.replace(cluster.spec, groups=(group(len(nodes) - by),))
        resize = operation(cluster.id, OperationKind.RESIZE)
        self.store.clusters.change(
            cluster.id, spec, generation=1, operation=resize,
            doomed={node.id: 'asked for' for node in middle},
        )  # fmt: skip
        self.done(resize)
        return len(set(nodes) - set(self.store.nodes.of(cluster.id)))

    def delete(self, cluster):
        deletion = operation(cluster.id, OperationKind.DELETE)
        self.store.operations.submit(deletion)
        self.done(deletion)

    def done(self, asked):
        self._conductor.wake()
        while not (found := self.store.operations.get(asked.id)).state.ended:
            time.sleep(0.01)
        if found.cause is not None:
            raise SystemExit(f'{asked.kind} {found.state}: {found.cause}')

    def close(self):
        self._conductor.close()
        self._backends.close()
        self._threads.close()
        self.store.close()


def bare(folder, count):
    """Make machines and write them down; return the seconds it took."""
    store = open_store(f'sqlite:///{folder}/bare.db')
    compute = Compute(NoopDriver(cloud=NoopCloud()))
    cluster, _ = entered(store, count)
    lease = store.leases.claim(cluster.id, 'bare', LONG_S)
    began = time.monotonic()
    nodes = [
        Node(
            id=str(uuid.uuid4()), cluster_id=cluster.id, group='work', name=f'web-{number}',
            place=Place(), backend='noop', state=NodeState.BUILDING,
        )
        for number in range(count)
    ]  # fmt: skip
    with store.writing(lease) as batch:
        for node in nodes:
            batch.node(node)
    # As many as are there are written at a time, as the engine does too.
    told, lock, over = [], threading.Condition(), 0

    def tell(node, built):
        def active(watch):
            with lock:
                told.append((node, built.result()))
                lock.notify()

        compute.watch(built.result()).add_done_callback(active)

    for node in nodes:
        built = compute.build(name=node.name, build_key=node.id)
        built.add_done_callback(lambda built, node=node: tell(node, built))
    while over < count:
        with lock:
            lock.wait_for(lambda: told)
            taken, told[:] = list(told), []
        with store.writing(lease) as batch:
            for node, compute_id in taken:
                batch.node(dataclasses.replace(node, state=NodeState.READY))
                batch.accept(node, compute_id)
                batch.holding(
                    Holding(cluster_id=cluster.id, backend='noop', kind='server', id=compute_id)
                )
        over += len(taken)
    took_s = time.monotonic() - began
    compute.close(0.0)
    store.close()
    return took_s


def memory_kib():
    gc.collect()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measure(count):
    with tempfile.TemporaryDirectory() as folder:
        bare_s = bare(folder, count)
        before_kib = memory_kib()
        engine = Engine(folder)
        began = time.monotonic()
        cluster = engine.create(count)
        create_s = time.monotonic() - began
        each_kib = (memory_kib() - before_kib) / count
        touched = engine.shrink(cluster, 3)
        began = time.monotonic()
        engine.delete(cluster)
        delete_s = time.monotonic() - began
        engine.close()
    print(
        f'{count:6} nodes: created in {create_s:.2f} s = {create_s / bare_s:.2f} x the bare loop, '
        f'{create_s / count * 1e6:.0f} us each, {each_kib:.1f} KiB each at most; '
        f'3 removed: {touched} touched; deleted in {delete_s:.2f} s'
    )
    return create_s, create_s / bare_s, each_kib, touched


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--nodes', type=int, nargs='+', default=[100, 1000, 10000])
    sizes = parser.parse_args().nodes
    found = {count: measure(count) for count in sizes}
    each = {count: create_s / count for count, (create_s, *_) in found.items()}
    flat = max(each.values()) / each[min(each)]
    print(f'the cost of a node, of that in the smallest cluster: at most x{flat:.2f}')
    late = found.get(1000, (0.0,))[0] > WITHIN_S
    wrong = any(touched != 3 for *_, touched in found.values())
    slow = any(ratio > RATIO for _, ratio, *_ in found.values())
    fat = found[max(found)][2] > KIB
    return 1 if wrong or late or slow or fat or flat > RATIO else 0


if __name__ == '__main__':
    sys.exit(main())
