"""Animals with defects in what a build makes, and in the states that follow."""

import dataclasses
import functools
import threading
import uuid

from kiln.compute_drivers.authoring.adoption import adopted
from kiln.exceptions import (
    AmphoraComputeError,
    BuildDiffers,
    DeleteFailed,
    InstanceNotFoundError,
    InvalidRequest,
)
from kiln.models import Limits, State
from tests.kit.zoo.species import (
    LIST_WHEREVER,
    MOVED,
    REFUSED,
    MinimalAnimal,
    NoopAnimal,
    caught_by,
)


@caught_by(
    'test_a_build_returns_the_id_of_the_new_instance',
    'test_an_instance_is_there_as_soon_as_its_build_has_returned',
    among_others=True,
)
class ReturnsTheKey(MinimalAnimal):
    """Returns the key of a build instead of the id of its instance."""

    def _build(self, request):
        super()._build(request)
        return request.build_key


@caught_by(
    'test_an_instance_is_there_as_soon_as_its_build_has_returned',
    'test_a_build_can_be_given_a_timeout',
    among_others=True,
)
class BuildsLater(MinimalAnimal):
    """Returns an id before anything has it."""

    def __init__(self):
        super().__init__()
        self._later = {}

    def _build(self, request):
        for known in self._later.values():
            if (known.owner, known.build_key) == (request.owner, request.build_key):
                return super()._build(request)
        amphora_id = super()._build(request)
        self._later[amphora_id] = self._amphorae[amphora_id]
        return amphora_id

    def status(self, amphora_id):
        # The first look is too early.
        if self._later.pop(amphora_id, None) is not None:
            raise InstanceNotFoundError(
                f'Cannot find {amphora_id}: it is not there.', amphora_id=amphora_id
            )
        return super().status(amphora_id)


@caught_by('test_builds_without_a_key_make_distinct_instances')
class HasOneInstance(MinimalAnimal):
    """Makes no second instance for requests without a name or key of their own."""

    def _build(self, request):
        if request.fresh:
            request = dataclasses.replace(request, build_key='only', name='only', fresh=False)
        return super()._build(request)


@caught_by(
    'test_builds_with_distinct_keys_make_distinct_instances',
    'test_builds_without_a_key_make_distinct_instances',
    among_others=True,
)
class HasOneInstancePerSite(MinimalAnimal):
    """Makes no second instance for an owner."""

    def _build(self, request):
        for known in self._list(request.owner):
            return known.id
        return super()._build(request)


@caught_by(
    'test_a_name_that_is_taken_is_used_again_or_refused',
    'test_a_name_that_several_instances_have_is_ambiguous',
    'test_deleting_an_instance_leaves_its_namesake',
)
class ReturnsTheNamesake(MinimalAnimal):
    """Returns the instance that has the name of a build already."""

    def _build(self, request):
        for known in self._list(request.owner):
            if known.name == request.name:
                return known.id
        return super()._build(request)


@caught_by('test_many_threads_with_keys_of_their_own_build_as_many_instances')
class KeepsTheRequestOnItself(MinimalAnimal):
    """Keeps the request of a build in an attribute, where other threads replace it."""

    def __init__(self):
        super().__init__()
        self._window = threading.Barrier(8)

    def _build(self, request):
        self._request = request
        if threading.active_count() > self._window.parties:
            try:
                self._window.wait(timeout=1)
            except threading.BrokenBarrierError:
                self._window.reset()
        return super()._build(self._request)


@caught_by('test_reads_succeed_during_builds_and_deletes', LIST_WHEREVER)
class ListsWhileItChanges(MinimalAnimal):
    """Loses instances from its list while other threads change it."""

    def _list(self, owner):
        listed = super()._list(owner)
        busy = threading.current_thread() is not threading.main_thread()
        return listed[1:] if busy else listed


@caught_by('test_a_delete_can_be_given_a_timeout')
class DeletesInTime(MinimalAnimal):
    """Leaves an instance whose delete has a timeout."""

    def delete(self, amphora_id, *, timeout=None):
        if not isinstance(timeout, int) or timeout <= 0:
            super().delete(amphora_id, timeout=timeout)


@caught_by(
    'test_an_instance_that_was_just_requested_can_be_deleted',
    'test_a_delete_can_be_given_a_timeout',
    among_others=True,
)
class DeletesNothingThatBuilds(NoopAnimal):
    """Refuses to delete an instance that is being built."""

    def _delete(self, amphora_id):
        try:
            busy = super()._get(amphora_id).state is State.BUILDING
        except InstanceNotFoundError:
            busy = False
        if busy:
            raise DeleteFailed(f'Cannot delete {amphora_id}: it is being built.')
        super()._delete(amphora_id)


@caught_by('test_an_instance_that_reboots_can_be_deleted')
class DeletesNothingThatReboots(NoopAnimal):
    """Refuses to delete an instance that reboots."""

    def _delete(self, amphora_id):
        try:
            busy = super()._get(amphora_id).task_state == 'rebooting'
        except InstanceNotFoundError:
            busy = False
        if busy:
            raise DeleteFailed(f'Cannot delete {amphora_id}: it reboots.')
        super()._delete(amphora_id)


@caught_by(
    'test_a_delete_whose_answer_was_lost_can_be_repeated',
    'test_a_build_and_a_delete_in_an_outage_can_be_repeated_after_it',
    'test_a_refusal_is_the_error_of_its_reason',
)
class FailsToDeleteAgain(NoopAnimal):
    """Refuses to repeat a delete whose answer was lost."""

    def __init__(self):
        super().__init__()
        self._lost = set()

    def _delete(self, amphora_id):
        if amphora_id in self._lost:
            raise DeleteFailed(f'Cannot delete {amphora_id}: its delete was lost.')
        try:
            super()._delete(amphora_id)
        except AmphoraComputeError:
            self._lost.add(amphora_id)
            raise


@caught_by(
    'test_building_again_after_a_lost_answer_adopts_what_was_built',
    'test_a_refused_build_can_be_repeated',
    'test_a_build_and_a_delete_in_an_outage_can_be_repeated_after_it',
)
class BuildsAgainAfterALoss(NoopAnimal):
    """Refuses the key of a build whose answer was lost."""

    def __init__(self):
        super().__init__()
        self._lost = set()

    def _build(self, request):
        if request.build_key in self._lost:
            raise BuildDiffers(
                f'Cannot build {request.name}: its key was used.', build_key=request.build_key
            )
        try:
            return super()._build(request)
        except AmphoraComputeError:
            self._lost.add(request.build_key)
            raise


class Reporting(NoopAnimal):
    """Reports the states of instances in its own way."""

    def report(self, seen):
        raise NotImplementedError

    def _get(self, amphora_id):
        return self.report(super()._get(amphora_id))

    def _status(self, amphora_id):
        return self.report(super()._status(amphora_id))


@caught_by('test_a_new_instance_becomes_active', among_others=True)
class StaysPending(Reporting):
    """Has no word for an active instance."""

    def report(self, seen):
        if seen.state is not State.ACTIVE or seen.task_state:
            return seen
        return dataclasses.replace(seen, state=State.STOPPED)


@caught_by('test_an_active_instance_without_a_task_is_ready', among_others=True)
class IsBusyForEver(Reporting):
    """Reports a task that is done."""

    def report(self, seen):
        return dataclasses.replace(seen, task_state=seen.task_state or 'done')


@caught_by('test_a_new_instance_is_pending_building_or_active')
class BeginsAsStopped(Reporting):
    """Reports an instance that is being built as stopped."""

    def report(self, seen):
        if seen.state is not State.BUILDING:
            return seen
        return dataclasses.replace(seen, state=State.STOPPED)


@caught_by(
    'test_a_repeated_build_that_fails_leaves_the_running_instance',
    'test_statuses_agree_with_a_single_status',
    'test_an_instance_that_is_active_stays_so',
    'test_a_status_and_a_description_agree_on_the_state',
    'test_a_repeated_build_whose_answer_was_lost_leaves_the_running_instance',
    'test_a_cancelled_build_leaves_the_instance_of_another_owner_with_its_key',
    'test_a_name_or_a_key_is_not_taken_for_an_id',
)
class FlickersAfterItsStart(Reporting):
    """Reports an active instance as being built at each second look."""

    def __init__(self):
        super().__init__()
        self._looks = {}

    def _status(self, amphora_id):
        seen = super()._status(amphora_id)
        if seen.state is not State.ACTIVE or seen.task_state:
            return seen
        self._looks[amphora_id] = looks = self._looks.get(amphora_id, 0) + 1
        return dataclasses.replace(seen, state=State.BUILDING) if looks == 2 else seen

    def report(self, seen):
        return seen


@caught_by(
    'test_an_instance_is_described_alike_wherever_it_is_found',
    'test_a_status_and_a_description_agree_on_the_state',
    'test_deleting_an_instance_leaves_that_of_another_owner',
    'test_building_again_leaves_the_instance_of_another_owner',
)
class DescribesOtherStates(MinimalAnimal):
    """Describes an instance with its state as of an hour ago."""

    def get_amphora(self, amphora_name=None, amphora_id=None):
        amphora = super().get_amphora(amphora_name, amphora_id)
        return dataclasses.replace(amphora, state=State.BUILDING)


@caught_by(
    'test_an_instance_is_described_alike_wherever_it_is_found',
    'test_all_facts_of_an_instance_but_the_raw_ones_are_plain_data',
    'test_deleting_an_instance_leaves_that_of_another_owner',
    'test_building_again_leaves_the_instance_of_another_owner',
    'test_all_that_is_requested_together_is_found_again',
    'test_each_fact_has_the_type_of_the_contract',
)
class MetadataOfItsOwnKind(MinimalAnimal):
    """Returns metadata that is not plain data."""

    def _get(self, amphora_id):
        amphora = super()._get(amphora_id)
        return dataclasses.replace(
            amphora, metadata={**amphora.metadata, 'made': uuid.UUID(int=0)}
        )


@caught_by('test_values_can_be_sent_to_another_process')
class CannotTravel(MinimalAnimal):
    """Returns values that hold on to a lock."""

    def _get(self, amphora_id):
        return dataclasses.replace(super()._get(amphora_id), raw=Locked())


class Locked(dict):
    """Facts that no other process can read."""

    def __reduce__(self):
        raise TypeError('cannot pickle a lock')


@caught_by(
    'test_changing_a_returned_value_changes_nothing_in_the_backend',
    'test_changing_an_argument_later_changes_nothing_in_the_backend',
)
class SharesTheArgument(MinimalAnimal):
    """Keeps the caller's own mapping as the metadata of an instance."""

    @functools.wraps(MinimalAnimal.build)
    def build(self, *args, **given):
        amphora_id = super().build(*args, **given)
        if given.get('metadata') is not None:
            self.change(amphora_id, metadata=given['metadata'])
        return amphora_id


@caught_by('test_a_returned_id_can_be_passed_back', among_others=True)
class ReturnsIdsWithSpaces(MinimalAnimal):
    """Returns an id with a line end, as its command printed it."""

    def _build(self, request):
        amphora_id = super()._build(request).strip()
        with self._lock:
            amphora = self._amphorae.pop(amphora_id)
            self._amphorae[f'{amphora_id}\n'] = dataclasses.replace(amphora, id=f'{amphora_id}\n')
        return f'{amphora_id}\n'


@caught_by(
    'test_arguments_can_be_given_by_position_in_the_order_of_the_founding_note',
)
class TakesArgumentsByNameOnly(MinimalAnimal):
    """Does not take a flavor by its position."""

    @functools.wraps(MinimalAnimal.build)
    def build(self, *args, **given):
        return super().build(*args[1:], **given)


@caught_by('test_the_backend_builds_some_type', among_others=True)
class BuildsNoType(MinimalAnimal):
    """Offers no type."""

    limits = Limits(amphora_types=frozenset())


@caught_by('test_capabilities_are_plain_data')
class LimitsByObjects(MinimalAnimal):
    """Declares its limits as something else than the contract's limits."""

    limits = type('VendorLimits', (Limits,), {})(refused_options=REFUSED)


@caught_by('test_what_is_lacking_is_refused_whether_or_not_the_instance_exists')
class LacksOnlyForStrangers(MinimalAnimal):
    """Refuses an ability that it lacks only for instances that do not exist."""

    def suspend(self, amphora_id):
        if amphora_id in self._amphorae:
            return
        super().suspend(amphora_id)


@caught_by(
    'test_an_error_carries_the_facts_a_controller_needs',
    'test_the_advice_of_an_error_agrees_with_its_other_facts',
    'test_not_found_says_that_the_backend_is_well_and_did_nothing',
)
class FailsWithoutFacts(MinimalAnimal):
    """Raises errors whose facts are text."""

    def _status(self, amphora_id):
        try:
            return super()._status(amphora_id)
        except InstanceNotFoundError as exc:
            exc.retryable = 'no'
            raise


@caught_by('test_a_wrong_request_says_that_nothing_was_done')
class BlamesTheBackend(MinimalAnimal):
    """Counts a wrong request of a caller against the backend."""

    @functools.wraps(MinimalAnimal.build)
    def build(self, *args, **given):
        try:
            return super().build(*args, **given)
        except InvalidRequest as exc:
            exc.retryable = True
            raise


@caught_by('test_building_again_with_other_metadata_returns_the_first_instance')
class ComparesEverything(MinimalAnimal):
    """Refuses the key of an instance that has other metadata."""

    def _build(self, request):
        known = self.with_key(request)
        if known is not None and dict(known.metadata) != dict(request.metadata):
            raise BuildDiffers(f'Cannot build {request.name}: its metadata differs.')
        return super()._build(request)


class Naming(NoopAnimal):
    """Builds with a flavor and an image, of which its records have the ids."""

    field = ''

    def _build(self, request):
        found = None if request.fresh else self.with_key(request)
        if found is not None:
            in_full = f'id-of-{getattr(found, self.field)}'
            return adopted(request, dataclasses.replace(found, **{self.field: in_full}))
        return super()._build(
            dataclasses.replace(
                request, flavor=request.flavor or 'small', image_id=request.image_id or 'image-1'
            )
        )

    def with_key(self, request):
        mine = self._list(request.owner)
        return next((one for one in mine if one.build_key == request.build_key), None)


@caught_by(
    'test_building_again_with_an_image_returns_the_first_instance',
    'test_a_build_with_the_key_of_a_claimed_instance_returns_it',
    MOVED,
)
class ComparesImagesByTheirIds(Naming):
    """Compares the id of an image with its name."""

    field = 'image_id'


@caught_by('test_building_again_with_a_flavor_returns_the_first_instance')
class ComparesFlavorsByTheirIds(Naming):
    """Compares the id of a flavor with its name."""

    field = 'flavor'


@caught_by('test_no_instance_is_ready_sooner_than_the_driver_declares')
class BoastsOfItsSlowness(MinimalAnimal):
    """Declares that its builds take longer than they do."""

    soonest_build_s = 60.0


@caught_by('test_the_driver_opens_with_its_bench', among_others=True)
class NamesNoBench(MinimalAnimal):
    """Names a bench that does not exist."""

    bench = 'tests.kit.zoo.makers:Bench'
