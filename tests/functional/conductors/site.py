"""Conductor processes, user requests, and checks of the results."""

import collections
import contextlib
import dataclasses
import os
import pathlib
import signal
import subprocess
import sys
import time
import uuid

from kiln.clusters.models import Cluster, NodeState, Operation, OperationKind, OperationState
from kiln.clusters.spec import ClusterSpec
from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.db.store import open_store
from kiln.engine.work_sources.opening import open_source
from tests.unit.engine.site import PIN, group

ROOT = pathlib.Path(__file__).parents[3]
END_S = float(os.environ.get('KILN_CONDUCTORS_END_S', '300'))


class Member:
    """One conductor process."""

    def __init__(self, site):
        with site.log.open('a') as log:
            self.process = subprocess.Popen(
                [sys.executable, '-m', 'tests.functional.conductors.member', *site.arguments],
                cwd=ROOT, env=os.environ | {'PYTHONPATH': str(ROOT)}, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip

    @property
    def pid(self):
        return self.process.pid

    def wait_ready(self):
        assert self.process.stdout.readline().strip() == 'ready', 'it did not start'

    def kill(self):
        self.process.kill()
        self._reap()

    def pause(self):
        """Stop it; return once all of its threads stand still, in a system call or not."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def end(self):
        """Let it end by itself; return its exit status."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        # A stopped process could not.
        self.resume()
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
        return self._reap()

    def _reap(self):
        status = self.process.wait(END_S)
        self.process.stdout.close()
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        return status


class SharedSite:
    """A store, a cloud in a file, and a work source, shared by processes."""

    def __init__(self, test, folder, *, store_url, keys=None, where='database', more=()):
        self._test = test
        self.folder = pathlib.Path(folder)
        self.log = self.folder / 'conductors.log'
        self.cloud_path = self.folder / 'cloud.db'
        self.arguments = (
            store_url, str(keys or ''), str(self.cloud_path), where, *map(str, more),
        )  # fmt: skip
        self.store = open_store(store_url, keys=keys)
        test.addCleanup(self.store.close)
        self.source = open_source(where, self.store, claim_s=2.0)
        test.addCleanup(self.source.close)
        self.members = []
        test.addCleanup(lambda: [member.end() for member in self.members])
        # Created here, so that several processes do not create it at once.
        self.machines()

    def start(self, count=1):
        """Start members; return the last one."""
        fresh = [Member(self) for _ in range(count)]
        self.members += fresh
        for member in fresh:
            member.wait_ready()
        return fresh[-1]

    def replace(self, member):
        """Kill a member, and start another one in its place; return once it is ready."""
        self.members.remove(member)
        member.kill()
        self.start()

    # ---- user requests -----------------------------------------------------------

    def create(self, name, count):
        cluster = Cluster(
            id=str(uuid.uuid4()), name=name, generation=1, pin=PIN,
            spec=ClusterSpec(name=name, groups=(group(count),)),
        )  # fmt: skip
        operation = self._operation(cluster.id, OperationKind.CREATE)
        self.store.clusters.create(cluster, operation)
        self.source.offer(cluster.id)
        return cluster, operation

    def resize(self, cluster, count, doomed=()):
        there = self.store.clusters.get(cluster.id)
        operation = self._operation(cluster.id, OperationKind.RESIZE)
        self.store.clusters.change(
            cluster.id, dataclasses.replace(there.spec, groups=(group(count),)),
            generation=there.generation, operation=operation,
            doomed=dict.fromkeys(doomed, 'asked for'),
        )  # fmt: skip
        self.source.offer(cluster.id)
        return operation

    def delete(self, cluster):
        operation = self._operation(cluster.id, OperationKind.DELETE)
        self.store.operations.submit(operation)
        self.source.offer(cluster.id)
        return operation

    def _operation(self, cluster_id, kind):
        now = time.time()
        return Operation(
            id=str(uuid.uuid4()), cluster_id=cluster_id, kind=kind, created_at=now,
            deadline_at=now + END_S,
        )  # fmt: skip

    # ---- results ---------------------------------------------------------------------

    def nodes(self, cluster):
        found = self.store.nodes.of(cluster.id)
        return [node for node in found if node.state is not NodeState.GONE]

    def machines(self):
        with contextlib.closing(NoopDriver(cloud=NoopCloud(self.cloud_path))) as driver:
            return {one.id: one for one in driver.list_amphorae()}

    def until(self, so, why='not so in time'):
        end = time.monotonic() + END_S
        while not so():
            if time.monotonic() > end:
                self._test.fail(f'{why}: {self._state()}')
            time.sleep(0.05)

    def _state(self):
        """Return what is known, and the stacks of all threads of all members."""
        known = [
            (cluster.name, self.store.operations.open(cluster.id), self.nodes(cluster))
            for cluster in self.store.clusters.list()
        ]
        for member in self.members:
            member.process.send_signal(signal.SIGUSR1)
        time.sleep(1.0)
        return f'{known}\n{self.said()}'

    def said(self):
        return self.log.read_text()[-30000:] if self.log.exists() else ''

    def succeeded(self, operation):
        self.until(lambda: self.store.operations.get(operation.id).state.ended, 'it is stuck')
        ended = self.store.operations.get(operation.id)
        self._test.assertIs(OperationState.SUCCEEDED, ended.state, f'{ended.cause} {self.said()}')

    def assert_whole(self, counts):
        """Check that each cluster has its nodes, each one machine, and no other exists."""
        test = self._test
        known = []
        for cluster, count in counts:
            nodes = self.nodes(cluster)
            states = collections.Counter(node.state for node in nodes)
            test.assertEqual({NodeState.READY: count}, states, cluster.name)
            known += [node.compute_id for node in nodes]
            held = [one.id for one in self.store.receipts.holdings(cluster.id) if not one.gone_at]
            test.assertEqual(sorted(held), sorted(node.compute_id for node in nodes))
        test.assertEqual(sorted(self.machines()), sorted(known))
