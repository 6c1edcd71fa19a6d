"""A repeated build key: the existing container is found, or the build refused."""

import json

from kiln.compute_drivers.docker import names
from kiln.compute_drivers.docker.driver import DockerDriver
from kiln.exceptions import BuildConflict, BuildDiffers
from tests.unit.compute_drivers.docker.scripted import VERSION, ScriptedCase, answer
from tests.unit.compute_drivers.docker.test_settings import options

I = 'a' * 64  # noqa: E741
LABELS = {
    names.OWNER: 'site', names.KEY: 'k1', names.NAME: 'web', names.FLAVOR: 'small',
    names.IMAGE: 'plain:1',
}  # fmt: skip


def inspected(*without, status='running'):
    labels = {label: value for label, value in LABELS.items() if label not in without}
    return {
        'Id': I, 'Name': '/k1-1', 'Image': f'sha256:{I}', 'Config': {'Labels': labels},
        'State': {'Status': status}, 'NetworkSettings': {'Networks': {}},
    }  # fmt: skip


class Repeats(ScriptedCase):
    def build(self, found, *later, **given):
        """Build when a container already has the name derived from the key."""
        url = self.serve(VERSION, answer(json.dumps(found).encode()), *later)
        conf = options(url=url, flavors='small: 1 cpu; large: 2 cpus')
        driver = DockerDriver.open(conf, name='here', owner='site')
        self.addCleanup(driver.close)
        asked = {'amphora_flavor': 'small', 'image_id': 'plain:1', 'name': 'web', **given}
        return driver.build('container', build_key='k1', **asked)

    def test_a_repeat_with_equal_arguments_finds_the_container(self):
        self.assertEqual(I, self.build(inspected()))

    def test_other_arguments_are_refused_before_any_change(self):
        for argument, value in (
            ('amphora_flavor', 'large'), ('image_id', 'plain:2'), ('name', 'other'),
        ):  # fmt: skip
            for status in 'running', 'created', 'exited':
                with self.subTest(argument, status=status):
                    with self.assertRaises(BuildDiffers) as caught:
                        self.build(inspected(status=status), **{argument: value})
                    self.assertEqual(I, caught.exception.amphora_id)
                    self.assertIn(f"its {argument} is '", str(caught.exception))
                    self.assertEqual(['GET', 'GET'], [one[:3] for one in self.server.requests])

    def test_a_container_that_never_started_is_finished_as_one_of_its_own_image(self):
        # What the name of its image stands for by now would have other folders and accounts.
        image = answer(json.dumps({'Id': f'sha256:{I}', 'Config': {}}).encode())
        started = answer(b'', status=204)
        self.assertEqual(I, self.build(inspected(status='created'), image, started))
        look, start = self.server.requests[2:]
        self.assertIn(f'/images/sha256:{I}/json', look)
        self.assertIn(f'POST /v1.41/containers/{I}/start', start)

    def test_a_container_without_an_image_label_is_found(self):
        self.assertEqual(I, self.build(inspected(names.IMAGE), image_id='plain:2'))

    def test_arguments_not_given_are_not_compared(self):
        self.assertEqual(I, self.build(inspected(), amphora_flavor=None, image_id=None))

    def test_a_container_being_removed_is_reported_without_comparison(self):
        with self.assertRaises(BuildConflict) as caught:
            self.build(inspected(status='removing'), name='other')
        self.assertNotIsInstance(caught.exception, BuildDiffers)
        self.assertTrue(caught.exception.retryable)
        self.assertIn('Cannot build other: the container of its key', str(caught.exception))
