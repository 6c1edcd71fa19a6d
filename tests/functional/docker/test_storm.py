"""Storm of builds while the connection to the engine fails in all ways."""

from kiln.models import AmphoraType
from kiln.testing.proxy import Answer, Hang, LoseAnswer, Reset
from tests.functional.docker.site import EngineCase

BUILDS = 12
TRIES = 4
WAIT_S = 300


class Storm(EngineCase):
    def test_no_build_is_duplicated_or_lost(self):
        compute = self.open_compute(networks=['none'], timeout=3.0, circuit_minimum_calls=1000)
        for method, path in (
            ('POST', '/containers/create'), ('POST', '/containers/[^/]+/start'),
            ('PUT', '/containers/[^/]+/archive'), ('DELETE', '/containers/[^/]+'),
        ):  # fmt: skip
            faults = [LoseAnswer(Reset()), Reset(), Answer(503), LoseAnswer(Answer(502)), Hang()]
            self.proxy.fault(faults, method, path, chance=0.4, times=8)
        keys = [f'storm-{number}' for number in range(BUILDS)]
        built = {}
        for _ in range(TRIES):
            under_way = {
                key: compute.build(AmphoraType.CONTAINER, name=key, build_key=key, user_data='x')
                for key in keys
                if key not in built
            }
            for key, operation in under_way.items():
                if operation.exception(WAIT_S) is None:
                    built[key] = operation.result(0)
        self.assertEqual(BUILDS, len(built))
        found = self.containers()
        self.assertEqual(sorted(built.values()), sorted(one['Id'] for one in found))
        self.assertEqual({'running'}, {one['State'] for one in found})
        for _ in range(TRIES):
            for operation in [compute.delete(amphora_id) for amphora_id in built.values()]:
                operation.exception(WAIT_S)
        self.assertEqual([], self.containers())
