"""A cluster without its driver can be deleted, but not changed."""

import unittest

from kiln.clusters.exceptions import ClusterDriverUnknown
from kiln.clusters.models import Cluster, Operation, OperationKind
from kiln.clusters.spec import ClusterSpec
from kiln.engine.cluster.absent_driver import AbsentDriver, deletes_without
from tests.unit.engine.site import PIN, group


class Absent(unittest.TestCase):
    def allowed(self, kind, args=None, **more):
        spec = ClusterSpec(name='web', groups=(group(1),))
        cluster = Cluster(id='c', name='web', spec=spec, generation=1, pin=PIN, **more)
        operation = kind and Operation(id='o', cluster_id='c', kind=kind, args=args or {})
        return deletes_without(cluster, operation)

    def test_only_a_deletion_continues_without_a_driver(self):
        allowed = {kind for kind in OperationKind if self.allowed(kind)}
        self.assertEqual({OperationKind.DELETE}, allowed)
        self.assertFalse(self.allowed(None))

    def test_resources_of_another_engine_wait_for_its_driver(self):
        for handle in ('stack-1', ''):
            self.assertFalse(self.allowed(OperationKind.DELETE, driver_handle=handle))
        force = {'force': True}
        self.assertTrue(self.allowed(OperationKind.DELETE, force, driver_handle='stack-1'))

    def test_it_cannot_build(self):
        with self.assertRaises(ClusterDriverUnknown):
            AbsentDriver().get_template_definition()
