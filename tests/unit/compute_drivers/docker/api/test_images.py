"""Image lookup, pull and validation, and health checks, with a scripted engine."""

import io
import json
import pathlib
import tempfile
import urllib.parse

from kiln.clock import SYSTEM_CLOCK
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.docker import settings
from kiln.compute_drivers.docker.api import health
from kiln.compute_drivers.docker.api.client import Engine
from kiln.compute_drivers.docker.api.images import Images
from kiln.compute_drivers.docker.driver import DockerDriver
from kiln.exceptions import (
    ComputeServiceError,
    InvalidBuildRequest,
    InvalidRequest,
    ServiceUnavailable,
)
from kiln.models import ImageFile
from kiln.testing.clock import VirtualClock
from tests.unit.compute_drivers.docker.scripted import VERSION, ScriptedCase, answer
from tests.unit.compute_drivers.docker.test_settings import options

BUILD = Asked(verb='build', subject='web', build_key='k1')
LOOK = Asked(verb='use image', subject='plain:1')
IMAGE = answer(json.dumps({'Id': 'sha256:' + 'a' * 64, 'RepoTags': ['plain:1']}).encode())
NONE = answer(b'{"message": "No such image: plain:1"}', status=404)
PULLED = answer(b'{"status": "Pulling"}\n{"status": "Done"}\n')
NOT_PULLED = answer(b'{"status": "Pulling"}\n{"error": "manifest unknown"}\n')
FOUND = answer(json.dumps([{'Id': 'b' * 64}]).encode())
MADE = answer(b'{"status": "sha256:%s"}' % (b'b' * 64))
TAGGED = answer(b'', status=201)


class Case(ScriptedCase):
    def images(self, *answers, **given):
        conf = options(url=self.serve(VERSION, *answers), **given)
        engine = Engine(conf, SYSTEM_CLOCK)
        self.addCleanup(engine.close)
        return Images(engine, settings.read(conf, 'here'), SYSTEM_CLOCK)


class Fetching(Case):
    def test_nothing_is_pulled_by_default(self):
        with self.assertRaises(InvalidBuildRequest):
            self.images(NONE).for_build(BUILD, 'plain:1')
        self.assertEqual(2, len(self.server.requests))

    def test_a_missing_image_is_pulled_if_configured(self):
        images = self.images(NONE, PULLED, IMAGE, pull='missing')
        self.assertEqual(['plain:1'], images.for_build(BUILD, 'plain:1')['RepoTags'])
        self.assertIn('POST /v1.41/images/create?tag=1&fromImage=plain', self.server.requests[2])

    def test_nothing_is_pulled_if_the_engine_cannot_tell_what_it_has(self):
        broken = answer(b'{"message": "the disk is made of cheese"}', status=500)
        with self.assertRaises(ServiceUnavailable):
            self.images(broken, PULLED, IMAGE, pull='missing').for_build(BUILD, 'plain:1')
        self.assertEqual(2, len(self.server.requests))

    def test_an_existing_image_is_pulled_again_if_configured(self):
        images = self.images(PULLED, IMAGE, pull='always')
        self.assertTrue(images.for_build(BUILD, 'plain:1'))

    def test_what_a_pull_brought_is_used_at_once(self):
        moved = answer(json.dumps({'Id': 'sha256:' + 'b' * 64}).encode())
        images = self.images(PULLED, IMAGE, PULLED, moved, pull='always')
        for digit in 'ab':
            found = images.for_build(BUILD, 'plain:1')
            self.assertEqual(f'sha256:{digit * 64}', found['Id'])

    def test_a_failed_pull_is_reported_with_the_first_error(self):
        errors = answer(b'7\n{"error": "the cat sat on it"}\n{"error": "manifest unknown"}\n')
        with self.assertRaises(ServiceUnavailable) as caught:
            self.images(NONE, errors, pull='missing').for_build(BUILD, 'plain:1')
        self.assertIn('the cat sat on it', str(caught.exception))

    def test_an_error_within_a_streamed_answer_is_raised(self):
        with self.assertRaises(InvalidBuildRequest) as caught:
            self.images(NONE, NOT_PULLED, pull='missing').for_build(BUILD, 'plain:1')
        self.assertIn('manifest unknown', str(caught.exception))

    def test_an_invalid_image_name_is_never_sent(self):
        for pull in ('never', 'missing', 'always'):
            with self.assertRaises(InvalidBuildRequest):
                self.images(pull=pull).for_build(BUILD, '../x')

    def test_the_details_of_an_image_are_cached_for_a_while(self):
        images = self.images(IMAGE, NONE)
        for _ in range(3):
            self.assertTrue(images.for_build(BUILD, 'plain:1'))
        images.forget()
        with self.assertRaises(InvalidBuildRequest):
            images.for_build(BUILD, 'plain:1')


class Validating(Case):
    def test_a_missing_image_is_refused_unless_it_can_be_pulled(self):
        with self.assertRaises(InvalidRequest):
            self.images(NONE).validate(LOOK, 'plain:1')
        self.images(NONE, answer(b'{}'), pull='missing').validate(LOOK, 'plain:1')
        with self.assertRaises(InvalidRequest):
            gone = answer(b'{"message": "manifest unknown"}', status=404)
            self.images(NONE, gone, pull='missing').validate(LOOK, 'plain:1')

    def test_a_registry_is_not_asked_if_the_engine_cannot_tell_what_it_has(self):
        broken = answer(b'{"message": "the disk is made of cheese"}', status=500)
        with self.assertRaises(ServiceUnavailable):
            self.images(broken, answer(b'{}'), pull='missing').validate(LOOK, 'plain:1')

    def test_what_cannot_be_the_name_of_an_image_is_not_looked_for_in_a_registry(self):
        with self.assertRaisesRegex(InvalidRequest, 'cannot be the name of an image') as caught:
            self.images(pull='missing').validate(LOOK, '../x')
        self.assertIs(type(caught.exception), InvalidRequest)
        self.assertEqual([], self.server.requests)

    def test_an_existing_image_is_described(self):
        self.assertEqual('plain:1', self.images(IMAGE).facts(LOOK, 'plain:1').name)

    def test_an_image_is_described_anew_once_its_name_can_have_moved(self):
        moved = answer(json.dumps({'Id': 'sha256:' + 'b' * 64}).encode())
        clock = VirtualClock()
        conf = options(url=self.serve(VERSION, IMAGE, moved))
        driver = DockerDriver.open(conf, name='here', owner='site', clock=clock)
        self.addCleanup(driver.close)
        for wait_s, digit in ((0, 'a'), (4, 'a'), (1, 'b')):
            clock.advance(wait_s)
            self.assertEqual(f'sha256:{digit * 64}', driver.describe_image('plain:1').id)


class Importing(Case):
    def setUp(self):
        super().setUp()
        self.tar = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()), 'plain.tar')
        self.tar.write_bytes(b'x')

    def import_file(self, *answers, **given):
        """Import an image, and return its id; the first request looks for its content."""
        image = ImageFile(**{'name': 'plain:1', 'path': self.tar, **given})
        return self.images(*answers).import_file(image)

    def asked(self, at):
        """Return the query of a request."""
        return urllib.parse.parse_qs(
            urllib.parse.urlsplit(self.server.requests[at].split()[1]).query
        )

    def test_its_id_is_in_the_last_line_of_an_answer_with_progress(self):
        made = f'sha256:{"b" * 64}'
        # As Docker and as Podman give it.
        for last in (f'{{"status": "{made}"}}', f'{{"id": "{"b" * 64}"}}'):
            imported = answer(f'{{"status": "Importing"}}\n\n{last}\n'.encode())
            self.assertEqual(made, self.import_file(answer(b'[]'), VERSION, imported, TAGGED))

    def test_a_file_of_which_the_engine_makes_no_image_is_refused_with_its_reason(self):
        for said, reason in (
            (b'{"status": "Importing"}\n{"error": "invalid tar header."}', 'invalid tar header'),
            (b'{"error": "first"}\n{"error": "second"}', 'first'),
            (b'no\nthanks', 'no thanks'),
            (b'x' * 201, 'x' * 200),
            (b'', 'the engine gave no reason'),
        ):
            with self.assertRaises(InvalidRequest) as caught:
                self.import_file(answer(b'[]'), VERSION, answer(said))
            self.assertTrue(str(caught.exception).endswith(f'no image from it: {reason}.'))

    def test_name_labels_and_command_of_an_image_are_those_of_its_file(self):
        given = {'properties': {'a': '1'}, 'command': ('/bin/sh', '-c')}
        self.import_file(answer(b'[]'), VERSION, MADE, TAGGED, **given)
        (looked_for,) = self.asked(1)['filters']
        (content,) = json.loads(looked_for)['label']
        # Patiently, an engine is asked for its version again.
        asked = self.asked(3)
        self.assertEqual((['plain'], ['1']), (asked['repo'], asked['tag']))
        labels = {'LABEL "a"="1"', 'LABEL "{}"="{}"'.format(*content.split('='))}
        self.assertEqual({*labels, 'CMD ["/bin/sh", "-c"]'}, {*asked['changes']})

    def test_no_command_is_written_for_an_image_without_one(self):
        self.import_file(answer(b'[]'), VERSION, MADE, TAGGED)
        self.assertEqual(['LABEL'], [one.split()[0] for one in self.asked(3)['changes']])

    def test_the_name_is_given_to_the_image_whatever_had_it(self):
        for name, repository, tag in (
            ('plain:1', 'plain', '1'),
            ('plain', 'plain', 'latest'),
            ('host:5000/plain', 'host:5000/plain', 'latest'),
        ):
            self.import_file(FOUND, TAGGED, name=name)
            self.assertIn(f'POST /v1.41/images/sha256:{"b" * 64}/tag', self.server.requests[-1])
            asked = self.asked(-1)
            found = [*asked['repo'], *asked['tag'], *asked['force']]
            self.assertEqual([repository, tag, '1'], found)

    def test_an_image_is_looked_up_again_once_its_name_means_another(self):
        moved = answer(json.dumps({'Id': 'sha256:' + 'b' * 64}).encode())
        images = self.images(IMAGE, FOUND, TAGGED, moved)
        self.assertEqual(f'sha256:{"a" * 64}', images.facts(LOOK, 'plain:1').id)
        images.import_file(ImageFile(name='plain:1', path=self.tar))
        self.assertEqual(f'sha256:{"b" * 64}', images.facts(LOOK, 'plain:1').id)

    def test_each_import_looks_for_what_is_there_by_then(self):
        images = self.images(FOUND, TAGGED, answer(b'[]'), VERSION, MADE, TAGGED)
        for count in (3, 7):
            images.import_file(ImageFile(name='plain:1', path=self.tar))
            self.assertEqual(count, len(self.server.requests))

    def test_a_file_that_cannot_be_read_is_refused_before_any_request(self):
        path = self.tar.with_name('none.tar')
        said = f'Cannot import image plain:1: {path} cannot be read: No such file or directory.'
        with self.assertRaises(InvalidRequest) as caught:
            self.import_file(path=path)
        self.assertEqual(said, str(caught.exception))
        self.assertIs(type(caught.exception), InvalidRequest)
        self.assertIsInstance(caught.exception.__cause__, FileNotFoundError)
        self.assertEqual([], self.server.requests)

    def test_what_an_image_cannot_be_called_is_refused_before_any_request(self):
        for name in ('../x', 'plain@sha256:' + 'a' * 64):
            with self.assertRaises(InvalidRequest):
                self.import_file(name=name)
        self.assertEqual([], self.server.requests)

    def test_a_file_with_another_end_makes_another_image(self):
        looked_for = set()
        for end in (b'x', b'y'):
            # More than is read at once.
            with self.tar.open('wb') as tar:
                tar.truncate(1 << 20)
                tar.seek(0, io.SEEK_END)
                tar.write(end)
            self.import_file(FOUND, TAGGED)
            looked_for.add(self.server.requests[1])
        self.assertEqual(2, len(looked_for))

    def test_the_order_of_its_properties_makes_no_other_image(self):
        looked_for = set()
        for properties in ({'a': '1', 'b': '2'}, {'b': '2', 'a': '1'}):
            self.import_file(FOUND, TAGGED, properties=properties)
            looked_for.add(self.server.requests[1])
        self.assertEqual(1, len(looked_for))


class Health(ScriptedCase):
    def look(self, info, *, privileged, version=VERSION):
        engine = Engine(options(url=self.serve(version, answer(info))), SYSTEM_CLOCK)
        self.addCleanup(engine.close)
        return health.look(engine, SYSTEM_CLOCK, privileged=privileged)

    def test_the_detail_names_engine_version_and_resources(self):
        said = self.look(
            b'{"ServerVersion": "28.1", "Name": "h1", "CgroupVersion": "2", "CgroupDriver": '
            b'"systemd", "Driver": "overlay2", "NCPU": 4, "MemTotal": 8589934592}',
            privileged=True,
        ).detail
        self.assertEqual(
            'Docker Engine 28.1 on h1, cgroups v2 by systemd, overlay2, 4 cpus, 8192 MiB', said
        )

    def test_the_detail_tells_podman_from_docker(self):
        podman = b'{"ApiVersion": "1.41", "Components": [{"Name": "Podman Engine"}]}'
        said = self.look(b'{"ServerVersion": "5.4"}', privileged=False, version=answer(podman))
        self.assertTrue(said.detail.startswith('Podman 5.4 on '))

    def test_a_rootless_engine_is_refused_for_privileged_containers(self):
        rootless = b'{"SecurityOptions": ["name=seccomp,profile=default", "name=rootless"]}'
        with self.assertRaises(ComputeServiceError) as caught:
            self.look(rootless, privileged=True)
        self.assertIn('rootless', str(caught.exception))
        self.assertTrue(self.look(rootless, privileged=False).healthy)

    def test_an_events_request_uses_the_engine_s_clock(self):
        for moment, ahead_s in (('2100-01-01T00:00:00.123456789Z', 1e9), ('soon', 0)):
            said = json.dumps({'SystemTime': moment}).encode()
            engine = Engine(options(url=self.serve(VERSION, answer(said))), SYSTEM_CLOCK)
            self.addCleanup(engine.close)
            clocks = health.Clocks(engine, SYSTEM_CLOCK)
            for _ in range(2):
                now = clocks.engine_now(LOOK) - SYSTEM_CLOCK.time()
                self.assertEqual(bool(ahead_s), now > ahead_s)

    def test_the_engine_s_clock_is_read_again_after_five_minutes(self):
        clock = VirtualClock()
        moments = ('2100-01-01T00:00:00Z', '2200-01-01T00:00:00Z')
        said = [answer(json.dumps({'SystemTime': moment}).encode()) for moment in moments]
        engine = Engine(options(url=self.serve(VERSION, *said)), clock)
        self.addCleanup(engine.close)
        clocks = health.Clocks(engine, clock)
        for wait_s, read in ((0, 1), (299, 1), (1, 2)):
            clock.advance(wait_s)
            clocks.engine_now(LOOK)
            self.assertEqual(1 + read, len(self.server.requests))

    def test_a_failing_engine_is_not_healthy(self):
        engine = Engine(options(url=self.serve(VERSION, answer(b'', status=503))), SYSTEM_CLOCK)
        self.addCleanup(engine.close)
        with self.assertRaises(ServiceUnavailable):
            health.look(engine, SYSTEM_CLOCK, privileged=False)
