"""Containers, images, volumes and networks translated to kiln's models."""

import os
import time
import unittest
import unittest.mock

from kiln.compute_drivers.docker import states, translate
from kiln.models import AmphoraType, ImageFacts, Resource, State

I = 'a' * 64  # noqa: E741
NETWORKS = {
    'n1': {
        'NetworkID': 'net-1', 'EndpointID': 'end-1', 'IPAddress': '192.0.2.2',
        'GlobalIPv6Address': '2001:db8::2', 'MacAddress': '02:42:ac:11:00:02',
    },
    'host': None,
}  # fmt: skip
LABELS = {
    'kiln.owner': 'site', 'kiln.key': 'k1', 'kiln.name': 'web', 'kiln.zone': 'z',
    'kiln.flavor': 'small', 'kiln.meta.purpose': 'kit', 'os_distro': 'debian',
}  # fmt: skip
INSPECTED = {
    'Id': I, 'Name': '/k1-1', 'Created': '2026-11-21T19:34:22.586352781Z', 'Image': f'sha256:{I}',
    'Config': {'Labels': LABELS, 'Env': ['PASSWORD=secret'], 'Image': 'plain:1'},
    'State': {'Health': {'Log': [{'Output': 'secret'}]}, 'Status': 'running'},
    'NetworkSettings': {'Networks': NETWORKS},
}  # fmt: skip
ENTRY = {
    'Id': I, 'Names': ['/k1-1'], 'Created': 1795289662, 'Image': 'plain:1', 'ImageID': I,
    'Labels': LABELS, 'State': 'running', 'Status': 'Up 2 minutes',
    'NetworkSettings': {'Networks': NETWORKS},
}  # fmt: skip


def amphora(answer=INSPECTED, condition=None, *, rebooting=False):
    condition = condition or states.Condition(status='running')
    return translate.amphora_of(answer, condition, rebooting=rebooting)


class Containers(unittest.TestCase):
    def test_a_container_is_described_by_its_labels_and_addresses(self):
        found = amphora()
        self.assertEqual(
            (I, 'web', 'k1', 'site'), (found.id, found.name, found.build_key, found.owner)
        )
        self.assertEqual(('small', 'z'), (found.flavor, found.availability_zone))
        self.assertIs(found.amphora_type, AmphoraType.CONTAINER)
        self.assertIs(found.state, State.ACTIVE)
        self.assertEqual({'purpose': 'kit'}, dict(found.metadata))
        self.assertEqual(f'sha256:{I}', found.image_id)
        self.assertEqual(1795289662.0, found.created_at)
        self.assertEqual(
            [('192.0.2.2', 'net-1', 'end-1'), ('2001:db8::2', 'net-1', 'end-1')],
            [(one.address, one.network_id, one.port_id) for one in found.addresses],
        )
        self.assertEqual({'02:42:ac:11:00:02'}, {one.mac for one in found.addresses})

    def test_addresses_are_in_the_order_of_their_networks_names(self):
        # Lists and inspects can have them in another order.
        networks = {name: {'IPAddress': f'192.0.2.{name[1]}'} for name in ('n2', 'n1', 'n3')}
        found = amphora({**INSPECTED, 'NetworkSettings': {'Networks': networks}}).addresses
        self.assertEqual(['n1', 'n2', 'n3'], [one.network_id for one in found])

    def test_an_image_without_an_id_is_unknown(self):
        self.assertIsNone(amphora({**INSPECTED, 'Image': ''}).image_id)

    def test_lists_and_inspects_describe_a_container_alike(self):
        self.assertEqual(amphora(), amphora(ENTRY))

    def test_a_container_that_never_started_has_never_served(self):
        for condition, served in (
            (states.Condition(status='created'), False),
            (states.Condition(status='created', error='no such file'), False),
            (states.Condition(status='running', health='starting'), True),
            (states.Condition(status='exited', exit_code=1), True),
        ):
            self.assertIs(served, amphora(condition=condition).served)
        self.assertTrue(
            amphora(condition=states.Condition(status='created'), rebooting=True).served
        )

    def test_nothing_secret_is_shown(self):
        self.assertNotIn('secret', repr(dict(amphora().raw)))

    def test_what_the_engine_itself_reports_is_shown(self):
        raw = amphora().raw
        self.assertEqual(
            (I, '/k1-1', {'Status': 'running'}), (raw['Id'], raw['Name'], raw['State'])
        )
        self.assertEqual(['n1', 'host'], list(raw['Networks']))
        self.assertEqual(
            ('/k1-1', 'Up 2 minutes'), (amphora(ENTRY).raw['Name'], amphora(ENTRY).raw['Status'])
        )

    def test_a_rebooting_container_does_not_count_as_failed(self):
        found = amphora(condition=states.Condition(status='exited', exit_code=1), rebooting=True)
        self.assertEqual(
            (State.ACTIVE, 'rebooting', None), (found.state, found.task_state, found.fault)
        )

    def test_a_container_without_labels_or_networks_is_described(self):
        for settings in ({'Networks': None}, {}, None):
            bare = {'Id': I, 'Config': {'Labels': None}, 'NetworkSettings': settings}
            found = amphora(bare)
            self.assertEqual((None, '', ()), (found.owner, found.name, found.addresses))
            self.assertIsNone(found.created_at)

    def test_podman_s_connections_are_identified_by_mac_address(self):
        self.assertEqual('02:42', translate.port_of({'EndpointID': '', 'MacAddress': '02:42'}))
        for none in ({}, {'EndpointID': '', 'MacAddress': ''}):
            self.assertIsNone(translate.port_of(none))

    def test_an_address_without_a_mac_address_has_none(self):
        networks = {'n1': {'IPAddress': '192.0.2.2', 'MacAddress': ''}}
        (address,) = amphora({**INSPECTED, 'NetworkSettings': {'Networks': networks}}).addresses
        self.assertIsNone(address.mac)

    def test_an_attachment_is_found_by_network_name_and_by_network_id(self):
        for asked_for, full_id in (('n1', 'net-1'), ('net-1', 'net-1'), ('n1', 'n1')):
            found = translate.attachment_of(I, asked_for, INSPECTED, full_id)
            self.assertEqual(
                ('end-1', asked_for, ('192.0.2.2', '2001:db8::2')),
                (found.port_id, found.network_id, found.addresses),
            )
        self.assertEqual('host', translate.attachment_of(I, 'host', INSPECTED, 'host').port_id)
        self.assertIsNone(translate.attachment_of(I, 'n2', INSPECTED, 'n2'))


class Images(unittest.TestCase):
    def test_an_image_is_described_by_its_labels(self):
        answer = {'Id': I, 'RepoTags': ['plain:1'], 'Config': {'Labels': {'os_distro': 'debian'}}}
        self.assertEqual(
            ImageFacts(id=f'sha256:{I}', name='plain:1', properties={'os_distro': 'debian'}),
            translate.image_of(answer, 'sha256:a'),
        )

    def test_an_unnamed_image_gets_the_requested_name(self):
        self.assertEqual('x', translate.image_of({'Id': I, 'RepoTags': None}, 'x').name)

    def test_of_several_names_of_an_image_the_requested_one_is_kept(self):
        answer = {'Id': I, 'RepoTags': ['a:1', 'b:1']}
        self.assertEqual('b:1', translate.image_of(answer, 'b:1').name)
        self.assertEqual('a:1', translate.image_of(answer, I).name)

    def test_images_with_a_health_check_are_recognized_on_both_engines(self):
        test = {'Test': ['CMD', 'true']}
        self.assertTrue(translate.has_health({'Config': {'Healthcheck': test}}))
        self.assertTrue(translate.has_health({'HealthCheck': test}))
        for none in ({}, {'Config': {'Healthcheck': {'Test': ['NONE']}}}, {'Config': None}):
            self.assertFalse(translate.has_health(none))


class Resources(unittest.TestCase):
    def test_volumes_and_networks_carry_their_owner(self):
        labels = {'kiln.owner': 'site', 'kiln.key': 'k1'}
        self.assertEqual(
            Resource(kind='volume', id='v', name='k1', owner='site', created_at=0.0),
            translate.volume_of(
                {'Name': 'v', 'Labels': labels, 'CreatedAt': '1970-01-01T00:00:00Z'}
            ),
        )
        self.assertEqual(
            Resource(kind='network', id='n', name='net', owner='site', created_at=7.0),
            translate.network_of(
                {'Id': 'n', 'Name': 'net', 'Labels': labels, 'Created': '1970-01-01T00:00:07Z'}
            ),
        )

    def test_a_volume_without_labels_has_no_owner(self):
        found = translate.volume_of({'Name': 'v', 'Labels': None})
        self.assertEqual((None, ''), (found.owner, found.name))

    def test_a_network_without_a_name_is_a_resource(self):
        self.assertEqual('', translate.network_of({'Id': 'n', 'Name': None}).name)

    def test_a_time_without_a_time_zone_is_utc(self):
        self.addCleanup(time.tzset)
        with unittest.mock.patch.dict(os.environ, {'TZ': 'Asia/Tokyo'}):
            time.tzset()
            self.assertEqual(0.0, translate.created_at('1970-01-01T00:00:00'))
        self.assertEqual(7.0, translate.created_at(7.9))

    def test_the_time_zone_of_a_time_counts(self):
        self.assertEqual(0.0, translate.created_at('1970-01-01T01:00:00+01:00'))
