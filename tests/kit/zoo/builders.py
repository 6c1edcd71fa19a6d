"""Animals with defects in builds and in the record of what was built."""

import contextlib
import dataclasses
import functools
import threading
from types import MappingProxyType

from kiln.compute_drivers.authoring.adoption import adopted
from kiln.exceptions import BuildDiffers
from kiln.models import AmphoraType, Limits
from tests.kit.zoo.species import (
    LATENCIES,
    LIST_WHEREVER,
    MOVED,
    ONE_WHEREVER,
    READ_WHEREVER,
    REFUSED,
    MinimalAnimal,
    NoopAnimal,
    caught_by,
)


class Altering(MinimalAnimal):
    """Builds, but changes the request first."""

    def altered(self, amphora):
        raise NotImplementedError

    def _build(self, request):
        amphora_id = super()._build(request)
        self.change(amphora_id, **self.altered(self._amphorae[amphora_id]))
        return amphora_id


@caught_by(
    'test_building_again_with_a_key_returns_the_first_instance',
    'test_building_again_with_a_key_makes_nothing_more',
    'test_building_again_once_it_is_active_returns_the_first_instance',
    'test_a_key_that_built_something_else_is_refused',
    'test_many_threads_with_one_key_build_one_instance',
    'test_building_again_in_another_driver_returns_the_first_instance',
    'test_a_key_that_built_something_else_is_refused_in_another_driver',
    'test_building_again_leaves_the_instance_of_another_owner',
    'test_no_secret_is_in_the_error_of_a_key_that_built_something_else',
    'test_building_again_with_other_metadata_returns_the_first_instance',
    'test_owners_and_keys_that_differ_only_in_capitals_are_different',
    'test_builds_with_one_key_make_one_instance_wherever_threads_switch',
    'test_a_driver_opened_after_another_was_closed_sees_what_that_has_built',
    MOVED,
)
class Duplicates(MinimalAnimal):
    """Builds again for a key that already has an instance."""

    def _build(self, request):
        return self.build_anyway(request)


@caught_by('test_many_threads_with_one_key_build_one_instance', ONE_WHEREVER)
class LooksBeforeItLocks(MinimalAnimal):
    """Checks the key and then builds, with a race in between."""

    def __init__(self):
        super().__init__()
        self._window = threading.Barrier(8)

    def _build(self, request):
        known = self._find_build(request.build_key)
        # In the pool of the eight concurrent builds; two threads alone never meet.
        if threading.current_thread().name == 'kit-at-once':
            self._meet()
        return self.build_anyway(request) if known is None else adopted(request, known)

    def _meet(self):
        try:
            # Those that have looked by then build, too.
            self._window.wait(timeout=0.5)
        except threading.BrokenBarrierError:
            # Fewer than eight are building.
            self._window.reset()


@caught_by(
    'test_a_key_that_built_something_else_is_refused',
    'test_a_key_that_built_something_else_is_refused_in_another_driver',
    'test_no_secret_is_in_the_error_of_a_key_that_built_something_else',
)
class AdoptsAnything(MinimalAnimal):
    """Returns the instance with the key even if the request differs."""

    def _build(self, request):
        known = None if request.fresh else self.with_key(request)
        return super()._build(request) if known is None else known.id


@caught_by('test_a_key_that_built_something_else_is_refused')
class RefusesTooLate(MinimalAnimal):
    """Refuses a differing request for a key, but only after building it."""

    def _build(self, request):
        try:
            return super()._build(request)
        except BuildDiffers:
            self.build_anyway(request)
            raise


@caught_by('test_a_key_that_built_something_else_is_refused')
class RenamesWhatItFinds(MinimalAnimal):
    """Renames the instance with the key to the requested name, and then refuses."""

    def _build(self, request):
        try:
            return super()._build(request)
        except BuildDiffers as exc:
            self.change(exc.amphora_id, name=request.name)
            raise


@caught_by(
    'test_the_key_of_a_deleted_instance_builds_a_new_one',
    'test_a_delete_in_another_driver_is_seen_by_the_first',
)
class RemembersKeysForEver(MinimalAnimal):
    """Returns the id of a deleted instance for a build with its key."""

    def __init__(self):
        super().__init__()
        self._built = {}

    def _build(self, request):
        built = (request.owner, request.build_key)
        return self._built.setdefault(built, super()._build(request))


@caught_by(
    'test_the_build_key_is_kept_on_the_instance',
    'test_building_again_in_another_driver_returns_the_first_instance',
    'test_building_again_leaves_the_instance_of_another_owner',
    'test_owners_and_keys_that_differ_only_in_capitals_are_different',
)
class KeepsKeysToItself(MinimalAnimal):
    """Keeps build keys in its own memory, where no other process sees them."""

    def _get(self, amphora_id):
        return dataclasses.replace(super()._get(amphora_id), build_key=None)

    def _find(self, name):
        return [dataclasses.replace(one, build_key=None) for one in super()._find(name)]

    def _find_build(self, build_key):
        found = super()._find_build(build_key)
        return found and dataclasses.replace(found, build_key=None)

    def list_amphorae(self, *, owner=None):
        return (
            dataclasses.replace(one, build_key=None) for one in super().list_amphorae(owner=owner)
        )


@caught_by(
    'test_the_owner_is_kept_on_the_instance',
    'test_a_list_has_only_instances_of_its_owner',
    'test_an_instance_is_described_alike_wherever_it_is_found',
    'test_deleting_an_instance_leaves_that_of_another_owner',
    'test_building_again_leaves_the_instance_of_another_owner',
    'test_the_id_of_another_owners_instance_is_accepted',
    'test_owners_and_keys_that_differ_only_in_capitals_are_different',
)
class KeepsOwnersToItself(MinimalAnimal):
    """Lists by owner, but does not store the owner on the instance."""

    def _get(self, amphora_id):
        return dataclasses.replace(super()._get(amphora_id), owner=None)

    def list_amphorae(self, *, owner=None):
        return (dataclasses.replace(one, owner=None) for one in super().list_amphorae(owner=owner))


@caught_by(
    'test_a_key_that_another_owner_used_is_free',
    'test_deleting_an_instance_leaves_that_of_another_owner',
    'test_owners_and_keys_that_differ_only_in_capitals_are_different',
)
class MixesUpKeysOfOwners(MinimalAnimal):
    """Takes an instance of another site with the same build key for its own."""

    def _build(self, request):
        for known in list(self._amphorae.values()):
            if known.build_key == request.build_key and known.owner != request.owner:
                return known.id
        return super()._build(request)


@caught_by('test_a_name_of_the_greatest_length_is_kept_whole')
class CutsNames(Altering):
    """Truncates names to the length of a host name."""

    def altered(self, amphora):
        return {'name': amphora.name[:63]}


@caught_by(
    'test_the_name_is_kept_as_it_was_given',
    'test_a_name_and_metadata_outside_ascii_are_kept_or_refused',
    'test_names_that_differ_only_in_capitals_are_different',
)
class LowersNames(Altering):
    """Writes names in lower case."""

    def altered(self, amphora):
        return {'name': amphora.name.lower()}


@caught_by(
    'test_metadata_is_kept_as_it_was_given',
    'test_a_name_and_metadata_outside_ascii_are_kept_or_refused',
    'test_all_that_is_requested_together_is_found_again',
)
class DropsMetadata(Altering):
    """Forgets metadata."""

    def altered(self, amphora):
        return {'metadata': MappingProxyType({})}


@caught_by('test_metadata_of_one_instance_is_not_that_of_another')
class SharesMetadata(Altering):
    """Keeps one set of metadata for all."""

    def __init__(self):
        super().__init__()
        self._metadata = {}

    def altered(self, amphora):
        self._metadata |= amphora.metadata
        return {'metadata': MappingProxyType(dict(self._metadata))}


@caught_by('test_each_type_on_offer_is_built_as_what_it_is')
class BuildsOnlyMachines(Altering):
    """Offers containers, and builds virtual machines."""

    limits = Limits(
        amphora_types=frozenset({AmphoraType.VM, AmphoraType.CONTAINER}), refused_options=REFUSED
    )

    def altered(self, amphora):
        return {'amphora_type': AmphoraType.VM}


@caught_by(
    'test_an_id_is_not_used_again',
    'test_the_key_of_a_deleted_instance_builds_a_new_one',
    'test_a_delete_in_another_driver_is_seen_by_the_first',
)
class UsesIdsAgain(MinimalAnimal):
    """Reuses ids: each instance gets the lowest free number."""

    _one_at_a_time = threading.Lock()

    def _build(self, request):
        with self._one_at_a_time:
            amphora_id = super()._build(request)
            if amphora_id.startswith('vm-'):
                return amphora_id
            with self._lock:
                amphora = self._amphorae.pop(amphora_id)
                free = next(f'vm-{i}' for i in range(1000) if f'vm-{i}' not in self._amphorae)
                self._amphorae[free] = dataclasses.replace(amphora, id=free)
            return free


@caught_by('test_no_more_files_are_allowed_than_the_contract_allows')
class TakesTooManyFiles(MinimalAnimal):
    """Accepts more files than the contract allows."""

    limits = Limits(max_files=20, refused_options=REFUSED)


@caught_by('test_no_larger_files_are_allowed_than_the_contract_allows')
class TakesTooLargeFiles(MinimalAnimal):
    """Accepts larger files than the contract allows."""

    limits = Limits(max_file_bytes=1024 * 1024, refused_options=REFUSED)


@caught_by(
    'test_larger_user_data_is_refused',
    'test_no_secret_is_in_the_error_of_a_refused_build',
)
class CutsUserData(NoopAnimal):
    """Truncates user data at its limit instead of refusing it."""

    @functools.wraps(MinimalAnimal.build)
    def build(self, *args, **given):
        if isinstance(given.get('user_data'), str | bytes):
            given['user_data'] = given['user_data'][: self.limits.max_user_data_bytes]
        return super().build(*args, **given)


@caught_by(ONE_WHEREVER, READ_WHEREVER, LIST_WHEREVER, among_others=True)
class HasNoLock(MinimalAnimal):
    """Trusts that its calls are made one after the other."""

    def __init__(self):
        super().__init__()
        self._lock = contextlib.nullcontext()


@caught_by(LIST_WHEREVER, among_others=True)
class ListsWithoutLock(MinimalAnimal):
    """Walks through its instances while other threads add some."""

    def _list(self, owner):
        return [known for known in self._amphorae.values() if known.owner == owner]


@caught_by(READ_WHEREVER, among_others=True)
class ReadsTwice(MinimalAnimal):
    """Checks that an instance exists, and reads it a moment later."""

    def _get(self, amphora_id):
        super()._get(amphora_id)
        return self._amphorae[amphora_id]


class OfNamedImages(NoopAnimal):
    """Base of animals on a cloud with two images, which can be given names."""

    cloud_options = LATENCIES | {'images': ['image-1', 'image-2']}


@caught_by(MOVED)
class ComparesWhatNamesStandFor(OfNamedImages):
    """Compares what the name of an image stands for now."""

    def _build(self, request):
        image_id = request.image_id and self.cloud.catalogue.image(request.image_id)
        return super()._build(dataclasses.replace(request, image_id=image_id))


@caught_by(MOVED)
class LooksForTheImageFirst(OfNamedImages):
    """Looks for the image of a build before it looks for what the build has made."""

    def _build(self, request):
        self.cloud.catalogue.check_request(request)
        return super()._build(request)
