"""Resources of a site on a scripted engine."""

import json
import urllib.parse

from kiln.clock import SYSTEM_CLOCK
from kiln.compute_drivers.docker.api import resources
from kiln.compute_drivers.docker.api.client import Engine
from kiln.exceptions import (
    InstanceStateConflict,
    InvalidRequest,
    PermissionDenied,
    ServiceUnavailable,
)
from kiln.models import Resource
from tests.unit.compute_drivers.docker.scripted import VERSION, ScriptedCase, answer
from tests.unit.compute_drivers.docker.test_settings import options

VOLUME = answer(json.dumps({'Name': 'v1', 'Labels': {'kiln.owner': 'kiln'}}).encode())
USED = answer(b'{"message": "remove v1: volume is in use - [4f1c]"}', status=409)


class Listed(ScriptedCase):
    def owned(self, volumes, networks=()):
        engine = Engine(
            options(
                url=self.serve(
                    VERSION,
                    answer(json.dumps({'Volumes': volumes}).encode()),
                    answer(json.dumps(networks).encode()),
                )
            ),
            SYSTEM_CLOCK,
        )
        self.addCleanup(engine.close)
        return resources.owned(engine, 'site')

    def test_an_engine_without_volumes_has_none(self):
        self.assertEqual([], self.owned(None))

    def test_volumes_of_the_site_that_no_container_uses_are_asked_for(self):
        labels = {'kiln.owner': 'site'}
        found = self.owned([{'Name': 'v1', 'Labels': labels}], [{'Id': 'n1', 'Labels': labels}])
        self.assertEqual(['v1', 'n1'], [one.id for one in found])
        volumes, networks = map(urllib.parse.unquote_plus, self.server.requests[1:])
        self.assertIn('"label": ["kiln.owner=site"]', volumes)
        self.assertIn('"dangling": ["true"]', volumes)
        self.assertIn('{"label": ["kiln.owner=site"]}', networks)

    def test_those_of_others_are_left_out_whatever_the_engine_lists(self):
        theirs = {'kiln.owner': 'elsewhere'}
        self.assertEqual(
            [], self.owned([{'Name': 'v1', 'Labels': theirs}], [{'Id': 'n1', 'Labels': theirs}])
        )


class InUse(ScriptedCase):
    def test_a_volume_in_use_is_not_deleted(self):
        engine = Engine(options(url=self.serve(VERSION, VOLUME, USED)), SYSTEM_CLOCK)
        self.addCleanup(engine.close)
        with self.assertRaisesRegex(InstanceStateConflict, 'a container uses it') as caught:
            resources.delete(engine, Resource(kind='volume', id='v1', owner='kiln'))
        self.assertEqual('v1', caught.exception.resource_id)
        self.assertEqual('remove v1: volume is in use - [4f1c]', caught.exception.fault)
        self.assertEqual(409, caught.exception.__cause__.http_status)


class Deleted(ScriptedCase):
    def delete(self, *answers, kind='volume', resource_id='v1'):
        engine = Engine(options(url=self.serve(VERSION, *answers)), SYSTEM_CLOCK)
        self.addCleanup(engine.close)
        resources.delete(engine, Resource(kind=kind, id=resource_id, owner='kiln'))

    def test_a_resource_that_is_gone_is_deleted(self):
        for status, said in (
            (404, b'{"message": "get v1: no such volume"}'),
            (500, b'{"message": "No such volume: v1"}'),
            (404, b'{"message": "network v1 not found"}'),
        ):
            self.delete(answer(said, status=status))
            self.delete(VOLUME, answer(said, status=status))

    def test_what_carries_no_label_of_kiln_is_left(self):
        for labels in (None, {'maker': 'someone'}):
            with self.assertRaises(PermissionDenied):
                self.delete(answer(json.dumps({'Labels': labels}).encode()))
            self.assertEqual(2, len(self.server.requests))

    def test_what_is_no_resource_of_an_engine_is_refused_before_any_request(self):
        for given in ({'kind': 'port'}, {'resource_id': '../v1'}):
            with self.assertRaises(InvalidRequest):
                self.delete(**given)
        self.assertEqual([], self.server.requests)

    def test_other_failures_are_those_of_the_engine(self):
        with self.assertRaisesRegex(ServiceUnavailable, 'made of cheese'):
            self.delete(VOLUME, answer(b'{"message": "the disk is made of cheese"}', status=500))
