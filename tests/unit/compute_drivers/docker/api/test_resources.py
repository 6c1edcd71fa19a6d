"""Resources of a site on a scripted engine."""

import json

from kiln.clock import SYSTEM_CLOCK
from kiln.compute_drivers.docker.api import resources
from kiln.compute_drivers.docker.api.client import Engine
from kiln.exceptions import InstanceStateConflict
from kiln.models import Resource
from tests.unit.compute_drivers.docker.scripted import VERSION, ScriptedCase, answer
from tests.unit.compute_drivers.docker.test_settings import options

VOLUME = answer(json.dumps({'Name': 'v1', 'Labels': {'kiln.owner': 'kiln'}}).encode())
USED = answer(b'{"message": "remove v1: volume is in use - [4f1c]"}', status=409)


class InUse(ScriptedCase):
    def test_a_volume_in_use_is_not_deleted(self):
        engine = Engine(options(url=self.serve(VERSION, VOLUME, USED)), SYSTEM_CLOCK)
        self.addCleanup(engine.close)
        with self.assertRaisesRegex(InstanceStateConflict, 'a container uses it') as caught:
            resources.delete(engine, Resource(kind='volume', id='v1', owner='kiln'))
        self.assertEqual('v1', caught.exception.resource_id)
        self.assertIn('volume is in use - [4f1c]', str(caught.exception.__cause__))
