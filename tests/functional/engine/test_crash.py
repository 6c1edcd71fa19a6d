"""kill -9 at any commit leads to the same end: the cloud and the store as wanted.

KILN_CRASHES is how many random lives are lived beside the exhaustive pass.
"""

import collections
import contextlib
import dataclasses
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

from kiln.cluster_models import Cluster, NodeState, Operation, OperationKind, OperationState
from kiln.cluster_spec import ClusterSpec, MachineSpec
from kiln.compute_drivers.noop.driver import NoopDriver
from tests.functional.engine.site import conducting, open_cloud, open_site_store
from tests.unit.engine.site import PIN, group

ROOT = pathlib.Path(__file__).parents[3]
CRASHES = int(os.environ.get('KILN_CRASHES', '20'))
SEED = int(os.environ.get('KILN_CRASH_SEED', '11'))
KILLED = -9
END_S = 60.0
#: How many nodes there are after each; any other leaves them as they are.
COUNTS = {
    OperationKind.CREATE: 2,
    OperationKind.RESIZE: 3,
    OperationKind.DELETE: 0,
}
#: What their machines are made from then, where somebody says so.
IMAGES = {OperationKind.REBUILD: 'anew', OperationKind.UPGRADE: 'new'}
#: Beyond the number of commits of any operation here.
MANY = 60


class Life:
    """One cluster from its beginning to its end, some of whose operations are disturbed."""

    def __init__(self, test, folder):
        self._test = test
        self._folder = folder
        self.store = open_site_store(folder)
        self.cluster_id = str(uuid.uuid4())

    def close(self):
        self.store.close()

    def live(self, kinds, disturbed=()):
        """Live it; ``disturbed`` has (kind, where, number): return how often it was killed."""
        killed = 0
        for kind in kinds:
            count = COUNTS[kind] if kind in COUNTS else len(self._nodes())
            operation = self._ask(kind)
            for which, where, number in disturbed:
                if which is kind:
                    killed += self._die(where, number)
            self._undisturbed(operation)
            self._check(operation, count)
        return killed

    # ---- what is asked -----------------------------------------------------------

    def _ask(self, kind):
        now = time.time()
        operation = Operation(
            id=str(uuid.uuid4()), cluster_id=self.cluster_id, kind=kind, created_at=now,
            deadline_at=now + END_S,
        )  # fmt: skip
        if kind is OperationKind.CREATE:
            spec = ClusterSpec(name='web', groups=(group(COUNTS[OperationKind.CREATE]),))
            cluster = Cluster(id=self.cluster_id, name='web', spec=spec, generation=1, pin=PIN)
            self.store.clusters.create(cluster, operation)
        elif kind is OperationKind.RESIZE:
            self._change(
                operation, group(COUNTS[OperationKind.RESIZE]), {self._nodes()[1].id: 'asked for'}
            )
        elif kind in IMAGES:
            there = len(self._nodes())
            self._change(operation, group(there, machine=MachineSpec(image=IMAGES[kind])), {})
        else:
            self.store.operations.submit(operation)
        return operation

    def _change(self, operation, wanted, doomed):
        there = self.store.clusters.get(self.cluster_id)
        self.store.clusters.change(
            self.cluster_id, dataclasses.replace(there.spec, groups=(wanted,)),
            generation=there.generation, operation=operation, doomed=doomed,
        )  # fmt: skip

    # ---- who does it -------------------------------------------------------------

    def _die(self, where, number):
        """Have a process go on that is killed at a commit; return whether it came so far."""
        done = subprocess.run(
            [sys.executable, '-m', 'tests.functional.engine.mortal', self._folder, where,
             str(number)],
            cwd=ROOT, env=os.environ | {'PYTHONPATH': str(ROOT)}, capture_output=True, text=True,
            timeout=2 * END_S, check=False,
        )  # fmt: skip
        self._test.assertIn(done.returncode, (0, KILLED), done.stderr)
        return done.returncode == KILLED

    def _undisturbed(self, operation):
        end = time.monotonic() + END_S
        with conducting(self.store, open_cloud(self._folder)):
            while not self.store.operations.get(operation.id).state.ended:
                self._test.assertLess(time.monotonic(), end, 'it is stuck')
                time.sleep(0.01)

    # ---- what becomes of it --------------------------------------------------------

    def _nodes(self):
        found = self.store.nodes.of(self.cluster_id)
        return [node for node in found if node.state is not NodeState.GONE]

    def _check(self, operation, count):
        test = self._test
        ended = self.store.operations.get(operation.id)
        test.assertIs(OperationState.SUCCEEDED, ended.state, ended.cause)
        with contextlib.closing(NoopDriver(cloud=open_cloud(self._folder))) as driver:
            machines = list(driver.list_amphorae())
        nodes = self._nodes() if count else []
        states = collections.Counter(node.state for node in nodes)
        test.assertEqual({NodeState.READY: count} if count else {}, states)
        if image := IMAGES.get(operation.kind):
            test.assertEqual({image}, {one.image_id for one in machines})
        # No node twice, none lost, nothing that nobody knows.
        test.assertEqual(
            sorted(one.id for one in machines), sorted(node.compute_id for node in nodes)
        )
        holdings = self.store.receipts.holdings(self.cluster_id)
        left = sorted(one.id for one in holdings if one.gone_at is None)
        test.assertEqual(sorted(one.id for one in machines), left)


class CrashCase(unittest.TestCase):
    def live(self, kinds, *disturbed):
        with tempfile.TemporaryDirectory() as folder:
            life = Life(self, folder)
            try:
                return life.live(kinds, disturbed)
            finally:
                life.close()


#: In this order, in the life of a cluster that is killed at random.
LIFE = (
    OperationKind.CREATE,
    OperationKind.REBOOT,
    OperationKind.RESIZE,
    OperationKind.REBUILD,
    OperationKind.UPGRADE,
    OperationKind.DELETE,
)


class EveryCommit(CrashCase):
    """Each operation is killed before and after each of its commits."""

    def every(self, *before, kind):
        kinds = dict.fromkeys((*before, kind, OperationKind.DELETE))
        for where in ('before', 'after'):
            for number in range(1, MANY):
                with self.subTest(where=where, number=number):
                    if not self.live(kinds, (kind, where, number)):
                        break
            else:
                self.fail(f'{kind} has more than {MANY} commits')
            self.assertGreater(number, 3)

    def test_of_a_creation(self):
        self.every(kind=OperationKind.CREATE)

    def test_of_a_resize(self):
        self.every(OperationKind.CREATE, kind=OperationKind.RESIZE)

    def test_001_8_of_a_reboot(self):
        self.every(OperationKind.CREATE, kind=OperationKind.REBOOT)

    def test_001_8_of_a_rebuild(self):
        self.every(OperationKind.CREATE, kind=OperationKind.REBUILD)

    def test_of_a_deletion(self):
        self.every(OperationKind.CREATE, kind=OperationKind.DELETE)


class Random(CrashCase):
    def test_however_often_it_is_killed_it_ends_right(self):
        dice = random.Random(SEED)
        killed = lives = 0
        while killed < CRASHES:
            lives += 1
            disturbed = [
                (kind, dice.choice(('before', 'after')), dice.randint(1, 12))
                for kind in LIFE
                for _ in range(dice.randint(0, 3))
            ]
            with self.subTest(life=lives, disturbed=disturbed):
                killed += self.live(LIFE, *disturbed)
        print(f'killed {killed} times in {lives} lives')
