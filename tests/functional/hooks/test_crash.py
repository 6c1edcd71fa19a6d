"""Kills during hook calls (B6): a hook that succeeded is not called again."""

import collections
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time
import uuid

from kiln.clusters.models import Cluster, Operation, OperationKind, OperationState, StepState
from kiln.clusters.spec import ClusterSpec
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.hooks.invocation import STEP_KIND
from tests.functional.hooks.programs import ProgramCase, write_program
from tests.functional.hooks.site import conducting, open_cloud, open_site_store
from tests.unit.engine.site import PIN, group
from tests.unit.hooks.samples import wait_until

ROOT = pathlib.Path(__file__).parents[3]
END_S = 300.0
#: The process is killed at every STRIDE-th commit.
STRIDE = 1 if os.environ.get('KILN_FULL') else 15
#: More than the number of commits of any operation here.
MANY = 60
LATER = '{ echo \'{"status": "Success", "retryAfterSeconds": 1}\'; exit 75; }'


class CrashCase(ProgramCase):
    """A cluster with a hooks.d directory, and processes that can be killed."""

    def setUp(self):
        super().setUp()
        self.begin(self.folder / 'life')

    def begin(self, folder):
        """Begin with an empty site."""
        self.site = folder
        (self.site / 'hooks.d').mkdir(parents=True)
        self.log = self.site / 'log'
        self.log.touch()
        self.store = open_site_store(str(self.site))
        self.addCleanup(self.store.close)
        self.cluster_id = str(uuid.uuid4())

    def hook(self, place, more=''):
        """Install a hook that logs the key of each call, then runs ``more``."""
        body = f'echo "$KILN_POINT $KILN_INVOCATION" >> {self.log}\n{more}'
        return write_program(self.site / 'hooks.d' / place, body)

    def calls(self):
        """Return point and key of all calls, in order."""
        return [tuple(line.split()) for line in self.log.read_text().splitlines()]

    # ---- operations ----------------------------------------------------------------

    def ask(self, kind):
        now = time.time()
        operation = Operation(
            id=str(uuid.uuid4()), cluster_id=self.cluster_id, kind=kind, created_at=now,
            deadline_at=now + END_S,
        )  # fmt: skip
        if kind is OperationKind.CREATE:
            spec = ClusterSpec(name='web', groups=(group(2),))
            cluster = Cluster(id=self.cluster_id, name='web', spec=spec, generation=1, pin=PIN)
            self.store.clusters.create(cluster, operation)
        else:
            self.store.operations.submit(operation)
        return operation

    def create(self):
        """Create a cluster without hooks."""
        operation = self.ask(OperationKind.CREATE)
        with conducting(self.store, open_cloud(str(self.site))):
            wait_until(lambda: self.store.operations.get(operation.id).state.ended, END_S)

    # ---- processes -----------------------------------------------------------------

    def process(self, *args):
        process = subprocess.Popen(
            [sys.executable, '-m', 'tests.functional.hooks.process', str(self.site), *args],
            cwd=ROOT, env=os.environ | {'PYTHONPATH': str(ROOT)}, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def status(self, process):
        """Wait for a process, and return its exit status: success or a kill."""
        _, said = process.communicate(timeout=2 * END_S)
        self.assertIn(process.returncode, (0, -signal.SIGKILL), said)
        return process.returncode

    def kill(self, process):
        process.send_signal(signal.SIGKILL)
        process.wait()

    def finish(self, operation):
        """Run a process until no work is left, and check that the operation succeeded."""
        process = self.process()
        self.assertEqual(0, self.status(process))
        ended = self.store.operations.get(operation.id)
        self.assertIs(OperationState.SUCCEEDED, ended.state, ended.cause)

    def succeeded(self, operation):
        """Return the keys of the hooks that succeeded according to the journal."""
        return {one.token for one in self.steps(operation) if one.state is StepState.DONE}

    def steps(self, operation):
        found = self.store.journal.of(operation.id)
        return [step for step in found if step.kind == STEP_KIND]

    def machines(self):
        with contextlib.closing(NoopDriver(cloud=open_cloud(str(self.site)))) as driver:
            return len(list(driver.list_amphorae()))


class DuringACall(CrashCase):
    def test_b6_a_hook_running_at_a_kill_is_called_again_with_the_same_key(self):
        go_on = self.site / 'go-on'
        self.hook('pre_create/10-first')
        self.hook('pre_create/20-second', f'until [ -e {go_on} ]; do sleep 0.05; done')
        operation = self.ask(OperationKind.CREATE)
        process = self.process()
        wait_until(lambda: len(self.calls()) == 2, END_S)
        self.kill(process)
        (first,) = self.succeeded(operation)
        go_on.touch()
        self.finish(operation)
        (point, key), *others = self.calls()
        self.assertEqual(('pre_create', first), (point, key))
        self.assertEqual(2, len(others))
        self.assertEqual(1, len(set(others)), 'the second key is not the first one')
        self.assertEqual(2, self.machines())

    def test_b6_a_hook_that_answered_later_is_called_again_after_a_kill(self):
        ready = self.site / 'ready'
        self.hook('pre_delete/10-drain', f'[ -e {ready} ] || {LATER}')
        self.create()
        operation = self.ask(OperationKind.DELETE)
        process = self.process()
        wait_until(lambda: any(step.result['answers'] for step in self.steps(operation)), END_S)
        self.kill(process)
        self.assertIn('pre_delete/drain', self.store.operations.get(operation.id).cause.message)
        self.assertEqual(2, self.machines())
        ready.touch()
        self.finish(operation)
        self.assertEqual(0, self.machines())
        self.assertEqual(1, len(set(self.calls())))


POINTS = {
    OperationKind.CREATE: ('pre_create', 'pre_node_build', 'post_node_ready', 'post_create'),
    OperationKind.DELETE: ('pre_delete', 'pre_node_delete', 'pre_node_terminate', 'post_delete'),
}


class EveryCommit(CrashCase):
    """Kills at the commits of an operation with hooks at all points."""

    def live(self, kind, where, number):
        """Run an operation with one kill; return True if the commit was reached."""
        self.begin(self.folder / f'{kind.value}-{where}-{number}')
        if kind is not OperationKind.CREATE:
            self.create()
        for point in POINTS[kind]:
            self.hook(f'{point}/10-note')
        operation = self.ask(kind)
        process = self.process(where, str(number))
        status = self.status(process)
        known, made = self.succeeded(operation), collections.Counter(self.calls())
        if status:
            self.finish(operation)
        self.check(kind, known, made)
        return bool(status)

    def check(self, kind, known, made):
        after = collections.Counter(self.calls())
        for call, count in made.items():
            if call[1] in known:
                self.assertEqual(count, after[call], f'{call} had succeeded')
        counts = collections.Counter(point for point, _ in after)
        wanted = {point: 2 if '_node_' in point else 1 for point in POINTS[kind]}
        self.assertEqual(wanted, dict(counts))
        self.assertLessEqual(max(after.values()), 2)
        self.assertEqual(2 if kind is OperationKind.CREATE else 0, self.machines())

    def every(self, kind):
        for turn, number in enumerate(range(1, MANY, STRIDE)):
            where = 'after' if turn % 2 else 'before'
            with self.subTest(where=where, number=number):
                if not self.live(kind, where, number):
                    break
        else:
            self.fail(f'{kind} has more than {MANY} commits')
        self.assertGreater(number, 6)

    def test_b6_hooks_that_succeeded_are_not_repeated_after_a_kill_in_a_creation(self):
        self.every(OperationKind.CREATE)

    def test_b6_hooks_that_succeeded_are_not_repeated_after_a_kill_in_a_deletion(self):
        self.every(OperationKind.DELETE)
