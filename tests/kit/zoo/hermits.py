"""Animals that share a backend badly: with other drivers, and with other sites."""

import contextlib
import dataclasses
import socket
import threading
import weakref

from kiln.exceptions import BuildDiffers, InstanceNotFoundError
from tests.kit.zoo.species import MOVED, MinimalAnimal, NoopAnimal, caught_by


class Remembering(NoopAnimal):
    """Remembers the instances that it built."""

    def __init__(self):
        super().__init__()
        self._built = set()

    def _build(self, request):
        amphora_id = super()._build(request)
        self._built.add(amphora_id)
        return amphora_id


@caught_by(
    'test_another_driver_lists_what_one_has_built',
    'test_building_again_after_a_lost_answer_adopts_what_was_built',
    'test_a_driver_opened_after_another_was_closed_sees_what_that_has_built',
    'test_a_claimed_instance_is_listed_with_its_owner_and_its_key',
)
class ListsWhatItBuilt(Remembering):
    """Lists only the instances that it remembers."""

    def _list(self, owner):
        return [one for one in super()._list(owner) if one.id in self._built]


@caught_by(
    'test_another_driver_finds_what_one_has_built_by_name_and_key',
    'test_a_driver_opened_after_another_was_closed_sees_what_that_has_built',
)
class RemembersNames(MinimalAnimal):
    """Keeps the names of instances in its memory."""

    def __init__(self):
        super().__init__()
        self._names = {}

    def _build(self, request):
        amphora_id = super()._build(request)
        self._names[amphora_id] = self._amphorae[amphora_id].name
        return amphora_id

    def _find(self, name):
        return [one for one in self._list(self.owner) if self._names.get(one.id) == name]


@caught_by(
    'test_building_again_in_another_driver_returns_the_first_instance',
    'test_building_again_after_a_lost_answer_adopts_what_was_built',
    'test_a_driver_opened_after_another_was_closed_sees_what_that_has_built',
    'test_a_build_with_the_key_of_a_claimed_instance_returns_it',
    MOVED,
)
class RemembersItsKeys(NoopAnimal):
    """Checks in its memory if a key was used, and takes the backend's refusal for a defect."""

    _one_at_a_time = threading.Lock()

    def __init__(self):
        super().__init__()
        self._keys = set()

    def _build(self, request):
        built = (request.owner, request.build_key)
        with self._one_at_a_time:
            if built not in self._keys and self.with_key(request) is not None:
                raise BuildDiffers(f'Cannot build {request.name}: its key was used.')
            amphora_id = super()._build(request)
            self._keys.add(built)
        return amphora_id

    def with_key(self, request):
        mine = super()._list(request.owner)
        return next((one for one in mine if one.build_key == request.build_key), None)


@caught_by('test_a_key_that_built_something_else_is_refused_in_another_driver')
class AdoptsBlindlyFromOthers(NoopAnimal):
    """Compares a request only with requests that it remembers."""

    def __init__(self):
        super().__init__()
        self._built = set()

    def _build(self, request):
        found = None if request.fresh else super()._find_build(request.build_key)
        if found is not None and found.id not in self._built and found.owner == request.owner:
            return found.id
        amphora_id = super()._build(request)
        self._built.add(amphora_id)
        return amphora_id


@caught_by(
    'test_a_delete_in_another_driver_is_seen_by_the_first',
    'test_a_claimed_instance_can_be_deleted',
)
class DeletesWhatItBuilt(Remembering):
    """Deletes only the instances that it remembers."""

    def _delete(self, amphora_id):
        if amphora_id in self._built:
            super()._delete(amphora_id)


@caught_by(
    'test_an_action_in_another_driver_is_seen_by_the_first',
    'test_suspending_an_unknown_instance_is_not_found',
    'test_each_call_about_an_unknown_instance_raises_the_same_error',
)
class SuspendsWhatItBuilt(Remembering):
    """Suspends only the instances that it remembers."""

    def _suspend(self, amphora_id):
        if amphora_id in self._built:
            super()._suspend(amphora_id)


@caught_by('test_another_driver_describes_an_instance_alike')
class DescribesWhatItBuilt(Remembering):
    """Knows only of the instances that it remembers when they were made."""

    def _get(self, amphora_id):
        amphora = super()._get(amphora_id)
        if amphora_id in self._built:
            return amphora
        return dataclasses.replace(amphora, created_at=None)


@caught_by('test_changes_miss_nothing_that_another_driver_has_done')
class TellsOnlyOfItsOwnBuilds(Remembering):
    """Reports changes of the instances that it remembers."""

    def _changes(self, since):
        changes = super()._changes(since)
        if changes.complete:
            return changes
        mine = tuple(one for one in changes.statuses if one.amphora_id in self._built)
        return dataclasses.replace(changes, statuses=mine)


@caught_by(
    'test_deleting_an_instance_leaves_its_namesake',
    'test_deleting_an_instance_leaves_that_of_another_owner',
)
class DeletesByName(NoopAnimal):
    """Deletes every instance of the name, of any owner."""

    def _delete(self, amphora_id):
        try:
            name = super()._get(amphora_id).name
        except InstanceNotFoundError:
            return
        for one in self.cloud.instances():
            if one.name == name:
                super()._delete(one.id)


@caught_by(
    'test_deleting_an_instance_leaves_that_of_another_owner',
    'test_a_cancelled_build_leaves_the_instance_of_another_owner_with_its_key',
)
class DeletesByKey(NoopAnimal):
    """Deletes every instance with the key of an instance."""

    def _delete(self, amphora_id):
        try:
            key = super()._get(amphora_id).build_key
        except InstanceNotFoundError:
            return
        for one in self.cloud.instances():
            if one.build_key == key:
                super()._delete(one.id)


@caught_by('test_deleting_an_instance_leaves_its_namesake')
class DeletesNamesakesOfItsSite(NoopAnimal):
    """Deletes every instance of its site that has the name."""

    def _delete(self, amphora_id):
        try:
            deleted = super()._get(amphora_id)
        except InstanceNotFoundError:
            return
        for one in super()._list(deleted.owner):
            if one.name == deleted.name:
                super()._delete(one.id)


@caught_by(
    'test_building_again_leaves_the_instance_of_another_owner',
    'test_owners_and_keys_that_differ_only_in_capitals_are_different',
)
class ReplacesNamesakes(MinimalAnimal):
    """Takes over an instance of another owner that has the key when it builds again."""

    def _build(self, request):
        again = self.with_key(request) is not None
        amphora_id = super()._build(request)
        for one in list(self._amphorae.values()):
            if again and one.build_key == request.build_key and one.owner != request.owner:
                del self._amphorae[one.id]
        return amphora_id


class ActsOnNamesakes(NoopAnimal):
    """Acts on every instance with the name of an instance."""

    def namesakes(self, amphora_id):
        name = super()._get(amphora_id).name
        return [one.id for one in self.cloud.instances() if one.name == name]


@caught_by('test_suspending_an_instance_leaves_that_of_another_owner')
class SuspendsByName(ActsOnNamesakes):
    """Suspends every instance with the name."""

    def _suspend(self, amphora_id):
        for one in self.namesakes(amphora_id):
            super()._suspend(one)


@caught_by('test_rebooting_an_instance_leaves_that_of_another_owner')
class RebootsByName(ActsOnNamesakes):
    """Reboots every instance with the name."""

    def _reboot(self, amphora_id, hard):
        for one in self.namesakes(amphora_id):
            super()._reboot(one, hard)


@caught_by('test_rebuilding_an_instance_leaves_that_of_another_owner')
class RebuildsByName(ActsOnNamesakes):
    """Rebuilds every instance with the name."""

    def _rebuild(self, amphora_id, image_id):
        for one in self.namesakes(amphora_id):
            super()._rebuild(one, image_id)


@caught_by('test_a_name_or_a_key_is_not_taken_for_an_id')
class TakesNamesForIds(MinimalAnimal):
    """Deletes by name what has no such id, as its client library does."""

    def _delete(self, amphora_id):
        with self._lock:
            for one in list(self._amphorae.values()):
                if amphora_id in (one.id, one.name):
                    self._amphorae.pop(one.id)


@caught_by('test_a_name_or_a_key_is_not_taken_for_an_id')
class TakesKeysForIds(MinimalAnimal):
    """Finds by its key what has no such id."""

    def _get(self, amphora_id):
        with self._lock:
            for one in self._amphorae.values():
                if amphora_id in (one.id, one.build_key):
                    return one
        return super()._get(amphora_id)


@caught_by(
    'test_deleting_an_instance_leaves_that_of_another_owner',
    'test_building_again_leaves_the_instance_of_another_owner',
    'test_the_id_of_another_owners_instance_is_accepted',
    'test_a_cancelled_build_leaves_the_instance_of_another_owner_with_its_key',
)
class KnowsOnlyItsSite(MinimalAnimal):
    """Does not know the ids of another owner's instances."""

    def _get(self, amphora_id):
        amphora = super()._get(amphora_id)
        if amphora.owner != self.owner:
            raise InstanceNotFoundError(
                f'Cannot find {amphora_id}: it is not ours.', amphora_id=amphora_id
            )
        return amphora


@caught_by('test_the_id_of_another_owners_instance_is_accepted')
class DeletesOnlyForItsSite(MinimalAnimal):
    """Ignores a delete of another owner's instance."""

    def _delete(self, amphora_id):
        amphora = self._amphorae.get(amphora_id)
        if amphora is None or amphora.owner == self.owner:
            super()._delete(amphora_id)


@caught_by('test_a_closed_driver_leaves_no_thread_and_no_open_file')
class LeavesItsThread(MinimalAnimal):
    """Does not end the thread that it has for itself."""

    def __init__(self):
        super().__init__()
        self._ended = threading.Event()

    def _check(self):
        threading.Thread(target=self._ended.wait, args=(20,), daemon=True).start()
        return super()._check()

    def __del__(self):
        self._ended.set()


@caught_by('test_a_closed_driver_leaves_no_thread_and_no_open_file')
class LeavesItsSocketOpen(MinimalAnimal):
    """Does not close the connection that it builds with."""

    def __init__(self):
        super().__init__()
        self._sockets = contextlib.ExitStack()
        # Not by __del__: in a cycle of garbage, the sockets can be collected first.
        weakref.finalize(self, self._sockets.close)

    def _build(self, request):
        self._sockets.enter_context(socket.socket())
        return super()._build(request)


_IN_CAPITALS = 'test_owners_and_keys_that_differ_only_in_capitals_are_different'


@caught_by(_IN_CAPITALS)
class IgnoresCapitalsOfOwners(MinimalAnimal):
    """Filters by owner in a backend that compares without regard to capitals."""

    def _list(self, owner):
        records = list(self._amphorae.values())
        return [one for one in records if one.owner.lower() == owner.lower()]


@caught_by(_IN_CAPITALS)
class IgnoresCapitalsOfKeys(MinimalAnimal):
    """Finds builds in a backend that compares keys without regard to capitals."""

    def _find_build(self, build_key):
        lower = build_key.lower()
        listed = self._list(self.owner)
        return next((one for one in listed if one.build_key.lower() == lower), None)


@caught_by('test_a_driver_opened_after_another_was_closed_sees_what_that_has_built')
class ForgetsAtItsClose(Remembering):
    """Takes what it has built down with itself."""

    def close(self):
        for amphora_id in self._built:
            with contextlib.suppress(InstanceNotFoundError):
                self.cloud.vanish(amphora_id)
        super().close()


@caught_by('test_a_server_group_is_not_listed_among_the_resources_of_another_owner')
class ListsGroupsOfOthers(NoopAnimal):
    """Lists the resources of all sites that it has worked for as those of one."""

    def __init__(self):
        super().__init__()
        self._owners = set()

    def _create_server_group(self, name, policy):
        self._owners.add(self.owner)
        return super()._create_server_group(name, policy)

    def _list_resources(self, owner):
        owners = self._owners if owner in self._owners else {owner}
        of = super()._list_resources
        found = [one for each in sorted(owners) for one in of(each)]
        return [dataclasses.replace(one, owner=owner) for one in found]
