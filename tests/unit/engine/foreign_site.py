"""A driver with an engine of its own that follows a test's script, and its site."""

import pathlib
import tempfile
import unittest
import uuid

from kiln.cluster_drivers.base import ClusterDriver
from kiln.cluster_drivers.values import Progress, StatusReport
from kiln.clusters.models import Cluster, Operation, OperationKind
from kiln.clusters.spec import ClusterSpec
from kiln.engine.cluster.driver_worker import POLL_S, DriverWorker
from kiln.engine.cluster.held_lease import HeldLease
from kiln.engine.context import Backends, Parts
from kiln.hooks.hook import Hook, Plugin
from kiln.hooks.registry import Hooks
from kiln.testing.clock import VirtualClock
from tests.unit.db.case import open_new_store
from tests.unit.engine.site import PIN, group

DONE = StatusReport(progress=Progress.COMPLETE)
BUSY = StatusReport(progress=Progress.IN_PROGRESS, reason='2 of 3 servers')


class Orchestra(ClusterDriver):
    """A driver with an engine that returns what a test sets."""

    name = 'orchestra'
    version = '1.0.0'
    provides = (('vm', '*', 'nodes'),)

    def __init__(self):
        self.calls = []
        self.answers = []
        #: The context of the last call, and whether each call asks for a poll.
        self.context = None
        self.asks = False

    def say(self, call, cluster, context=None):
        self.calls.append((call, cluster.driver_handle))
        self.context = context
        if self.asks:
            context.poll_soon()
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def create_cluster(self, context, cluster, cluster_create_timeout):
        self.timeout_s = cluster_create_timeout
        return self.say('create', cluster, context)

    def update_cluster(self, context, cluster, scale_manager=None, rollback=False):
        return self.say('update', cluster)

    def delete_cluster(self, context, cluster):
        return self.say('delete', cluster)

    def update_cluster_status(self, context, cluster):
        return self.say('status', cluster, context)

    def resize_cluster(self, context, cluster, *, nodegroup, node_count, nodes_to_remove=()):
        self.resized = (nodegroup.name, node_count)
        return self.say('resize', cluster)

    def upgrade_cluster(self, context, cluster, *, cluster_template, nodegroups, strategy):
        self.upgraded = [one.name for one in nodegroups]
        return self.say('upgrade', cluster)

    def reboot_cluster(self, context, cluster, *, hard=False, nodes=None):
        self.hard = hard
        return self.say('reboot', cluster)


class AtOnce(Hooks):
    """Hooks whose answers arrive before the next round."""

    def begin(self, cluster_id, call, occasion, tell):
        tell(self.call(call, occasion))


class ForeignCase(unittest.TestCase):
    def setUp(self):
        self.called = []
        self.hooks = AtOnce()
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.clock = VirtualClock()
        self.store = open_new_store(f'sqlite:///{folder}/kiln.db', clock=self.clock)
        self.addCleanup(self.store.close)
        self.driver = Orchestra()
        self.cluster_id = str(uuid.uuid4())
        spec = ClusterSpec(name='web', groups=(group(3),))
        cluster = Cluster(id=self.cluster_id, name='web', spec=spec, generation=1, pin=PIN)
        self.created = self.operation(OperationKind.CREATE)
        self.store.clusters.create(cluster, self.created)
        self.takeover()

    def operation(self, kind, **args):
        now = self.clock.time()
        return Operation(
            id=str(uuid.uuid4()), cluster_id=self.cluster_id, kind=kind, args=args,
            created_at=now, deadline_at=now + 600.0,
        )  # fmt: skip

    def submit(self, kind, **args):
        operation = self.operation(kind, **args)
        self.store.operations.submit(operation)
        self.work.reload()
        return operation

    def takeover(self):
        """Let another process take the cluster over."""
        lease = self.store.leases.claim(self.cluster_id, str(uuid.uuid4()), 1.0)
        if lease is None:
            self.clock.advance(2.0)
            lease = self.store.leases.claim(self.cluster_id, str(uuid.uuid4()), 1.0)
        self.results, self.launched = [], []
        parts = Parts(
            store=self.store, backends=Backends(lambda name: None, default='none'), drivers=None,
            clock=self.clock, hooks=self.hooks,
            run=lambda _, function: self.launched.append(function),
        )  # fmt: skip
        self.work = DriverWorker(parts, HeldLease(parts, lease), self.driver, self.results.append)

    def turn(self, *answers):
        """Run a round, the work that it started, and take in the results."""
        self.driver.answers += answers
        self.work.run_round([])
        self.take_results()
        if self.launched:
            self.launched.pop()()
            self.take_results()

    def take_results(self):
        while self.results:
            self.work.run_round([self.results.pop(0)])

    def later(self, *answers):
        self.clock.advance(POLL_S)
        self.turn(*answers)

    def hook(self, point, *answers, **more):
        """Return a hook that gives an answer, and then succeeds."""
        said = list(answers)

        def function(document):
            self.called.append(document)
            return said.pop(0) if said else None

        return Hook(name='a', point=point, target=Plugin(function), **more)

    def hooked(self, *hooks):
        """Let a process that has some hooks take the cluster over."""
        self.hooks = AtOnce(hooks)
        self.takeover()

    def points(self):
        return [document['point'] for document in self.called]

    def state(self, operation):
        return self.store.operations.get(operation.id).state

    def calls(self):
        return [call for call, _ in self.driver.calls]
