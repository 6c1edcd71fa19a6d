"""Base of suites in which conductors have a hard time, on each kind of database."""

import contextlib
import pathlib
import tempfile
import time
import unittest

from kiln.clusters.models import OperationState
from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.db.keys import KeyFile
from tests.functional.db.case import OnServer
from tests.functional.hostile.hosts import Clock, Host
from tests.functional.hostile.site import NO_BRAKE, ROUGH, SiteFolder

#: Seconds of a lease, and of the rest after a takeover.
LEASE_S, QUIESCE_S = 3.0, 0.5
#: Seconds within which something is so, on a machine that is busy with other tests.
PATIENCE_S = 300.0


class Rough:
    """Two hosts, a store, and a cloud that fails at times; a runner of commands on the second."""

    faults = ''

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.site = SiteFolder(
            self.folder, ROUGH, url=self.make_url(), lease=LEASE_S, quiesce=QUIESCE_S,
            faults=self.faults,
        )  # fmt: skip
        self.site.more = NO_BRAKE
        clocks = [Clock(self.folder / f'{name}.clock') for name in 'ab']
        if self.one_clock:
            clocks[1] = clocks[0]
        self.log = self.folder / 'log'
        self.log.touch()
        self.hosts = [
            Host(self, f'host-{name}', clock, self.log)
            for name, clock in zip('ab', clocks, strict=True)
        ]
        self.runner = self.hosts[1].runner
        # Opened by the test, whose clock is right.
        if self.one_clock:
            self.command('db', 'upgrade')
        self.store = self.enterContext(contextlib.closing(self.site.store()))

    # ---- commands ----------------------------------------------------------------------------

    def command(self, *words):
        """Run a command that has to succeed; return what it printed."""
        ended = self.runner.run(*self.site.argv(*words))
        self.assertEqual(0, ended.code, f'{words}: {ended.out}{ended.err}{self.said()}')
        return ended.out

    def start(self, host, *words):
        """Start a command that goes on, such as a conductor; return once it uses the store."""
        return host.start(*self.site.argv(*words))

    def conductor(self, host):
        """Return a conductor that has begun to work."""
        before = self.log.stat().st_size
        process = self.start(host, 'conductor')
        self.until(lambda: 'Working on clusters' in self.log.read_text()[before:], 'no start')
        return process

    def said(self):
        return self.log.read_text()[-8000:]

    def note(self, text):
        with self.log.open('a') as log:
            print(text, file=log)

    def history(self):
        """Return what happened last, for a failure."""
        events = [f'{one.at:.3f} {one.kind}: {one.message} {dict(one.facts)}'
                  for one in self.store.events.after(0, limit=100_000)]  # fmt: skip
        return '\n'.join((*events[-200:], self.said()))

    # ---- what is so --------------------------------------------------------------------------

    def until(self, so, what):
        """Return the seconds until something is so."""
        began = time.monotonic()
        while not so():
            if time.monotonic() > began + PATIENCE_S:
                self.fail(f'{what}: not so in {PATIENCE_S:.0f} s: {self.site.standing()}\n'
                          f'{self.said()}')  # fmt: skip
            time.sleep(0.02)
        return time.monotonic() - began

    def web(self):
        return self.store.clusters.get('web')

    def under_way(self):
        """Return the operation of the cluster that has not ended, or None."""
        found = self.store.clusters.list()
        return next((one for cluster in found for one in self.store.operations.open(cluster.id)),
                    None)  # fmt: skip

    def worker(self):
        """Return the number of the process that works on the cluster, and its name; or None."""
        operation = self.under_way()
        if operation is None or operation.state is not OperationState.RUNNING:
            return None
        lease = self.store.leases.get(operation.cluster_id)
        if lease is None or not lease.owner or not lease.expires_at:
            return None
        return int(lease.owner.split('.')[1]), lease.owner

    def assert_as_declared(self, what, count, image):
        """Check that the cluster is exactly as declared, and that nothing else stands."""
        nodes = [('ready', count)] if count else []
        web = ([('work', count)], image, [(('work', state), number) for state, number in nodes])
        self.assertEqual(({'web': web}, [], True), self.site.standing(), f'{what}\n{self.said()}')
        self.assert_each_has_its_machine(what)

    def assert_each_has_its_machine(self, what):
        """Check that each machine is that of one node, and each node's machine is there."""
        nodes = [
            node
            for cluster in self.store.clusters.list()
            for node in self.store.nodes.of(cluster.id)
            if node.state.value != 'gone'
        ]
        with contextlib.closing(NoopCloud(self.folder / 'cloud.db')) as cloud:
            machines = cloud.instances()
        there = {one.id: (one.name, one.build_key, one.created_at) for one in machines}
        known = sorted(node.compute_id for node in nodes)
        if sorted(there) != known:
            self.fail(f'{what}: {there} are there, known are {known}\n{self.history()}')


class OnSqlite(unittest.TestCase):
    #: A store in a file asks for that.
    one_clock = True

    def make_url(self):
        KeyFile(self.folder / 'kiln.keys').advance()
        return f'sqlite:///{self.folder}/kiln.db'


class OnAServer(OnServer, unittest.TestCase):
    #: Each host has its own clock, and the server that of the test.
    one_clock = False
