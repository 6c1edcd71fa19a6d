"""Behaviours of builds: one instance for each key, as requested."""

from __future__ import annotations

from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.hooks import ComputeHooks
from kiln.exceptions import BuildConflict, BuildDiffers, InstanceNotFoundError, Outcome
from kiln.testing.conformance.fixture import ConformanceFixture, takes


class Building(ConformanceFixture, contract=(AmphoraComputeDriver.build, ComputeHooks._build)):
    """Building."""

    def test_a_build_returns_the_id_of_the_new_instance(self) -> None:
        amphora_id = self.build()
        self.assertIsInstance(amphora_id, str)
        self.assertEqual(self.driver.get_amphora(amphora_id=amphora_id).id, amphora_id)

    def test_an_instance_is_there_as_soon_as_its_build_has_returned(self) -> None:
        self.assert_exists(self.build())

    def test_builds_with_distinct_keys_make_distinct_instances(self) -> None:
        self.assertNotEqual(self.build(), self.build())

    def test_builds_without_a_key_make_distinct_instances(self) -> None:
        self.assertNotEqual(self.build(build_key=None), self.build(build_key=None))

    def test_building_again_with_a_key_returns_the_first_instance(self) -> None:
        key = self.new_key()
        self.assertEqual(self.build(build_key=key), self.build(build_key=key))

    def test_building_again_with_a_key_makes_nothing_more(self) -> None:
        key = self.new_key()
        self.build(build_key=key, name=key)
        self.build(build_key=key, name=key)
        named = {one.id for one in self.driver.list_amphorae() if one.name == key}
        self.assertEqual(len(named), 1, f'the number of amphorae named {key}')

    def test_building_again_once_it_is_active_returns_the_first_instance(self) -> None:
        key = self.new_key()
        self.assertEqual(self.build_active(build_key=key), self.build(build_key=key))

    def test_a_key_that_built_something_else_is_refused(self) -> None:
        key, other = self.new_key(), self.new_key()
        first = self.described(build_key=key, name=key)
        with self.assertRaises(BuildDiffers) as caught:
            self.build(build_key=key, name=other)
        error = caught.exception
        self.assertEqual(error.amphora_id, first.id, 'amphora_id of the error')
        self.assertEqual(error.build_key, key, 'build_key of the error')
        self.assertIs(error.outcome, Outcome.NOT_APPLIED)
        for fact in (first.id, first.name, other):
            self.assertIn(fact, str(error), 'the text of the error')
        named = {one.name: one.id for one in self.driver.list_amphorae()}
        self.assertEqual(named.get(first.name), first.id, f'the amphora named {first.name}')
        self.assertNotIn(other, named, 'the list')

    @takes(metadata={'purpose': 'kit'})
    def test_building_again_with_other_metadata_returns_the_first_instance(self) -> None:
        key = self.new_key()
        first = self.build(build_key=key, metadata={'attempt': 'first'})
        self.assertEqual(self.build(build_key=key, metadata={'attempt': 'second'}), first)

    @takes(image_id='some')
    def test_building_again_with_an_image_returns_the_first_instance(self) -> None:
        if image_id := self.described().image_id:
            key = self.new_key()
            first = self.build(build_key=key, image_id=image_id)
            self.assertEqual(self.build(build_key=key, image_id=image_id), first)

    @takes(amphora_flavor='some')
    def test_building_again_with_a_flavor_returns_the_first_instance(self) -> None:
        if flavor := self.described().flavor:
            key = self.new_key()
            first = self.build(build_key=key, amphora_flavor=flavor)
            self.assertEqual(self.build(build_key=key, amphora_flavor=flavor), first)

    def test_the_key_of_a_deleted_instance_builds_a_new_one(self) -> None:
        key = self.new_key()
        first = self.build(build_key=key)
        self.driver.delete(first)
        self.gone(first)
        self.assertNotEqual(self.build(build_key=key), first)

    def test_the_build_key_is_kept_on_the_instance(self) -> None:
        key = self.new_key()
        self.assertEqual(self.described(build_key=key).build_key, key)

    def test_the_owner_is_kept_on_the_instance(self) -> None:
        self.assertEqual(self.described().owner, self.driver.owner)

    def test_the_name_is_kept_as_it_was_given(self) -> None:
        name = f'{self.new_key()}.a-name_of-Its-own'
        self.assertEqual(self.described(name=name).name, name)

    def test_a_name_of_the_greatest_length_is_kept_whole(self) -> None:
        name = self.new_key().ljust(self.driver.limits.max_name_length, 'x')
        self.assertEqual(self.described(name=name).name, name)

    def test_an_instance_that_was_given_no_name_has_one(self) -> None:
        self.assertTrue(self.described(name=None).name)

    def test_a_name_that_is_taken_is_used_again_or_refused(self) -> None:
        name = self.new_key()
        first = self.build(name=name)
        try:
            second = self.build(name=name)
        except BuildConflict:
            return
        self.assertNotEqual(first, second)

    @takes(metadata={'purpose': 'kit'})
    def test_metadata_is_kept_as_it_was_given(self) -> None:
        metadata = {'purpose': 'kit', 'with.dots-and_dashes': 'Some Words = 1, 2'}
        kept = self.described(metadata=metadata).metadata
        self.assertEqual({key: kept.get(key) for key in metadata}, metadata)

    @takes(metadata={'purpose': 'kit'})
    def test_metadata_of_one_instance_is_not_that_of_another(self) -> None:
        self.build(metadata={'only': 'here'})
        self.assertNotIn('only', self.described().metadata)

    def test_each_type_on_offer_is_built_as_what_it_is(self) -> None:
        for kind in sorted(self.driver.limits.amphora_types):
            self.assertIs(self.described(amphora_type=kind).amphora_type, kind)

    def test_a_type_can_be_given_as_a_plain_string(self) -> None:
        self.assertIs(self.described(amphora_type=self.kind().value).amphora_type, self.kind())

    def test_a_build_can_be_given_a_timeout(self) -> None:
        self.assert_exists(self.build(timeout=self.timeout_s))

    def test_a_key_that_another_owner_used_is_free(self) -> None:
        key = self.new_key()
        theirs = self.build_for_other(build_key=key, name=self.new_key())
        self.assertNotEqual(theirs, self.build(build_key=key))

    def test_an_id_is_not_used_again(self) -> None:
        first = self.build()
        self.driver.delete(first)
        self.gone(first)
        self.assertNotIn(first, [self.build() for _ in range(3)])
        with self.assertRaises(InstanceNotFoundError):
            self.driver.get_amphora(amphora_id=first)
