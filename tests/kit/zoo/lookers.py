"""Animals with defects in lookups, lists, statuses and changes."""

import dataclasses
import uuid

from kiln.exceptions import InstanceNotFoundError
from kiln.models import Amphora, Changes, ComputeStatus, State
from tests.kit.zoo.species import MinimalAnimal, NoopAnimal, caught_by


@caught_by(
    'test_a_list_has_every_instance_of_this_site',
    'test_all_instances_are_found_however_many_there_are',
)
class ListsTheFirstPage(MinimalAnimal):
    """Forgets that a backend answers a list in pages."""

    def _list(self, owner):
        return super()._list(owner)[:3]


@caught_by(
    'test_a_list_has_each_instance_once', 'test_all_instances_are_found_however_many_there_are'
)
class ListsWithOverlap(MinimalAnimal):
    """Repeats the last instance of each page on the next page."""

    def _list(self, owner):
        listed = super()._list(owner)
        return [*listed[:2], *listed[1:]] if len(listed) > 2 else listed


@caught_by(
    'test_a_list_of_an_owner_without_instances_is_empty',
    'test_a_list_of_another_owner_leaves_out_instances_of_this_site',
    'test_a_key_does_not_find_an_instance_of_another_owner',
    'test_a_name_does_not_find_an_instance_of_another_owner',
    'test_a_list_leaves_out_instances_of_another_owner',
    'test_changes_leave_out_instances_of_another_owner',
    'test_deleting_an_instance_leaves_that_of_another_owner',
)
class ListsAllWhereNoneFits(MinimalAnimal):
    """Ignores an empty filter."""

    def _list(self, owner):
        return super()._list(owner) or list(self._amphorae.values())


@caught_by('test_an_instance_in_error_is_listed')
class ListsOnlyTheHealthy(NoopAnimal):
    """Leaves failed instances out of its list, so they are never removed."""

    def _list(self, owner):
        return (one for one in super()._list(owner) if one.state is not State.ERROR)


@caught_by('test_a_name_that_several_instances_have_is_ambiguous')
class PicksOneOfSeveral(MinimalAnimal):
    """Chooses one of several instances with a name instead of failing."""

    def _find(self, name):
        return super()._find(name)[:1]


@caught_by('test_a_part_of_a_name_is_not_found')
class FindsPartsOfNames(MinimalAnimal):
    """Passes the name to a backend whose filter takes a pattern."""

    def _find(self, name):
        return [one for one in self._list(self.owner) if one.name.startswith(name)]

    def choose(self, found, amphora_name):
        return super().choose(found, amphora_name if isinstance(found, Amphora) else None)


@caught_by('test_a_name_that_does_not_belong_to_the_id_is_not_found')
class IgnoresTheName(MinimalAnimal):
    """Checks only the id if both name and id are given."""

    def get_amphora(self, amphora_name=None, amphora_id=None):
        if amphora_id is not None:
            amphora_name = None
        return super().get_amphora(amphora_name, amphora_id)


@caught_by('test_a_name_does_not_find_an_instance_of_another_owner')
class FindsNamesOfOthers(MinimalAnimal):
    """Finds instances of any owner by name."""

    def _find(self, name):
        return [one for one in self._amphorae.values() if one.name == name]


@caught_by(
    'test_a_key_does_not_find_an_instance_of_another_owner',
    'test_owners_and_keys_that_differ_only_in_capitals_are_different',
)
class FindsKeysOfOthers(MinimalAnimal):
    """Finds instances of any owner by key."""

    def _find_build(self, build_key):
        return next((one for one in self._amphorae.values() if one.build_key == build_key), None)


@caught_by(
    'test_statuses_leave_out_unknown_instances',
    'test_statuses_of_unknown_instances_are_empty',
    'test_a_deleted_instance_is_left_out_of_statuses',
    'test_a_name_or_a_key_is_not_taken_for_an_id',
    'test_an_id_that_the_backend_has_not_returned_is_not_found',
)
class InventsStatuses(MinimalAnimal):
    """Returns a status for every requested id."""

    def _statuses(self, amphora_ids):
        unknown = {id_: ComputeStatus(amphora_id=id_, state=State.UNKNOWN) for id_ in amphora_ids}
        return unknown | super()._statuses(amphora_ids)


@caught_by(
    'test_statuses_leave_out_unknown_instances',
    'test_statuses_of_unknown_instances_are_empty',
    'test_a_deleted_instance_is_left_out_of_statuses',
    'test_a_name_or_a_key_is_not_taken_for_an_id',
    'test_an_id_that_the_backend_has_not_returned_is_not_found',
)
class RaisesForOneMissing(MinimalAnimal):
    """Fails for all instances if one of them does not exist."""

    def _statuses(self, amphora_ids):
        return {id_: self._status(id_) for id_ in amphora_ids}


@caught_by(
    'test_statuses_include_only_requested_instances',
    'test_a_name_or_a_key_is_not_taken_for_an_id',
    'test_the_id_of_another_owners_instance_is_accepted',
)
class TellsMoreThanAsked(MinimalAnimal):
    """Returns all statuses whichever are requested."""

    def _statuses(self, amphora_ids):
        now = self.clock.time()
        return {one.id: one.status(now) for one in self._list(self.owner)}


@caught_by('test_statuses_are_keyed_by_their_id')
class MixesUpStatuses(MinimalAnimal):
    """Pairs ids with statuses in another order."""

    def _statuses(self, amphora_ids):
        found = super()._statuses(amphora_ids)
        return dict(zip(found, reversed(found.values()), strict=True))


@caught_by(
    'test_changes_include_an_instance_built_since',
    'test_changes_include_the_state_an_instance_has_reached',
    'test_changes_of_several_instances_are_returned_together',
    'test_an_old_cursor_returns_its_changes_again',
    'test_changes_miss_nothing_that_another_driver_has_done',
)
class LosesChanges(NoopAnimal):
    """Reports only deletions after the first changes."""

    def _changes(self, since):
        changes = super()._changes(since)
        return changes if changes.complete else dataclasses.replace(changes, statuses=())


@caught_by(
    'test_changes_include_an_instance_built_since',
    'test_changes_include_the_state_an_instance_has_reached',
    'test_changes_of_several_instances_are_returned_together',
)
class LosesWhatIsDone(NoopAnimal):
    """Reports that a build is under way, and skips its end."""

    def _changes(self, since):
        changes = super()._changes(since)
        if changes.complete:
            return changes
        begun = [one for one in changes.statuses if one.state is State.BUILDING]
        return dataclasses.replace(changes, statuses=tuple(begun))


@caught_by('test_changes_of_several_instances_are_returned_together')
class LosesChangesBesideDeletions(NoopAnimal):
    """Reports either changes or deletions, and loses the others."""

    def _changes(self, since):
        changes = super()._changes(since)
        going = [one for one in changes.statuses if one.state is State.DELETING]
        if changes.complete or not (going or changes.gone):
            return changes
        return dataclasses.replace(changes, statuses=tuple(going))


@caught_by('test_an_old_cursor_returns_its_changes_again')
class TellsChangesOnce(NoopAnimal):
    """Reports each change only once, whatever the cursor."""

    def __init__(self):
        super().__init__()
        self._told = set()

    def _changes(self, since):
        changes = super()._changes(since)
        if changes.complete:
            return changes
        news = [one for one in changes.statuses if (since, one.amphora_id) not in self._told]
        self._told |= {(since, one.amphora_id) for one in news if one.state is State.BUILDING}
        return dataclasses.replace(changes, statuses=tuple(news))


@caught_by('test_changes_include_an_instance_deleted_since')
class NeverTellsOfTheGone(NoopAnimal):
    """Does not report deletions."""

    def _changes(self, since):
        return dataclasses.replace(super()._changes(since), gone=())


@caught_by('test_changes_never_report_a_living_instance_as_gone')
class TakesTheUnreadyForGone(NoopAnimal):
    """Reports instances that are not active as gone."""

    def _changes(self, since):
        changes = super()._changes(since)
        unready = [one.amphora_id for one in changes.statuses if one.state is State.BUILDING]
        return dataclasses.replace(changes, gone=(*changes.gone, *unready))


@caught_by(
    'test_changes_leave_out_instances_of_another_owner',
    'test_deleting_an_instance_leaves_that_of_another_owner',
    'test_building_again_leaves_the_instance_of_another_owner',
    'test_owners_and_keys_that_differ_only_in_capitals_are_different',
    'test_a_list_is_complete_wherever_threads_switch_to_a_build_or_a_delete',
)
class TellsOfOthersChanges(MinimalAnimal):
    """Reports changes of instances of any owner."""

    def _changes(self, since):
        now = self.clock.time()
        everything = tuple(one.status(now) for one in self._amphorae.values())
        return dataclasses.replace(super()._changes(since), statuses=everything)


@caught_by(
    'test_the_empty_cursor_returns_every_instance',
    'test_a_cursor_that_the_driver_did_not_make_returns_every_instance',
)
class NeverSaysItIsComplete(NoopAnimal):
    """Never marks changes as complete."""

    def _changes(self, since):
        return dataclasses.replace(super()._changes(since), complete=False)


@caught_by('test_a_health_check_changes_nothing')
class ChecksByBuilding(MinimalAnimal):
    """Checks the health of the backend by building."""

    def _check(self):
        for amphora in self._list(self.owner)[:1]:
            copy = dataclasses.replace(amphora, id='probe', name='probe')
            self._amphorae['probe'] = copy
        return super()._check()


@caught_by('test_a_health_check_reports_the_backend_healthy')
class ChecksNothing(MinimalAnimal):
    """Reports a healthy backend as unhealthy."""

    def _check(self):
        return dataclasses.replace(super()._check(), healthy=False)


@caught_by('test_reads_return_at_once')
class WaitsInItsList(NoopAnimal):
    """Waits until nothing is being built before it answers."""

    def _find(self, name):
        self.clock.advance(30)
        return super()._find(name)

    def get_amphora(self, amphora_name=None, amphora_id=None):
        if amphora_name is not None and amphora_id is not None:
            self.clock.advance(30)
        return super().get_amphora(amphora_name, amphora_id)


@caught_by('test_an_instance_that_vanished_is_noticed')
class TrustsItsMemory(NoopAnimal):
    """Returns cached instances, unless it deleted them itself."""

    def __init__(self):
        super().__init__()
        self._seen = {}

    def _status(self, amphora_id):
        try:
            self._seen[amphora_id] = super()._status(amphora_id)
        except InstanceNotFoundError:
            if self._seen.get(amphora_id) is None or (
                self._seen[amphora_id].state is not State.ACTIVE
            ):
                raise
        return self._seen[amphora_id]

    def _delete(self, amphora_id):
        super()._delete(amphora_id)
        self._seen.pop(amphora_id, None)


@caught_by(
    'test_statuses_include_every_requested_instance',
    'test_all_instances_are_found_however_many_there_are',
    'test_an_id_that_the_backend_has_not_returned_is_not_found',
)
class TellsOfTwo(MinimalAnimal):
    """Returns only as many statuses as fit into one request."""

    def _statuses(self, amphora_ids):
        return super()._statuses(amphora_ids[:2])


@caught_by('test_statuses_agree_with_a_single_status')
class TellsLessOfMany(MinimalAnimal):
    """Does not read the state for statuses of many."""

    def _statuses(self, amphora_ids):
        found = super()._statuses(amphora_ids).items()
        return {id_: dataclasses.replace(one, state=State.UNKNOWN) for id_, one in found}


@caught_by('test_statuses_have_their_time_of_observation')
class ForgetsWhenItLookedAtMany(MinimalAnimal):
    """Leaves the time of observation out of statuses of many."""

    def _statuses(self, amphora_ids):
        found = super()._statuses(amphora_ids).items()
        return {id_: dataclasses.replace(one, observed_at=0.0) for id_, one in found}


@caught_by(
    'test_each_result_has_a_usable_cursor',
    'test_a_cursor_that_the_driver_did_not_make_returns_every_instance',
    'test_each_fact_has_the_type_of_the_contract',
)
class GivesNumbersForCursors(MinimalAnimal):
    """Returns a cursor that it does not accept."""

    def _changes(self, since):
        return dataclasses.replace(super()._changes(since), cursor=len(self._amphorae))

    def changes(self, since=''):
        return super().changes(str(since) if isinstance(since, int) else since)


@caught_by('test_a_current_cursor_covers_later_builds')
class GivesACursorOfItsOwnThatTellsNothing(NoopAnimal):
    """Has a current cursor, but reports no changes since."""

    def cursor(self):
        return 'now'

    def _changes(self, since):
        if since == self.cursor():
            return Changes(statuses=(), cursor=since)
        return super()._changes(since)


class _TellsInShort(MinimalAnimal):
    """Has a current cursor, and lists ids of instances that reached a state."""

    def cursor(self):
        return 'now'


_in_short = caught_by('test_reached_lists_instances_that_reached_a_state_since_a_cursor')


@_in_short
class TellsInShortOfAllInWhateverState(_TellsInShort):
    """Ignores the requested state."""

    def _reached(self, state, since):
        return {known.id for known in self._list(self.owner)}


@_in_short
class TellsInShortOfNobody(_TellsInShort):
    """Lists no instances."""

    def _reached(self, state, since):
        return set()


@caught_by(
    'test_reached_lists_instances_that_reached_a_state_since_a_cursor',
    'test_a_current_cursor_covers_later_builds',
)
class TellsInShortOnceAndThenNothing(GivesACursorOfItsOwnThatTellsNothing):
    """Refers callers to changes that do not report the instance."""

    _asked = False

    def _reached(self, state, since):
        first, self._asked = not self._asked, True
        return set() if first else None


@_in_short
class TellsInShortOfWhatOthersHave(_TellsInShort):
    """Ignores the owner."""

    def _reached(self, state, since):
        return {id_ for id_, known in self._amphorae.items() if known.state is state}


@caught_by('test_an_id_that_the_backend_has_not_returned_is_not_found')
class TakesPartsOfIds(NoopAnimal):
    """Finds an instance by the beginning of its id, as some command lines do."""

    def _status(self, amphora_id):
        whole = [one.id for one in self.cloud.instances() if one.id.startswith(amphora_id)]
        return super()._status(whole[0] if len(whole) == 1 else amphora_id)


@caught_by('test_an_id_that_the_backend_has_not_returned_is_not_found')
class DeletesInAnyCase(NoopAnimal):
    """Deletes an instance whose id is given in capitals."""

    def _delete(self, amphora_id):
        super()._delete(amphora_id.lower())


@caught_by(
    'test_an_id_that_the_backend_has_not_returned_is_not_found',
    'test_a_name_or_a_key_is_not_taken_for_an_id',
)
class ReadsIdsAsNumbers(NoopAnimal):
    """Cannot read an id of another form than its own."""

    def _status(self, amphora_id):
        uuid.UUID(amphora_id)
        return super()._status(amphora_id)


@caught_by('test_a_cursor_that_the_driver_did_not_make_returns_every_instance')
class TrustsForeignCursors(NoopAnimal):
    """Takes any cursor for one of its own, since which nothing has changed."""

    def _changes(self, since):
        changes = super()._changes(since)
        if since and changes.complete:
            return dataclasses.replace(changes, statuses=(), complete=False)
        return changes
