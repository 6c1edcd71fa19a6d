"""The join key of a cluster: created once, behind the fence, the same for every owner."""

import pathlib
import tempfile
import unittest

from kiln.clusters.exceptions import ClusterNotFound, LeaseLost
from kiln.clusters.models import Cluster, Operation, OperationKind
from kiln.clusters.spec import ClusterSpec
from kiln.db.store import open_store
from kiln.engine.nodes.join_key import JoinKey
from kiln.testing.clock import VirtualClock
from tests.unit.engine.site import PIN, group


class JoinKeyTest(unittest.TestCase):
    def setUp(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.clock = VirtualClock()
        self.store = open_store(f'sqlite:///{folder}/kiln.db', clock=self.clock)
        self.addCleanup(self.store.close)
        for name in ('one', 'two'):
            spec = ClusterSpec(name=name, groups=(group(1),))
            operation = Operation(id=f'op-{name}', cluster_id=name, kind=OperationKind.CREATE)
            cluster = Cluster(id=name, name=name, spec=spec, generation=1, pin=PIN)
            self.store.clusters.create(cluster, operation)

    def claim(self, scope, owner='a'):
        return self.store.leases.claim(scope, owner, 10.0)

    def test_001_20_a_new_owner_derives_the_same_tokens(self):
        key = JoinKey(self.store, self.claim('one'))()
        self.assertEqual(32, len(key))
        self.clock.advance(11)
        self.assertEqual(key, JoinKey(self.store, self.claim('one', 'b'))())

    def test_each_cluster_has_its_own(self):
        keys = {JoinKey(self.store, self.claim(scope))() for scope in ('one', 'two')}
        self.assertEqual(2, len(keys))

    def test_it_is_read_once(self):
        key = JoinKey(self.store, self.claim('one'))
        first = key()
        self.store.close()
        self.assertEqual(first, key())

    def test_an_owner_that_lost_the_cluster_creates_no_key(self):
        late = self.claim('one')
        self.clock.advance(11)
        self.claim('one', 'b')
        with self.assertRaises(LeaseLost):
            JoinKey(self.store, late)()
        with self.assertRaises(ClusterNotFound):
            self.store.secrets.read('one', 'join-key')
