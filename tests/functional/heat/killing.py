"""Conductors of clusters on Heat, and those that are killed with -9 while they work."""

import dataclasses
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from kiln import conf as kiln_conf
from kiln.cli.site.stores import configured_site
from kiln.cluster_drivers.heat.names import stack_name
from kiln.cluster_file.reading import read
from kiln.cluster_service.requests import Declare, Delete, Resize
from kiln.clusters.models import OperationState
from kiln.clusters.placing.counts import resized
from tests.unit.test_layering import ROOT

CONFIG = """\
[compute]
default_backend = noop
owner = kills
[db]
url = sqlite:///{folder}/kiln.db
[secrets]
directory = {folder}/secrets
credentials = heat
[clusters]
lease = 3
quiesce = 0.5
"""
FILE = """\
cluster: {name}
driver: {driver}
image: tiny
flavor: tiny
networks: [net1]
nodegroups:
  - {{name: control, role: control, count: 1}}
  - {{name: work, count: 3}}
"""
SITE = 'kills'
#: Real seconds that an operation may take, on a busy machine and with kills.
WAIT_S = 1200.0


class Conducted(unittest.TestCase):
    """A site with a conductor of its own; a subclass has the Heat."""

    driver = 'heat_generated_v1'

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        secrets = self.folder / 'secrets'
        secrets.mkdir(mode=0o700)
        (secrets / 'heat').write_text(self.credentials())
        (secrets / 'heat').chmod(0o600)
        self.config = self.folder / 'kiln.conf'
        self.config.write_text(CONFIG.format(folder=self.folder))
        self.site = configured_site(kiln_conf.load([str(self.config)]))
        self.addCleanup(self.site.close)
        self.conductor = None
        self.addCleanup(self.kill)

    def credentials(self):
        """Return the document of the secret."""
        raise NotImplementedError

    def command(self, *words):
        """Return the command of ``kiln`` with some words."""
        module = 'tests.functional.heat.conductor'
        return [sys.executable, '-m', module, '--config-file', str(self.config), *words]

    def start(self):
        """Start a conductor."""
        log = (self.folder / 'conductor.log').open('a')
        with log:
            self.conductor = subprocess.Popen(
                self.command('conductor'), cwd=ROOT, env=os.environ | {'PYTHONPATH': str(ROOT)},
                stdout=log, stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
        self.assertTrue(any('Working on clusters' in line for line in self.conductor.stderr))

    def kill(self):
        """Kill the conductor, if it lives."""
        if self.conductor is not None:
            self.conductor.send_signal(signal.SIGKILL)
            self.conductor.wait()
            self.conductor.stderr.close()
            self.conductor = None

    def submit(self, request):
        """Return the operation of a request."""
        return self.site.clusters.apply(self.site.clusters.plan(request))

    def found(self, operation):
        """Return an operation as it is now."""
        return self.site.clusters.operation(operation.id)

    def spec(self, name, count=3):
        """Return what a cluster is to be, with some workers."""
        (spec,) = read(FILE.format(name=name, driver=self.driver)).clusters
        control, work = spec.groups
        work = dataclasses.replace(work, shape=resized(work.shape, count))
        return dataclasses.replace(spec, groups=(control, work))


class Killing(Conducted):
    """Clusters whose conductors are killed at any moment."""

    #: Conductors that are killed, and the longest time that one lives, in seconds.
    kills = 4
    longest_s = 12.0
    names = ('east', 'west')

    def setUp(self):
        super().setUp()
        self.dice = random.Random(3)
        self.killed = 0

    # ---- what a subclass knows -----------------------------------------------------------

    def stacks(self):
        """Return the name and the state of each stack that exists."""
        raise NotImplementedError

    def servers(self):
        """Return the number of servers that exist, whose ever they are."""
        raise NotImplementedError

    # ---- kills ---------------------------------------------------------------------------

    def strike(self):
        """Do what else is to happen while operations are open."""

    def is_open(self, operation):
        """Return True if an operation has not ended."""
        return not self.found(operation).state.ended

    def run_all(self, *requests):
        """Have requests done, while conductors are killed as long as there are kills left."""
        asked = [self.submit(one) for one in requests]
        end = time.monotonic() + WAIT_S
        while left := [one for one in asked if self.is_open(one)]:
            if self.conductor is None:
                self.start()
            self.assertLess(time.monotonic(), end, [self.found(one) for one in left])
            self._wait(left)
            self.strike()
            if self.killed < self.kills:
                self.kill()
                self.killed += 1
        for one in asked:
            self.assertIs(OperationState.SUCCEEDED, self.found(one).state, self.found(one))

    def _wait(self, left):
        """Let the conductor live for a moment, or until all is done."""
        end = time.monotonic() + self.dice.uniform(0.0, self.longest_s)
        while time.monotonic() < end and any(not self.found(one).state.ended for one in left):
            time.sleep(0.1)

    # ---- a life --------------------------------------------------------------------------

    def live(self):
        """Create, shrink, grow and delete the clusters; check what exists after each."""
        self.run_all(*(Declare(spec=self.spec(name)) for name in self.names))
        self.right(dict.fromkeys(self.names, 4))
        middle = {name: sorted(self.nodes(name))[2] for name in self.names}
        self.run_all(
            *(Resize(cluster=name, group='work', remove=(node,)) for name, node in middle.items())
        )
        self.right(dict.fromkeys(self.names, 3))
        for name, node in middle.items():
            self.assertNotIn(node, self.nodes(name))
        self.run_all(*(Declare(spec=self.spec(name, 4)) for name in self.names))
        self.right(dict.fromkeys(self.names, 5))
        self.run_all(*(Delete(cluster=name) for name in self.names))
        self.right({})

    def nodes(self, name):
        return self.site.store.clusters.get(name).outputs['nodes']

    def right(self, counts):
        """Fail unless each cluster has one stack with its nodes, and nothing else exists."""
        ids = {name: self.site.store.clusters.get(name).id for name in counts}
        expected = sorted(stack_name(SITE, id_) for id_ in ids.values())
        found = self.stacks()
        self.assertEqual(expected, sorted(name for name, _ in found))
        self.assertEqual(set(), {state for _, state in found if not state.endswith('COMPLETE')})
        self.assertEqual(counts, {name: len(self.nodes(name)) for name in counts})
        self.assertEqual(sum(counts.values()), self.servers())

    def test_whatever_is_killed_each_cluster_ends_as_wanted_and_nothing_else_is_left(self):
        while self.killed < self.kills:
            self.live()
