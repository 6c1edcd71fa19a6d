from kiln.models import BuildRequest
from kiln.testing.conformance import BehaviourOutcome, run_conformance
from kiln.testing.minimal import MinimalDriver


class ForgetsKeys(MinimalDriver):
    """A wrong driver: each build makes another amphora, even with a known key."""

    def _build(self, request: BuildRequest) -> str:
        with self._lock:
            self._amphorae.clear()
        return super()._build(request)


keys = ['test_building_again_with_a_key*']
print(run_conformance(MinimalDriver, select=keys).ok)  # True

report = run_conformance(ForgetsKeys, select=keys)
for name in sorted(report.of(BehaviourOutcome.FAILED)):
    print(name)  # test_building_again_with_a_key_returns_the_first_instance
