"""Animals with defects in deletes and in waiting."""

import threading
from types import MappingProxyType

from kiln.compute_drivers.noop.bench import NoopBench
from kiln.exceptions import DeleteFailed, InstanceNotFoundError
from kiln.models import ComputeStatus, State
from tests.kit.zoo.species import MinimalAnimal, NoopAnimal, caught_by

#: Behaviours in which an instance does not come up.
STALLED = (
    'test_a_build_of_an_instance_that_does_not_come_up_returns_soon',
    'test_an_instance_that_does_not_come_up_is_not_reported_active',
    'test_instances_that_do_not_come_up_can_be_deleted_in_any_order',
)
#: Real seconds between two polls of an instance.
_POLL_S = 0.02


class ImpatientBench(NoopBench):
    """Does not wait long for a call that does not return."""

    soon_s = 1.0


@caught_by(
    'test_deleting_again_is_a_success',
    'test_deleting_an_instance_that_is_gone_is_a_success',
    'test_deleting_an_unknown_instance_is_a_success',
    'test_many_threads_can_delete_one_instance',
    'test_deleting_an_instance_leaves_that_of_another_owner',
    'test_a_name_or_a_key_is_not_taken_for_an_id',
    'test_an_id_that_the_backend_has_not_returned_is_not_found',
)
class DeletesOnlyWhatIs(MinimalAnimal):
    """Fails a delete of an instance that is already gone."""

    def _delete(self, amphora_id):
        with self._lock:
            if self._amphorae.pop(amphora_id, None) is None:
                raise DeleteFailed(f'Cannot delete {amphora_id}: it does not exist.')


@caught_by(
    'test_a_deleted_instance_has_no_status',
    'test_a_deleted_instance_is_left_out_of_statuses',
    'test_an_id_that_the_backend_has_not_returned_is_not_found',
)
class KeepsAGraveyard(MinimalAnimal):
    """Reports a deleted instance as DELETED forever."""

    def __init__(self):
        super().__init__()
        self._graves = set()

    def _delete(self, amphora_id):
        super()._delete(amphora_id)
        self._graves.add(amphora_id)

    def _status(self, amphora_id):
        if amphora_id in self._graves:
            now = self.clock.time()
            return ComputeStatus(amphora_id=amphora_id, state=State.DELETED, observed_at=now)
        return super()._status(amphora_id)


@caught_by('test_an_instance_stays_gone')
class SeesGhosts(MinimalAnimal):
    """Reads from replicas in turn, and one replica has missed the deletion."""

    def __init__(self):
        super().__init__()
        self._graves = {}

    def _delete(self, amphora_id):
        if amphora_id in self._amphorae:
            self._graves[amphora_id] = self._amphorae[amphora_id]
        super()._delete(amphora_id)

    def _status(self, amphora_id):
        try:
            return super()._status(amphora_id)
        except InstanceNotFoundError:
            ghost = self._graves.get(amphora_id)
            if ghost is None:
                raise
            if ghost.task_state is None:
                object.__setattr__(ghost, 'task_state', 'heard of')
                raise
            return ghost.status(self.clock.time())


@caught_by(
    'test_a_deleted_instance_is_not_found_by_its_key',
    'test_another_driver_finds_what_one_has_built_by_name_and_key',
    'test_a_delete_in_another_driver_is_seen_by_the_first',
    'test_owners_and_keys_that_differ_only_in_capitals_are_different',
)
class FindsTheDeadByKey(MinimalAnimal):
    """Finds by key what was once built, even if it is gone."""

    def __init__(self):
        super().__init__()
        self._once = {}

    def _build(self, request):
        amphora_id = super()._build(request)
        if request.owner == self.owner:
            self._once[request.build_key] = self._amphorae[amphora_id]
        return amphora_id

    def _find_build(self, build_key):
        return self._once.get(build_key)


@caught_by(
    'test_deleting_one_instance_leaves_the_others',
    'test_deleting_an_instance_leaves_its_namesake',
    'test_deleting_an_instance_leaves_that_of_another_owner',
    'test_a_name_or_a_key_is_not_taken_for_an_id',
    'test_an_id_that_the_backend_has_not_returned_is_not_found',
)
class DeletesTheOldest(MinimalAnimal):
    """Deletes one instance more than requested."""

    def _delete(self, amphora_id):
        super()._delete(amphora_id)
        if threading.current_thread() is not threading.main_thread():
            # With concurrent deletes the extra instance would be random, and
            # so would the behaviours that catch this animal.
            return
        with self._lock:
            for oldest in list(self._amphorae)[:1]:
                del self._amphorae[oldest]


@caught_by('test_a_suspended_instance_can_be_deleted')
class DeletesNothingSuspended(NoopAnimal):
    """Deletes only instances that run."""

    def _delete(self, amphora_id):
        try:
            state = super()._get(amphora_id)
        except InstanceNotFoundError:
            return
        if state.task_state == 'suspending':
            raise DeleteFailed(f'Cannot delete {amphora_id}: it is being suspended.')
        super()._delete(amphora_id)


@caught_by('test_a_build_returns_before_its_effect', *STALLED)
class WaitsForItsBuild(NoopAnimal):
    """Returns from a build when the instance is active."""

    def _build(self, request):
        amphora_id = super()._build(request)
        for _ in range(6):
            self.clock.advance(5)
        return amphora_id


@caught_by(*STALLED)
class WaitsWhileItBuilds(NoopAnimal):
    """Waits for builds as long as they take, in a cloud that is quick."""

    cloud_options = MappingProxyType({})
    bench = f'{__name__}:ImpatientBench'

    def __init__(self):
        super().__init__()
        self._closed = threading.Event()

    def _build(self, request):
        amphora_id = super()._build(request)
        while super()._status(amphora_id).state is State.BUILDING:
            if self._closed.wait(_POLL_S):
                break
        return amphora_id

    def close(self):
        self._closed.set()
        super().close()


@caught_by(
    'test_a_delete_returns_before_its_effect',
)
class WaitsForItsDelete(NoopAnimal):
    """Returns from a delete when the instance is gone."""

    def _delete(self, amphora_id):
        super()._delete(amphora_id)
        self.clock.advance(6)


@caught_by('test_a_reboot_returns_before_its_effect')
class WaitsForItsReboot(NoopAnimal):
    """Returns from a reboot when the instance runs again."""

    def _reboot(self, amphora_id, hard):
        super()._reboot(amphora_id, hard)
        self.clock.advance(20)


class Buries(MinimalAnimal):
    """Reports a delete as done, but keeps the instance."""

    def __init__(self):
        super().__init__()
        self._buried = {}

    def _delete(self, amphora_id):
        if amphora_id in self._amphorae:
            self._buried[amphora_id] = self._amphorae[amphora_id]
        super()._delete(amphora_id)


@caught_by('test_a_deleted_instance_cannot_be_fetched', 'test_an_id_is_not_used_again')
class DescribesTheDead(Buries):
    """Describes a deleted instance by its id."""

    def get_amphora(self, amphora_name=None, amphora_id=None):
        if amphora_id in self._buried:
            return self._buried[amphora_id]
        return super().get_amphora(amphora_name, amphora_id)


@caught_by(
    'test_a_deleted_instance_is_not_listed',
    'test_a_cancelled_build_leaves_no_orphaned_instance',
    'test_a_list_is_complete_wherever_threads_switch_to_a_build_or_a_delete',
)
class ListsTheDead(Buries):
    """Lists deleted instances."""

    def list_amphorae(self, *, owner=None):
        dead = [one for one in self._buried.values() if one.owner == (owner or self.owner)]
        return iter([*super().list_amphorae(owner=owner), *dead])


@caught_by('test_a_deleted_instance_is_not_found_by_its_name')
class FindsTheDeadByName(Buries):
    """Finds deleted instances by name."""

    def _find(self, name):
        return [one for one in (*self._list(self.owner), *self._buried.values())
                if one.name == name]  # fmt: skip


@caught_by('test_a_suspend_returns_before_its_effect')
class WaitsForItsSuspend(NoopAnimal):
    """Returns from a suspend when the instance is suspended."""

    def _suspend(self, amphora_id):
        super()._suspend(amphora_id)
        self.clock.advance(6)


@caught_by('test_a_resume_returns_before_its_effect')
class WaitsForItsResume(NoopAnimal):
    """Returns from a resume when the instance runs again."""

    def _resume(self, amphora_id):
        super()._resume(amphora_id)
        self.clock.advance(6)


@caught_by('test_a_rebuild_returns_before_its_effect')
class WaitsForItsRebuild(NoopAnimal):
    """Returns from a rebuild when the instance runs again."""

    def _rebuild(self, amphora_id, image_id):
        super()._rebuild(amphora_id, image_id)
        self.clock.advance(40)
