"""Sample payloads to try a hook without a cluster."""

import json
import unittest

from kiln.clusters.models import OperationKind
from kiln.clusters.spec import ClusterSpec
from kiln.hooks.points import Point
from kiln.hooks.sample import sample, sample_cluster
from tests.unit.hooks.samples import CLUSTER, NOW, SPEC, hook


class Sample(unittest.TestCase):
    def document(self, point, cluster=CLUSTER, **more):
        call, occasion = sample(hook('a', point, **more), cluster, site='east', now=NOW)
        return json.loads(json.dumps(call.document(occasion.document())))

    def test_the_sample_fits_the_point(self):
        for point, kind, outcome, node in (
            (Point.PRE_CREATE, 'create', None, False),
            (Point.POST_CREATE, 'create', 'succeeded', False),
            (Point.PRE_UPDATE, 'update', None, False),
            (Point.POST_DELETE, 'delete', 'succeeded', False),
            (Point.PRE_NODE_BUILD, 'create', None, True),
            (Point.POST_CONTROL_PLANE, 'create', 'succeeded', False),
        ):
            with self.subTest(point):
                said = self.document(point)
                self.assertEqual((kind, outcome, node), (said['operation']['kind'],
                                 said['outcome'], bool(said['node'])))  # fmt: skip

    def test_the_sample_has_a_kind_for_which_the_hook_is_called(self):
        said = self.document(Point.PRE_UPDATE, kinds=(OperationKind.DELETE, OperationKind.REBOOT))
        self.assertEqual('reboot', said['operation']['kind'])

    def test_a_declared_cluster_is_enough(self):
        said = self.document(Point.POST_NODE_READY, sample_cluster(SPEC))
        self.assertEqual(('web', 'work'), (said['cluster']['name'], said['node']['group']))
        empty = self.document(Point.POST_NODE_READY, sample_cluster(ClusterSpec(name='web')))
        self.assertEqual('sample', empty['node']['group'])

    def test_each_sample_has_its_own_key(self):
        keys = {self.document(Point.PRE_CREATE)['invocation'] for _ in range(3)}
        self.assertEqual(3, len(keys))
