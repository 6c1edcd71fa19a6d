"""Animals that remove what they must keep, or hide what a build has left."""

import dataclasses

from kiln.compute_drivers.calls import Call
from kiln.exceptions import BuildOutcomeUnknown
from kiln.models import State
from kiln.wrappers.base import DriverWrapper
from tests.kit.zoo.species import NoopAnimal, caught_by


@caught_by('test_a_rebooting_instance_is_known_to_have_run')
class TakesAStartForABuild(NoopAnimal):
    """Reports a rebooting instance as building, and not as served."""

    def _find_build(self, build_key):
        found = super()._find_build(build_key)
        if found is not None and found.task_state == 'rebooting':
            return dataclasses.replace(found, state=State.BUILDING, served=None)
        return found


@caught_by('test_a_repeated_build_reports_at_once_that_its_instance_is_suspended')
class BuildsWhatRestsAnew(NoopAnimal):
    """Removes a suspended instance, and builds another in its place."""

    def _build(self, request):
        found = super()._find_build(request.build_key)
        if found is not None and found.state is State.SUSPENDED:
            self.cloud.vanish(found.id)
        return super()._build(request)


@caught_by('test_a_repeated_build_whose_answer_was_lost_leaves_the_running_instance')
class CleansUpWhatItFound(NoopAnimal):
    """Removes the instance with the key of a failed build, even if another build made it."""

    def _build(self, request):
        try:
            return super()._build(request)
        except BuildOutcomeUnknown:
            found = super()._find_build(request.build_key)
            if found is not None and found.state is State.ACTIVE:
                self.cloud.vanish(found.id)
            raise


@caught_by('test_a_build_that_fails_later_leaves_no_orphaned_instance')
class FindsOnlyWhatIsWell(NoopAnimal):
    """Does not find an instance in error by its key."""

    def _find_build(self, build_key):
        found = super()._find_build(build_key)
        return None if found is not None and found.state is State.ERROR else found


@caught_by(
    'test_a_repeated_build_that_fails_leaves_the_running_instance',
    'test_a_rebooting_instance_is_known_to_have_run',
    'test_a_running_instance_is_not_reported_as_never_served',
    'test_an_instance_is_described_alike_wherever_it_is_found',
)
class RemembersWhatItBuilt(DriverWrapper):
    """A wrapper that returns the first description of an instance by its key."""

    def __init__(self):
        super().__init__(NoopAnimal())
        self._first = {}

    def perform(self, call, *args):
        answer = super().perform(call, *args)
        if call is Call.BUILD:
            self._first.setdefault(answer, self.inner.get_amphora(amphora_id=answer))
        if call is Call.FIND_BUILD and answer is not None:
            return self._first.get(answer.id, answer)
        return answer
