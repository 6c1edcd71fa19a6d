"""What the services of a development cloud bring for those who use it."""

import unittest

from tools.devcloud.services.octavia import Octavia


class Services(unittest.TestCase):
    def test_the_command_of_a_service_is_in_the_shell_of_the_cloud(self):
        # Beside its server's own environment, which is not in that shell.
        self.assertIn('python-octaviaclient', Octavia.clients)
