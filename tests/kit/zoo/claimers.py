"""Wrong drivers that claim machines wrongly."""

import dataclasses

from kiln.exceptions import BuildConflict, InstanceNotFoundError, InvalidRequest
from tests.kit.zoo.species import NoopAnimal, caught_by

LISTED = 'test_a_claimed_instance_is_listed_with_its_owner_and_its_key'
FOUND = 'test_a_claimed_instance_is_found_by_its_key_and_by_its_name'
BUILT = 'test_a_build_with_the_key_of_a_claimed_instance_returns_it'
DELETED = 'test_a_claimed_instance_can_be_deleted'
AGAIN = 'test_claiming_again_with_the_same_key_is_a_success'
AS_IT_IS = 'test_a_claim_leaves_the_instance_itself_as_it_is'
THEIRS = 'test_an_instance_of_another_owner_is_not_claimed'
OTHER_KEY = 'test_an_instance_of_this_site_is_not_claimed_with_another_key'
KEY_IN_USE = 'test_no_instance_is_claimed_with_the_key_of_another'
KEY_OF_THEIRS = 'test_an_instance_is_claimed_with_a_key_that_another_owner_uses'
UNKNOWN = 'test_a_claim_of_an_unknown_instance_is_not_found'
WRONG_KEY = 'test_a_build_key_of_the_wrong_form_is_refused_in_a_claim'
LOST = 'test_a_claim_whose_answer_was_lost_can_be_repeated'


class Claimer(NoopAnimal):
    """Base of animals with defects in claims, which can write what they like."""

    def write(self, amphora_id, **columns):
        """Change columns of a machine."""
        number = self.cloud.store.number_of(amphora_id)
        names = ', '.join(f'{name} = ?' for name in columns)
        with self.cloud.store.write(self.cloud.gate.now()) as db:
            db.execute(
                f'UPDATE machines SET {names} WHERE number = ?',
                (*columns.values(), number),
            )


@caught_by(
    LISTED, FOUND, BUILT, AGAIN, THEIRS, OTHER_KEY, KEY_IN_USE, KEY_OF_THEIRS, UNKNOWN, LOST,
    'test_each_call_about_an_unknown_instance_raises_the_same_error',
)  # fmt: skip
class ClaimsNothing(NoopAnimal):
    """Accepts each claim without an effect."""

    def _claim(self, amphora_id, build_key):
        return None


@caught_by(LISTED, FOUND, BUILT, AGAIN, KEY_OF_THEIRS, LOST)
class ClaimsWithoutKey(Claimer):
    """Writes the owner of a claimed instance, and no key."""

    def _claim(self, amphora_id, build_key):
        super()._claim(amphora_id, build_key)
        self.write(amphora_id, build_key=None)


@caught_by(FOUND, LOST)
class FindsOnlyWhatItBuilt(NoopAnimal):
    """Finds nothing by a key that it has not built with."""

    def _find_build(self, build_key):
        found = super()._find_build(build_key)
        return None if found and found.metadata.get('made') == 'by hand' else found


@caught_by(LISTED)
class ListsOnlyWhatItBuilt(NoopAnimal):
    """Leaves claimed instances out of its list."""

    def _list(self, owner):
        return [one for one in super()._list(owner) if one.metadata.get('made') != 'by hand']


@caught_by(DELETED)
class SparesWhatItClaimed(NoopAnimal):
    """Accepts the delete of a claimed instance without an effect."""

    def __init__(self):
        super().__init__()
        self._claimed = set()

    def _claim(self, amphora_id, build_key):
        super()._claim(amphora_id, build_key)
        self._claimed.add(amphora_id)

    def _delete(self, amphora_id):
        if amphora_id not in self._claimed:
            super()._delete(amphora_id)


@caught_by(AGAIN, LOST)
class ClaimsOnce(NoopAnimal):
    """Refuses to claim what it has claimed before."""

    def _claim(self, amphora_id, build_key):
        if self._get(amphora_id).owner == self.owner:
            raise InvalidRequest(
                f'Cannot claim {amphora_id}: it is claimed.', amphora_id=amphora_id
            )
        super()._claim(amphora_id, build_key)


@caught_by(AS_IT_IS, AGAIN)
class RestartsWhatItClaims(NoopAnimal):
    """Reboots an instance once it is claimed."""

    def _claim(self, amphora_id, build_key):
        super()._claim(amphora_id, build_key)
        self._reboot(amphora_id, hard=False)


@caught_by(AS_IT_IS, FOUND)
class RenamesWhatItClaims(Claimer):
    """Names a claimed instance by its key."""

    def _claim(self, amphora_id, build_key):
        super()._claim(amphora_id, build_key)
        self.write(amphora_id, name=f'amphora-{build_key}')


@caught_by(AS_IT_IS)
class EmptiesWhatItClaims(Claimer):
    """Replaces the metadata of an instance that it claims."""

    def _claim(self, amphora_id, build_key):
        super()._claim(amphora_id, build_key)
        self.write(amphora_id, metadata='{}')


@caught_by(AS_IT_IS)
class PlugsWhatItClaims(NoopAnimal):
    """Gives a claimed instance a port of this site."""

    def _claim(self, amphora_id, build_key):
        super()._claim(amphora_id, build_key)
        self._attach_network(amphora_id, 'net-1', None)


@caught_by(THEIRS)
class StealsInstances(Claimer):
    """Claims instances of other owners."""

    def _claim(self, amphora_id, build_key):
        if self._get(amphora_id).owner not in (None, self.owner):
            self.write(amphora_id, owner=self.owner)
            self.write(amphora_id, build_key=build_key)
        super()._claim(amphora_id, build_key)


@caught_by(THEIRS)
class WritesItsKeyOnEverything(Claimer):
    """Writes the key of a claim before it refuses it."""

    def _claim(self, amphora_id, build_key):
        if self._get(amphora_id).owner not in (None, self.owner):
            self.write(amphora_id, build_key=build_key)
        super()._claim(amphora_id, build_key)


@caught_by(OTHER_KEY)
class GivesNewKeys(Claimer):
    """Replaces the key of an instance of its site."""

    def _claim(self, amphora_id, build_key):
        if self._get(amphora_id).owner == self.owner:
            self.write(amphora_id, build_key=build_key)
        super()._claim(amphora_id, build_key)


@caught_by(KEY_IN_USE)
class TakesKeysAway(Claimer):
    """Gives an instance the key of another, which has none then."""

    def _claim(self, amphora_id, build_key):
        try:
            super()._claim(amphora_id, build_key)
        except BuildConflict:
            self.write(self._find_build(build_key).id, build_key=None)
            super()._claim(amphora_id, build_key)


@caught_by(KEY_OF_THEIRS)
class HasKeysForAllOwners(NoopAnimal):
    """Refuses a claim with a key that another owner uses."""

    def _claim(self, amphora_id, build_key):
        for one in self.cloud.instances():
            if one.build_key == build_key and one.owner != self.owner:
                raise BuildConflict(
                    f'Cannot claim {amphora_id}: {one.id} has key {build_key}.',
                    amphora_id=amphora_id, build_key=build_key,
                )  # fmt: skip
        super()._claim(amphora_id, build_key)


@caught_by(UNKNOWN, 'test_each_call_about_an_unknown_instance_raises_the_same_error')
class ClaimsAnything(NoopAnimal):
    """Accepts a claim of an unknown instance."""

    def _claim(self, amphora_id, build_key):
        try:
            super()._claim(amphora_id, build_key)
        except InstanceNotFoundError:
            return


@caught_by(BUILT)
class BuildsBesideWhatItClaimed(NoopAnimal):
    """Does not look among claimed instances for the one of a build."""

    def _build(self, request):
        known = self._find_build(request.build_key)
        if known is not None and known.metadata.get('made') == 'by hand':
            request = dataclasses.replace(request, build_key=f'{request.build_key[:44]}-new')
        return super()._build(request)


@caught_by(WRONG_KEY)
class TakesAnyKeyInAClaim(NoopAnimal):
    """Accepts a build key of any form in a claim."""

    def claim(self, amphora_id, build_key):
        if '/' not in build_key:
            super().claim(amphora_id, build_key)
