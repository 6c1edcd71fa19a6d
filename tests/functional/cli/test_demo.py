"""Test of the demo of clusters, in which an engine is killed."""

import pathlib
import tempfile

from tests.functional.real_time import RealTime
from tests.unit.cli.shell import Shell


class Clusters(RealTime, Shell):
    def test_000_8_a_cluster_survives_its_engine_and_leaves_a_receipt(self):
        left = set(pathlib.Path(tempfile.gettempdir()).glob('kiln-demo-*'))
        out = self.ok('demo', '--pace', '0.5')
        self.assertEqual(16, out.count('\nok  '), out)
        self.assertNotIn('FAIL', out)
        self.assertNotIn('\033', out)
        self.assertLessEqual(set(pathlib.Path(tempfile.gettempdir()).glob('kiln-demo-*')), left)
