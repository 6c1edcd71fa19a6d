"""Behaviours of claims: a machine that belongs to nobody becomes one of this site's."""

from __future__ import annotations

import dataclasses

from kiln.compute_drivers.calls import Call
from kiln.exceptions import (
    AmphoraComputeError,
    BuildConflict,
    InstanceNotFoundError,
    InvalidRequest,
    Outcome,
)
from kiln.models import Ability, Amphora
from kiln.testing.conformance.failing import FaultFixture
from kiln.testing.conformance.fixture import ConformanceFixture, needs

#: Facts that a claim does not change; the others are the owner, the key, and what kiln reads
#: out of the backend's answer as it is.
_KEPT = tuple(
    field.name
    for field in dataclasses.fields(Amphora)
    if field.name not in {'owner', 'build_key', 'raw'}
)
#: Seconds in which an act that a claim must not start becomes visible.
_VISIBLE_S = 0.1


class Claiming(ConformanceFixture):
    """Claims."""

    @needs(Ability.CLAIM)
    def test_a_claimed_instance_is_listed_with_its_owner_and_its_key(self) -> None:
        unowned, key = self.unowned(), self.new_key()
        self.assertIsNone(unowned.owner, 'the owner of a machine of nobody')
        self.assertNotIn(unowned.id, self.ids_listed(), 'the list before the claim')
        self.driver.claim(unowned.id, key)
        has = {one.id: (one.owner, one.build_key) for one in self.driver.list_amphorae()}
        self.assertEqual(has.get(unowned.id), (self.driver.owner, key), 'owner and key')
        told = {one.amphora_id for one in self.driver.changes().statuses}
        self.assertIn(unowned.id, told, 'all changes')

    @needs(Ability.CLAIM)
    def test_a_claimed_instance_is_found_by_its_key_and_by_its_name(self) -> None:
        unowned, key = self.unowned(), self.new_key()
        self.assertIsNone(self.driver.find_build(key), 'what the key finds before the claim')
        self.driver.claim(unowned.id, key)
        found = self.driver.find_build(key)
        self.assertEqual(found and found.id, unowned.id, 'the id of what find_build() returns')
        self.assertEqual(self.driver.get_amphora(unowned.name).id, unowned.id)

    @needs(Ability.CLAIM)
    def test_a_build_with_the_key_of_a_claimed_instance_returns_it(self) -> None:
        unowned, key = self.unowned(), self.new_key()
        self.driver.claim(unowned.id, key)
        facts = {'amphora_flavor': unowned.flavor, 'image_id': unowned.image_id}
        same = self.taken(**{name: value for name, value in facts.items() if value})
        kind = unowned.amphora_type
        built = self.build(build_key=key, name=unowned.name, amphora_type=kind, **same)
        self.assertEqual(built, unowned.id, 'the id of a build with the key')

    @needs(Ability.CLAIM)
    def test_a_claimed_instance_can_be_deleted(self) -> None:
        unowned, key = self.unowned(), self.new_key()
        self.driver.claim(unowned.id, key)
        self.driver.delete(unowned.id)
        self.gone(unowned.id)
        self.vanishes(lambda: self.driver.find_build(key))

    @needs(Ability.CLAIM)
    def test_claiming_again_with_the_same_key_is_a_success(self) -> None:
        unowned, key = self.unowned(), self.new_key()
        self.driver.claim(unowned.id, key)
        self.driver.claim(unowned.id, key)
        self.assert_has(unowned.id, self.driver.owner, key)

    @needs(Ability.CLAIM)
    def test_a_claim_leaves_the_instance_itself_as_it_is(self) -> None:
        before = self.unowned()
        self.driver.claim(before.id, self.new_key())
        for _ in range(2):
            after = self.driver.get_amphora(amphora_id=before.id)
            for fact in _KEPT:
                self.assertEqual(getattr(after, fact), getattr(before, fact), fact)
            self.pass_time(_VISIBLE_S)

    @needs(Ability.CLAIM)
    def test_an_instance_of_another_owner_is_not_claimed(self) -> None:
        theirs = self.build_for_other()
        self.settle(theirs)
        before = self.driver.get_amphora(amphora_id=theirs)
        self.refused(InvalidRequest, theirs, self.new_key())
        self.assert_has(theirs, self.other_owner, before.build_key)
        self.assertNotIn(theirs, self.ids_listed(), 'the list of this site')

    @needs(Ability.CLAIM)
    def test_an_instance_of_this_site_is_not_claimed_with_another_key(self) -> None:
        key, other = self.new_key(), self.new_key()
        amphora_id = self.build_active(build_key=key)
        self.refused(InvalidRequest, amphora_id, other)
        self.assert_has(amphora_id, self.driver.owner, key)
        self.assertIsNone(self.driver.find_build(other), 'what the other key finds')

    @needs(Ability.CLAIM)
    def test_no_instance_is_claimed_with_the_key_of_another(self) -> None:
        unowned, key = self.unowned(), self.new_key()
        user = self.build_active(build_key=key)
        self.refused(BuildConflict, unowned.id, key)
        self.assert_has(unowned.id, None, None)
        found = self.driver.find_build(key)
        self.assertEqual(found and found.id, user, 'the id of what find_build() returns')

    @needs(Ability.CLAIM)
    def test_an_instance_is_claimed_with_a_key_that_another_owner_uses(self) -> None:
        unowned, key = self.unowned(), self.new_key()
        theirs = self.build_for_other(build_key=key)
        self.settle(theirs)
        self.driver.claim(unowned.id, key)
        self.assert_has(unowned.id, self.driver.owner, key)
        self.assert_has(theirs, self.other_owner, key)

    @needs(Ability.CLAIM)
    def test_a_claim_of_an_unknown_instance_is_not_found(self) -> None:
        with self.assertRaises(InstanceNotFoundError):
            self.driver.claim(self.unknown_id(), self.new_key())

    @needs(Ability.CLAIM)
    def test_a_build_key_of_the_wrong_form_is_refused_in_a_claim(self) -> None:
        for key in ('', 'a/b', 'a,b', 'k' * 49):
            with self.assertRaises(InvalidRequest, msg=f'claim() with {key!r}'):
                self.driver.claim(self.unknown_id(), key)

    def ids_listed(self) -> set[str]:
        """Return the ids in the list of this site."""
        return {one.id for one in self.driver.list_amphorae()}

    def assert_has(self, amphora_id: str, owner: str | None, key: str | None) -> None:
        """Fail unless an instance has this owner and this key."""
        amphora = self.driver.get_amphora(amphora_id=amphora_id)
        self.assertEqual(amphora.owner, owner, 'owner')
        self.assertEqual(amphora.build_key, key, 'build_key')

    def refused(self, kind: type[AmphoraComputeError], amphora_id: str, key: str) -> None:
        """Fail unless a claim is refused for ever, and its error says so."""
        with self.assertRaises(kind, msg='claim()') as caught:
            self.driver.claim(amphora_id, key)
        error = caught.exception
        self.assertEqual(error.amphora_id, amphora_id, 'amphora_id of the error')
        self.assertIs(error.outcome, Outcome.NOT_APPLIED, 'outcome of the error')
        self.assert_retryable(error, 'claim()', retryable=False)


class LostClaims(FaultFixture):
    """Claims under faults."""

    @needs(Ability.CLAIM)
    def test_a_claim_whose_answer_was_lost_can_be_repeated(self) -> None:
        unowned, key = self.unowned(), self.new_key()
        self.lose_answer(Call.CLAIM)
        self.error_in(lambda: self.driver.claim(unowned.id, key))
        self.assertIn(
            self.driver.get_amphora(amphora_id=unowned.id).owner, (None, self.driver.owner)
        )
        self.driver.claim(unowned.id, key)
        found = self.driver.find_build(key)
        self.assertEqual(found and found.id, unowned.id, 'the id of what find_build() returns')
