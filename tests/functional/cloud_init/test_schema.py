"""What the nodes of a Swarm are given, judged by cloud-init's own schema."""

import unittest

from kiln.cluster_drivers.swarm_debian_v1.driver import Driver
from kiln.cluster_drivers.values import Context
from kiln.compute_drivers.authoring import user_data
from tests.functional.cloud_init.package import cloud_init
from tests.unit.cluster_drivers.swarm.case import a_cluster, a_node


class Schema(unittest.TestCase):
    def given(self, **parameters):
        """Return what cloud-init makes of what a node is given."""
        context = Context(join_key=lambda: b'k' * 32)
        given = Driver.open().bootstrap(context, a_cluster(**parameters), a_node(1))
        return cloud_init().read(user_data.compose(given.user_data, given.files))

    def test_it_is_a_cloud_config_without_mistakes_whatever_the_values(self):
        for parameters in ({}, {'labels': {'a': 'it\'s "b"\n- c: ['}, 'install': False}):
            with self.subTest(parameters):
                found = self.given(**parameters)
                self.assertEqual(([], []), (found['mistakes'], found['complaints']))
                self.assertEqual([['/etc/kiln-swarm/start']], found['config']['runcmd'])

    def test_a_mistake_would_be_found(self):
        wrong = b'#cloud-config\nruncmd: 7\n'
        found = cloud_init().read(user_data.compose(wrong, []))
        self.assertIn('runcmd', ' '.join(found['mistakes']))
