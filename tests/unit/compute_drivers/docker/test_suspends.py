"""Suspends that an engine refuses by the state of a container."""

import json

from kiln.compute_drivers.docker.driver import DockerDriver
from kiln.exceptions import InstanceStateConflict
from tests.unit.compute_drivers.docker.scripted import VERSION, ScriptedCase, answer
from tests.unit.compute_drivers.docker.test_repeats import inspected
from tests.unit.compute_drivers.docker.test_settings import options

STOPPED = answer(b'{"message": "Container c1 is not running"}', status=409)


class Refused(ScriptedCase):
    def test_a_suspend_can_be_repeated_while_the_engine_restarts_the_container(self):
        for status, again in (('restarting', True), ('exited', False)):
            with self.subTest(status):
                found = [
                    answer(json.dumps(inspected(status=one)).encode())
                    for one in ('running', status)
                ]
                url = self.serve(VERSION, found[0], STOPPED, found[1])
                driver = DockerDriver.open(options(url=url), name='here', owner='site')
                self.addCleanup(driver.close)
                with self.assertRaises(InstanceStateConflict) as caught:
                    driver.suspend(inspected()['Id'])
                self.assertIs(again, caught.exception.retryable)
                if again:
                    self.assertIn('it is busy rebooting', str(caught.exception))
                    self.assertIn('is not running', str(caught.exception.__cause__))
