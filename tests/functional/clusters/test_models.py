"""The models that authors copy keep every promise."""

import unittest

from kiln.testing.clusters import ClusterDriverConformance, OwnEngineConformance
from tests.conformance.test_clusters import MODELS, ready


class MeshConformance(ClusterDriverConformance, unittest.TestCase):
    driver = str(MODELS / 'mesh_v1')
    refused = ({'port': 1023}, {'port': 65_536})

    def expected_outputs(self, nodes):
        return {'nodes': [f'{node.name}={node.address}:7946' for node in ready(nodes)]}


class QuorumConformance(ClusterDriverConformance, unittest.TestCase):
    driver = str(MODELS / 'quorum_v1')


class StackConformance(OwnEngineConformance, unittest.TestCase):
    driver = str(MODELS / 'stack_v1')
