"""Animals with defects in lookups and lists of what was just built."""

import dataclasses

from kiln.exceptions import InstanceNotFoundError, InvalidRequest
from kiln.models import Amphora, Changes, ComputeStatus, State
from tests.kit.zoo.species import MinimalAnimal, NoopAnimal, caught_by


@caught_by(
    'test_a_deleted_instance_is_not_found_by_its_name',
    'test_an_unknown_name_is_not_found',
    'test_a_part_of_a_name_is_not_found',
    'test_a_name_does_not_find_an_instance_of_another_owner',
    'test_names_that_differ_only_in_capitals_are_different',
)
class FindsTheFirst(MinimalAnimal):
    """Returns the first instance of its site where none has the name."""

    def get_amphora(self, amphora_name=None, amphora_id=None):
        try:
            return super().get_amphora(amphora_name, amphora_id)
        except InstanceNotFoundError:
            if amphora_id is not None:
                raise
            return next(iter(self._list(self.owner)))


@caught_by(
    'test_an_instance_is_found_by_name_and_id_together',
    'test_a_name_that_does_not_belong_to_the_id_is_not_found',
    'test_reads_return_at_once',
)
class NeedsOneOfNameAndId(MinimalAnimal):
    """Refuses a lookup by name and id together."""

    def get_amphora(self, amphora_name=None, amphora_id=None):
        if None not in (amphora_name, amphora_id):
            raise InvalidRequest('Cannot find an amphora: give its name or its id.')
        return super().get_amphora(amphora_name, amphora_id)


@caught_by('test_an_instance_is_found_by_its_id', among_others=True)
class FindsByNameOnly(MinimalAnimal):
    """Finds an instance by the id that it has in the backend's own interface."""

    def get_amphora(self, amphora_name=None, amphora_id=None):
        if amphora_name is None and amphora_id is not None:
            amphora_name, amphora_id = amphora_id, None
        return super().get_amphora(amphora_name, amphora_id)


@caught_by(
    'test_an_instance_is_found_by_its_name',
    'test_a_name_that_does_not_belong_to_the_id_is_not_found',
    'test_a_name_that_several_instances_have_is_ambiguous',
    'test_an_instance_is_described_alike_wherever_it_is_found',
    'test_another_driver_finds_what_one_has_built_by_name_and_key',
    'test_a_name_and_metadata_outside_ascii_are_kept_or_refused',
    'test_a_driver_opened_after_another_was_closed_sees_what_that_has_built',
    'test_names_that_differ_only_in_capitals_are_different',
    'test_each_fact_has_the_type_of_the_contract',
)
class FindsByIdOnly(MinimalAnimal):
    """Takes a name for an id."""

    def get_amphora(self, amphora_name=None, amphora_id=None):
        return super().get_amphora(None, amphora_id or amphora_name)


@caught_by('test_a_lookup_without_criteria_is_refused')
class FindsAnythingForNothing(MinimalAnimal):
    """Returns some instance to a caller that names none."""

    def get_amphora(self, amphora_name=None, amphora_id=None):
        if amphora_name is None and amphora_id is None:
            return Amphora(id='some', name='some', state=State.UNKNOWN)
        return super().get_amphora(amphora_name, amphora_id)


@caught_by('test_a_lookup_without_criteria_is_refused')
class LooksForNothing(MinimalAnimal):
    """Looks up an empty id where neither name nor id is given."""

    def look_up(self, amphora_name, amphora_id):
        if amphora_name is None and amphora_id is None:
            amphora_id = 'None'
        return super().look_up(amphora_name, amphora_id)


@caught_by(
    'test_an_id_is_not_used_again',
    'test_a_deleted_instance_cannot_be_fetched',
    'test_an_unknown_id_is_not_found',
    'test_a_name_or_a_key_is_not_taken_for_an_id',
)
class DescribesEveryId(MinimalAnimal):
    """Describes an instance for an id that the backend does not know."""

    def get_amphora(self, amphora_name=None, amphora_id=None):
        try:
            return super().get_amphora(amphora_name, amphora_id)
        except InstanceNotFoundError:
            if amphora_name is not None:
                raise
            return Amphora(id=amphora_id, name='', state=State.UNKNOWN)


@caught_by(
    'test_an_unknown_id_has_no_status', 'test_a_deleted_instance_has_no_status', among_others=True
)
class KnowsEveryId(MinimalAnimal):
    """Reports an unknown state for an id that the backend does not know."""

    def _status(self, amphora_id):
        try:
            return super()._status(amphora_id)
        except InstanceNotFoundError:
            now = self.clock.time()
            return ComputeStatus(amphora_id=amphora_id, state=State.UNKNOWN, observed_at=now)


@caught_by(
    'test_a_build_is_found_by_its_key',
    'test_another_driver_finds_what_one_has_built_by_name_and_key',
    'test_owners_and_keys_that_differ_only_in_capitals_are_different',
)
class FindsNoKey(MinimalAnimal):
    """Compares keys with names."""

    def _find_build(self, build_key):
        found = super()._find_build(build_key)
        return found if found is not None and found.name == build_key else None


@caught_by('test_an_unknown_key_finds_nothing')
class FindsAnyKey(MinimalAnimal):
    """Returns the first instance of its site where none has the key."""

    def _find_build(self, build_key):
        return super()._find_build(build_key) or next(iter(self._list(self.owner)), None)


@caught_by(
    'test_a_list_of_another_owner_has_its_instances',
    'test_an_owner_of_the_wrong_form_is_refused',
    'test_deleting_an_instance_leaves_that_of_another_owner',
    'test_building_again_leaves_the_instance_of_another_owner',
)
class ListsForItsSiteOnly(MinimalAnimal):
    """Ignores the requested owner."""

    def list_amphorae(self, *, owner=None):
        if owner not in (None, self.owner):
            return iter(())
        return super().list_amphorae(owner=owner)


@caught_by(
    'test_an_instance_that_still_builds_is_listed',
    'test_a_list_has_every_instance_of_this_site',
    among_others=True,
)
class ListsOnlyWhatIsReady(NoopAnimal):
    """Leaves instances that are being built out of its list."""

    def _list(self, owner):
        return [one for one in super()._list(owner) if one.state is not State.BUILDING]


@caught_by('test_statuses_of_nothing_are_empty')
class GivesAllForNothing(MinimalAnimal):
    """Takes an empty list of ids for no filter."""

    def statuses(self, amphora_ids):
        ids = list(amphora_ids)
        return super().statuses(ids or [one.id for one in self._list(self.owner)])


@caught_by('test_statuses_include_an_instance_requested_twice')
class CountsIds(MinimalAnimal):
    """Fails where an id is requested twice."""

    def _statuses(self, amphora_ids):
        if len(set(amphora_ids)) < len(amphora_ids):
            raise InvalidRequest('Cannot read statuses: an id is given twice.')
        return super()._statuses(amphora_ids)


@caught_by('test_changes_are_values_of_the_contract')
class ReturnsChangesOfItsOwn(MinimalAnimal):
    """Returns changes of a class of its own."""

    def _changes(self, since):
        return VendorChanges(statuses=super()._changes(since).statuses, complete=True)


class VendorChanges(Changes):
    """Changes with more to them."""


#: What an amphora is, in a form that can be changed.
Notes = dataclasses.make_dataclass(
    'Notes',
    [one.name for one in dataclasses.fields(Amphora)],
    namespace={'__repr__': lambda _: 'notes'},
    repr=False,
)
Notes.__module__ = __name__


@caught_by(
    'test_an_instance_is_described_alike_wherever_it_is_found',
    'test_an_instance_is_an_amphora_of_the_contract',
    'test_values_cannot_be_changed',
    'test_each_fact_has_the_type_of_the_contract',
)
class AnswersWithNotes(MinimalAnimal):
    """Returns values that its callers can change."""

    def get_amphora(self, amphora_name=None, amphora_id=None):
        amphora = super().get_amphora(amphora_name, amphora_id)
        facts = {one.name: getattr(amphora, one.name) for one in dataclasses.fields(amphora)}
        return Notes(**facts)


@caught_by('test_names_that_differ_only_in_capitals_are_different')
class FindsNamesInAnyCase(MinimalAnimal):
    """Passes names to a backend that compares them without regard to capitals."""

    def _find(self, name):
        return [one for one in self._list(self.owner) if one.name.lower() == name.lower()]

    def choose(self, found, amphora_name):
        return super().choose(found, amphora_name if isinstance(found, Amphora) else None)


@caught_by('test_an_instance_is_described_alike_wherever_it_is_found')
class IsAlwaysNew(MinimalAnimal):
    """Takes the time of its answer for the time of creation."""

    def _get(self, amphora_id):
        return dataclasses.replace(super()._get(amphora_id), created_at=self.clock.time())
