"""Reboots that are refused by the state of a container."""

import json

from kiln.compute_drivers.docker.driver import DockerDriver
from kiln.exceptions import InstanceStateConflict
from tests.unit.compute_drivers.docker.scripted import VERSION, ScriptedCase, answer
from tests.unit.compute_drivers.docker.test_repeats import inspected
from tests.unit.compute_drivers.docker.test_settings import options


class Refused(ScriptedCase):
    def test_a_reboot_can_be_repeated_after_a_build_but_not_after_a_removal(self):
        for status, again in (('created', True), ('removing', False)):
            with self.subTest(status):
                found = inspected(status=status)
                url = self.serve(VERSION, answer(json.dumps(found).encode()))
                driver = DockerDriver.open(options(url=url), name='here', owner='site')
                self.addCleanup(driver.close)
                with self.assertRaises(InstanceStateConflict) as caught:
                    driver.reboot(found['Id'])
                self.assertIs(again, caught.exception.retryable)
                self.assertEqual(2, len(self.server.requests))
