"""User data of Swarm nodes, validated by cloud-init's own schema."""

import unittest

from kiln.cluster_drivers.swarm_debian_v1.driver import Driver
from kiln.cluster_drivers.values import Context
from kiln.compute_drivers.authoring import user_data
from tests.functional.cloud_init.package import cloud_init
from tests.unit.cluster_drivers.swarm.case import a_cluster, a_node


class Schema(unittest.TestCase):
    def given(self, **parameters):
        """Return what cloud-init reads from the user data of a node."""
        context = Context(join_key=lambda: b'k' * 32)
        given = Driver.open().bootstrap(context, a_cluster(**parameters), a_node(1))
        return cloud_init().read(user_data.compose(given.user_data, given.files))

    def test_user_data_is_a_valid_cloud_config_for_any_value(self):
        for parameters in ({}, {'labels': {'a': 'it\'s "b"\n- c: ['}, 'install': False}):
            with self.subTest(parameters):
                found = self.given(**parameters)
                self.assertEqual(([], []), (found['mistakes'], found['complaints']))
                self.assertEqual([['/etc/kiln-swarm/start']], found['config']['runcmd'])

    def test_the_schema_finds_a_mistake(self):
        wrong = b'#cloud-config\nruncmd: 7\n'
        found = cloud_init().read(user_data.compose(wrong, []))
        self.assertIn('runcmd', ' '.join(found['mistakes']))
