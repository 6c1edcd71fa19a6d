"""Look-ups of flavors, images, zones and keys over a real connection."""

import concurrent.futures
import dataclasses
import threading
import unittest

from keystoneauth1.noauth import NoAuth
from keystoneauth1.session import Session

from kiln.clock import Deadline, deadline_scope
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.nova.api.client import Services
from kiln.compute_drivers.nova.catalogue import Catalogue
from kiln.exceptions import (
    InvalidBuildRequest,
    InvalidRequest,
    PermissionDenied,
    ServiceTimeout,
    ServiceUnavailable,
)
from kiln.testing.clock import VirtualClock
from tests.unit.compute_drivers.nova.corpus import ANSWERS
from tests.unit.compute_drivers.nova.loopback import Loopback
from tests.unit.compute_drivers.nova.written import written

BUILD = Asked(verb='build', subject='web-1', build_key='k-1')
UUID = '4bfa4ff8-0632-421c-b662-4005c136db4b'
PAGE = (404, {}, '<html>404 Not Found</html>')


def recorded(name):
    answer = ANSWERS[name]
    return answer['status'], answer['headers'], answer['body']


class Scoped(NoAuth):
    """A session with a project, but without credentials."""

    def __init__(self, project_id):
        super().__init__()
        self._project_id = project_id

    def get_project_id(self, *_args, **_kwargs):
        return self._project_id


class CatalogueCase(unittest.TestCase):
    loopback = Loopback

    def setUp(self):
        self.cloud = self.loopback()
        self.enterContext(self.cloud)
        self.clock = VirtualClock()
        self.catalogue = self.catalogue_of()

    def catalogue_of(self, *, ttl_s=300.0, image_owner=None, project_id=None):
        conf = written(
            'microversion = 2.96',
            *(
                f'{service}_endpoint_override = {self.cloud.url}'
                for service in ('compute', 'network', 'image')
            ),
        )
        session = Session(auth=Scoped(project_id))
        services = Services(conf, session, region=None, clock=self.clock)
        self.addCleanup(services.close)
        return Catalogue(services, self.clock, ttl_s=ttl_s, image_owner=image_owner)

    def answer(self, what, found):
        self.cloud.answers[what] = found

    def times(self, what):
        return sum(asked == what for asked, _ in self.cloud.queries)

    def refuses(self, kind, text, call, *args):
        with self.assertRaises(kind) as caught:
            call(*args)
        self.assertIs(kind, type(caught.exception))
        self.assertEqual(text, str(caught.exception))


class Flavors(CatalogueCase):
    def setUp(self):
        super().setUp()
        rows = [{'id': '1', 'name': 'small'}, {'id': 'small-id', 'name': '1'}]
        self.answer('GET /flavors', {'flavors': rows})

    def flavor(self, name, asked=BUILD):
        return self.catalogue.flavor_id(asked, name)

    def test_a_flavor_is_found_by_name_and_by_id(self):
        self.assertEqual('1', self.flavor('small'))
        self.assertEqual('small-id', self.flavor('small-id'))

    def test_an_id_takes_precedence_over_an_equal_name(self):
        self.assertEqual('1', self.flavor('1'))

    def test_a_uuid_is_looked_up_for_a_validation_but_not_for_a_build(self):
        self.assertEqual(UUID, self.flavor(UUID))
        self.assertEqual([], self.cloud.queries)
        with self.assertRaises(InvalidRequest):
            self.flavor(UUID, Asked(verb='use flavor', subject=UUID))

    def test_flavors_are_cached(self):
        self.flavor('small')
        self.clock.advance(299)
        self.flavor('small')
        self.assertEqual(1, self.times('GET /flavors'))
        self.clock.advance(1)
        self.flavor('small')
        self.assertEqual(2, self.times('GET /flavors'))

    def test_a_cleared_cache_is_filled_again(self):
        self.flavor('small')
        self.catalogue.forget()
        self.flavor('small')
        self.assertEqual(2, self.times('GET /flavors'))

    def test_a_new_flavor_is_found_although_the_list_is_cached(self):
        self.flavor('small')
        self.answer('GET /flavors', {'flavors': [{'id': '2', 'name': 'new'}]})
        self.clock.advance(5)
        self.assertEqual('2', self.flavor('new'))

    def test_a_private_flavor_is_found_by_its_id(self):
        self.answer('GET /flavors/secret', {'flavor': {'id': 'secret'}})
        self.assertEqual('secret', self.flavor('secret'))

    def test_a_flavor_name_is_not_used_as_a_path(self):
        self.answer('GET /flavors/a', {'flavor': {'id': 'another'}})
        self.answer('GET /', {'version': {}})
        for name in ('a?b', 'a#b', 'a/../a', '..', '?', 'a%20'):
            with self.subTest(name), self.assertRaises(InvalidBuildRequest):
                self.flavor(name)

    def test_an_unknown_flavor_is_refused_with_the_known_ones(self):
        self.answer('GET /flavors/nope', recorded('nova/flavor_unknown'))
        text = "flavor 'nope' was not found. Known: small, small-id."
        self.refuses(InvalidBuildRequest, f'Cannot build web-1: {text}', self.flavor, 'nope')
        use = Asked(verb='use flavor', subject='nope')
        self.refuses(InvalidRequest, f'Cannot use flavor nope: {text}', self.flavor, 'nope', use)

    def test_names_are_told_without_their_ids_and_many_are_cut_with_their_number(self):
        self.answer('GET /flavors/nope', recorded('nova/flavor_unknown'))
        rows = [{'id': f'{n:02d}-id', 'name': f'size-{n:02d}'} for n in range(30)]
        self.answer('GET /flavors', {'flavors': rows})
        names = [f'size-{n:02d}' for n in range(20)]
        self.refuses(
            InvalidBuildRequest,
            "Cannot build web-1: flavor 'nope' was not found. "
            f'Known: {", ".join(names)} and 10 more.',
            self.flavor, 'nope',
        )  # fmt: skip

    def test_an_image_is_described_by_the_properties_of_its_owner(self):
        self.answer('GET /v2/images', {'images': [{'id': UUID}]})
        said = {'os_distro': 'debian', 'kiln_driver': 'nodes_v1'}
        told = {'id': UUID, 'name': 'amphora', 'status': 'active', 'size': 3, 'tags': ['a']}
        self.answer(f'GET /v2/images/{UUID}', told | said)
        asked = Asked(verb='use image', subject='amphora')
        facts = self.catalogue.image_facts(asked, 'amphora')
        self.assertEqual((UUID, 'amphora', said), (facts.id, facts.name, dict(facts.properties)))

    def test_a_404_of_a_proxy_does_not_mean_that_the_flavor_is_missing(self):
        self.answer('GET /flavors/nope', PAGE)
        with self.assertRaises(ServiceUnavailable):
            self.flavor('nope')

    def test_any_other_refusal_is_unchanged(self):
        self.answer('GET /flavors/nope', recorded('nova/policy'))
        with self.assertRaises(PermissionDenied):
            self.flavor('nope')


class SlowLoopback(Loopback):
    """Delays its answers until the test releases them."""

    def __init__(self):
        super().__init__()
        self.was_asked = threading.Event()
        self.may_go_on = threading.Event()

    def answer(self, what, query):
        answer = super().answer(what, query)
        self.was_asked.set()
        self.may_go_on.wait(120)
        return answer


@dataclasses.dataclass(frozen=True)
class WatchedDeadline(Deadline):
    """Signals when a caller is about to wait for it."""

    looked: threading.Semaphore = dataclasses.field(kw_only=True)

    def remaining_s(self):
        self.looked.release()
        return super().remaining_s()


class ManyAtATime(CatalogueCase):
    loopback = SlowLoopback

    def setUp(self):
        super().setUp()
        self.answer('GET /flavors', {'flavors': [{'id': '1', 'name': 'small'}]})
        self.waits = threading.Semaphore(0)
        self.pool = concurrent.futures.ThreadPoolExecutor(4)
        # First, so that delayed answers do not block the threads.
        self.addCleanup(self.pool.shutdown)
        self.addCleanup(self.cloud.may_go_on.set)

    def small(self):
        return self.catalogue.flavor_id(BUILD, 'small')

    def small_too(self):
        with deadline_scope(WatchedDeadline(60, self.clock, looked=self.waits)):
            return self.small()

    def many(self):
        """Return four look-ups: one has sent its request, and three wait for it."""
        asked = [self.pool.submit(self.small)]
        self.assertTrue(self.cloud.was_asked.wait(120))
        for _ in range(3):
            asked.append(self.pool.submit(self.small_too))
            self.assertTrue(self.waits.acquire(timeout=120))
        return asked

    def test_one_request_serves_all(self):
        asked = self.many()
        self.cloud.may_go_on.set()
        self.assertEqual(['1'] * 4, [one.result() for one in asked])
        self.assertEqual(1, self.times('GET /flavors'))

    def test_after_a_failure_each_caller_sends_its_own_request(self):
        self.answer('GET /flavors', PAGE)
        asked = self.many()
        self.assertEqual(1, self.times('GET /flavors'))
        self.cloud.may_go_on.set()
        errors = [one.exception() for one in asked]
        self.assertEqual([ServiceUnavailable] * 4, [type(error) for error in errors])
        self.assertEqual(4, len(set(map(id, errors))))

    def test_no_caller_waits_beyond_its_own_deadline(self):
        self.many()
        with self.assertRaises(ServiceTimeout), deadline_scope(Deadline.after(0, self.clock)):
            self.small()
        self.assertEqual(1, self.times('GET /flavors'))


class Images(CatalogueCase):
    def image(self, name, asked=BUILD):
        return self.catalogue.image_id(asked, name)

    def test_an_image_id_is_not_looked_up(self):
        self.assertEqual(UUID, self.image(UUID))
        self.assertEqual([], self.cloud.queries)

    def test_an_image_is_found_by_its_name(self):
        self.answer('GET /v2/images', {'images': [{'id': UUID}]})
        self.assertEqual(UUID, self.image('amphora'))
        ((_, query),) = self.cloud.queries
        self.assertEqual(('amphora', 'active'), (query['name'], query['status']))
        self.assertNotIn('owner', query)

    def test_the_newest_image_with_a_tag_is_used(self):
        self.answer('GET /v2/images', {'images': [{'id': UUID}, {'id': 'older'}]})
        self.assertEqual(UUID, self.image('tag:amphora'))
        ((_, query),) = self.cloud.queries
        self.assertEqual(('amphora', 'created_at:desc'), (query['tag'], query['sort']))
        self.assertNotIn('name', query)

    def test_an_image_must_belong_to_the_configured_owner(self):
        self.catalogue = self.catalogue_of(image_owner='ops')
        self.answer('GET /v2/images', {'images': [{'id': UUID}]})
        self.image('tag:amphora')
        self.assertEqual('ops', self.cloud.queries[0][1]['owner'])

    def test_two_images_with_one_name_are_refused(self):
        self.answer('GET /v2/images', {'images': [{'id': 'a'}, {'id': 'b'}]})
        self.refuses(
            InvalidBuildRequest,
            "Cannot build web-1: 2 images are named 'amphora': a, b. Use one of these ids.",
            self.image, 'amphora',
        )  # fmt: skip

    def test_a_missing_image_is_looked_up_each_time(self):
        self.answer('GET /v2/images', {'images': []})
        text = "Cannot build web-1: active image 'amphora' was not found."
        self.refuses(InvalidBuildRequest, text, self.image, 'amphora')
        self.answer('GET /v2/images', {'images': [{'id': UUID}]})
        self.assertEqual(UUID, self.image('amphora'))
        self.assertEqual(UUID, self.image('amphora'))
        self.assertEqual(2, len([query for _, query in self.cloud.queries if 'name' in query]))

    def check(self, image):
        self.catalogue.check_image(Asked(verb='use image', subject=image), image)

    def test_an_active_image_can_be_used(self):
        self.answer(f'GET /v2/images/{UUID}', {'id': UUID, 'status': 'active'})
        self.check(UUID)
        self.answer('GET /v2/images', {'images': [{'id': UUID}]})
        self.check('amphora')

    def test_an_inactive_image_is_refused(self):
        self.answer(f'GET /v2/images/{UUID}', {'id': UUID, 'status': 'queued'})
        self.refuses(
            InvalidRequest, f'Cannot use image {UUID}: image {UUID} is queued, not active.',
            self.check, UUID,
        )  # fmt: skip

    def test_an_unknown_image_is_refused(self):
        self.answer(f'GET /v2/images/{UUID}', recorded('glance/image_unknown'))
        self.refuses(
            InvalidRequest, f"Cannot use image {UUID}: image '{UUID}' was not found.",
            self.check, UUID,
        )  # fmt: skip

    def test_a_404_of_a_proxy_does_not_mean_that_the_image_is_missing(self):
        self.answer(f'GET /v2/images/{UUID}', PAGE)
        with self.assertRaises(ServiceUnavailable):
            self.check(UUID)


class Zones(CatalogueCase):
    def setUp(self):
        super().setUp()
        rows = [
            {'zoneName': name, 'zoneState': {'available': up}, 'hosts': None}
            for name, up in (('az2', True), ('az1', True), ('az3', False))
        ]
        self.answer('GET /os-availability-zone', {'availabilityZoneInfo': rows})

    def check(self, zone):
        self.catalogue.check_zone(Asked(verb='use zone', subject=zone), zone)

    def test_an_available_zone_can_be_used(self):
        self.check('az1')
        self.check('az2')
        self.assertEqual(1, len(self.cloud.queries))

    def test_003_1_the_available_zones_are_listed(self):
        asked = Asked(verb='list', subject='zones')
        self.assertEqual(['az1', 'az2'], self.catalogue.zones(asked))

    def test_a_zone_that_is_down_or_unknown_is_refused(self):
        for zone in ('az3', 'mars'):
            self.refuses(
                InvalidRequest,
                f"Cannot use zone {zone}: available zone '{zone}' was not found. "
                'Known: az1, az2.',
                self.check, zone,
            )  # fmt: skip


class Personality(CatalogueCase):
    def test_the_quota_is_requested_once_with_a_microversion_that_has_it(self):
        self.answer('GET /limits', {'limits': {'absolute': {'maxPersonalitySize': 10240}}})
        for _ in range(2):
            self.assertEqual(10_240, self.catalogue.personality_size(BUILD))
        ((_, headers, _),) = self.cloud.asked
        self.assertEqual('2.56', headers['X-OpenStack-Nova-API-Version'])


class Keys(CatalogueCase):
    def key(self, name):
        return self.catalogue.public_key(BUILD, name)

    def test_a_public_key_is_found_by_the_name_of_its_key_pair(self):
        self.answer('GET /os-keypairs/ops', {'keypair': {'public_key': 'ssh-rsa AAAA ops\n'}})
        for _ in range(2):
            self.assertEqual('ssh-rsa AAAA ops', self.key('ops'))
        self.assertEqual(1, len(self.cloud.queries))

    def test_an_unknown_key_pair_is_an_invalid_build(self):
        self.answer('GET /os-keypairs/nope', recorded('nova/keypair_unknown'))
        self.refuses(
            InvalidBuildRequest, "Cannot build web-1: key pair 'nope' was not found.",
            self.key, 'nope',
        )  # fmt: skip

    def test_an_unknown_key_pair_is_refused_with_the_known_ones(self):
        self.answer('GET /os-keypairs', {'keypairs': [{'keypair': {'name': 'ops'}}]})
        self.answer('GET /os-keypairs/nope', recorded('nova/keypair_unknown'))
        self.refuses(
            InvalidBuildRequest, "Cannot build web-1: key pair 'nope' was not found. Known: ops.",
            self.key, 'nope',
        )  # fmt: skip

    def test_a_key_pair_name_is_not_used_as_a_path(self):
        for name in ('a?b', '../servers', ''):
            with self.subTest(name), self.assertRaises(InvalidBuildRequest):
                self.key(name)
        self.assertEqual({'GET /os-keypairs'}, {what for what, _ in self.cloud.queries})

    def test_a_404_of_a_proxy_does_not_mean_that_the_key_pair_is_missing(self):
        self.answer('GET /os-keypairs/nope', PAGE)
        with self.assertRaises(ServiceUnavailable):
            self.key('nope')

    def test_any_other_refusal_is_unchanged(self):
        self.answer('GET /os-keypairs/nope', recorded('nova/policy'))
        with self.assertRaises(PermissionDenied):
            self.key('nope')


if __name__ == '__main__':
    unittest.main()
