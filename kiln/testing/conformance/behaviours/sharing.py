"""Behaviours of several drivers and several sites on one backend."""

from __future__ import annotations

from collections.abc import Callable

from kiln.compute_drivers import hooks
from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.hooks import ComputeHooks
from kiln.exceptions import BuildConflict, BuildDiffers, InstanceNotFoundError
from kiln.models import Ability, Amphora, State
from kiln.testing.conformance.fixture import ConformanceFixture, is_gone, needs, takes
from kiln.testing.conformance.sweep import owner_in_other_case

#: Facts of an instance that nothing changes but a call about that instance.
_LASTING = ('id', 'name', 'build_key', 'owner', 'metadata', 'state', 'task_state')


class Sharing(ConformanceFixture, contract=(hooks, ComputeHooks._find_build)):
    """Several drivers on one backend."""

    def test_another_driver_describes_an_instance_alike(self) -> None:
        amphora_id = self.build_active()
        other = self.another(amphora_id)
        self.assertEqual(
            other.get_amphora(amphora_id=amphora_id),
            self.driver.get_amphora(amphora_id=amphora_id),
        )

    def test_another_driver_lists_what_one_has_built(self) -> None:
        amphora_id = self.build()
        other = self.another(amphora_id)
        self.assertIn(amphora_id, {one.id for one in other.list_amphorae()})
        self.assertIn(amphora_id, {one.amphora_id for one in other.changes().statuses})
        self.assertIn(amphora_id, other.statuses([amphora_id]))

    def test_another_driver_finds_what_one_has_built_by_name_and_key(self) -> None:
        name, key = self.new_key(), self.new_key()
        amphora_id = self.build(name=name, build_key=key)
        other = self.another(amphora_id)
        self.assertEqual(other.get_amphora(name).id, amphora_id)
        found = other.find_build(key)
        self.assertEqual(found and found.id, amphora_id, 'the id of what find_build() returns')

    def test_building_again_in_another_driver_returns_the_first_instance(self) -> None:
        key = self.new_key()
        amphora_id = self.build(build_key=key)
        other = self.another(amphora_id)
        self.assertEqual(other.build(**self.arguments(build_key=key)), amphora_id)
        built = [one.id for one in self.driver.list_amphorae() if one.build_key == key]
        self.assertEqual(built, [amphora_id])

    def test_a_key_that_built_something_else_is_refused_in_another_driver(self) -> None:
        key = self.new_key()
        other = self.another(self.build(build_key=key))
        with self.assertRaises(BuildDiffers):
            self._made.append(other.build(**self.arguments(build_key=key, name=self.new_key())))

    @takes(image_id='some')
    def test_building_again_once_the_name_of_the_image_has_moved_returns_the_first_instance(
        self,
    ) -> None:
        if not self.images:
            raise CannotBeShown('the bench names no images')
        first, last = self.images[0].id, self.images[-1].id
        name, key = self.new_key(), self.new_key()
        self.addCleanup(self.bench.name_image, name, None)
        self.bench.name_image(name, first)
        amphora_id = self.build_active(build_key=key, image_id=name)
        # It knows nothing of what the name stood for before.
        other = self.another(amphora_id)
        for image_id in (last, None):
            self.bench.name_image(name, image_id)
            for driver in (self.driver, other):
                again = driver.build(**self.arguments(build_key=key, image_id=name))
                self._made.append(again)
                self.assertEqual(again, amphora_id, f'the id, with a name for {image_id}')

    def test_a_delete_in_another_driver_is_seen_by_the_first(self) -> None:
        key = self.new_key()
        amphora_id = self.build_active(build_key=key)
        self.another(amphora_id).delete(amphora_id)
        self.gone(amphora_id, 'an instance that another driver deleted is gone')
        self.vanishes(lambda: self.driver.find_build(key))
        self.assertNotEqual(self.build(build_key=key), amphora_id)

    @needs(Ability.SUSPEND)
    def test_an_action_in_another_driver_is_seen_by_the_first(self) -> None:
        amphora_id = self.build_active()
        self.another(amphora_id).suspend(amphora_id)
        self.settle(amphora_id, State.SUSPENDED)

    def test_changes_miss_nothing_that_another_driver_has_done(self) -> None:
        cursor = self.driver.changes().cursor
        first = self.build()
        other = self.another(first)
        built = other.build(**self.arguments())
        self._made.append(built)
        told: set[str] = set()

        def look() -> set[str]:
            nonlocal cursor
            changes = self.driver.changes(cursor)
            cursor = changes.cursor
            told.update(one.amphora_id for one in changes.statuses)
            return told

        self.becomes(look, {first, built}.issubset)

    def test_a_driver_opened_after_another_was_closed_sees_what_that_has_built(self) -> None:
        key, name = self.new_key(), self.new_key()
        amphora_id = self.build_active(build_key=key, name=name)
        self.driver.close()
        # The cleanup of this behaviour uses it, and closes it last.
        self.driver = self._another(amphora_id)
        self.assertEqual(self.driver.get_amphora(name).id, amphora_id)
        self.assertIn(amphora_id, {one.id for one in self.driver.list_amphorae()}, 'the list')
        self.assertEqual(self.build(build_key=key, name=name), amphora_id)

    def another(self, amphora_id: str) -> AmphoraComputeDriver:
        """Return another driver of the backend, on which an instance was just built."""
        other = self._another(amphora_id)
        self.addCleanup(other.close)
        return other

    def _another(self, amphora_id: str) -> AmphoraComputeDriver:
        if self.one_backend:
            return self.make_driver()
        try:
            other: AmphoraComputeDriver = self.bench.another_driver()
        except CannotBeShown:
            other = self.make_driver()
            try:
                other.get_amphora(amphora_id=amphora_id)
            except InstanceNotFoundError as exc:
                other.close()
                raise CannotBeShown(
                    'each driver of make_driver() has a backend of its own, and the bench has '
                    'no another_driver()'
                ) from exc
        return other


class Strangers(ConformanceFixture, contract=(hooks, ComputeHooks._list)):
    """Instances of others."""

    def test_deleting_an_instance_leaves_its_namesake(self) -> None:
        name = self.new_key()
        stays = self.build_active(name=name)
        try:
            goes = self.build_active(name=name)
        except BuildConflict:
            # This backend has no namesakes.
            return
        self.driver.delete(goes)
        self.gone(goes)
        self.assert_exists(stays)

    def test_deleting_an_instance_leaves_that_of_another_owner(self) -> None:
        theirs, ours = self.theirs_and_ours()
        self.driver.delete(ours)
        self.gone(ours)
        self.driver.delete(ours)
        self.assert_untouched(theirs)

    def test_building_again_leaves_the_instance_of_another_owner(self) -> None:
        theirs, ours = self.theirs_and_ours()
        mine = self.driver.get_amphora(amphora_id=ours)
        again = self.build(build_key=mine.build_key, name=mine.name)
        self.assertEqual(again, ours)
        self.assert_untouched(theirs)

    @needs(Ability.SUSPEND)
    def test_suspending_an_instance_leaves_that_of_another_owner(self) -> None:
        self.acts_on_ours(self.driver.suspend, State.SUSPENDED)

    @needs(Ability.REBOOT)
    def test_rebooting_an_instance_leaves_that_of_another_owner(self) -> None:
        self.acts_on_ours(self.driver.reboot)

    @needs(Ability.REBUILD)
    def test_rebuilding_an_instance_leaves_that_of_another_owner(self) -> None:
        self.acts_on_ours(self.driver.rebuild)

    def test_owners_and_keys_that_differ_only_in_capitals_are_different(self) -> None:
        key = self.new_key()
        owners = dict.fromkeys((self.driver.owner, owner_in_other_case(self.driver.owner)))
        names = {(owner, f'{key}-{end}'): self.new_key() for owner in owners for end in 'aA'}

        def build() -> dict[tuple[str, str], str]:
            built = {}
            for asked, name in names.items():
                with self.as_owner(asked[0]):
                    built[asked] = self.build(build_key=asked[1], name=name)
            return built

        built = build()
        self.assertEqual(len(set(built.values())), len(names), 'the number of amphorae built')
        self.assertEqual(build(), built, 'each, built again')
        for owner in owners:
            own = {asked: one for asked, one in built.items() if asked[0] == owner}
            with self.as_owner(owner):
                listed = {
                    (str(one.owner), str(one.build_key)): one.id
                    for one in self.driver.list_amphorae()
                    if one.id in built.values()
                }
                by_key = {asked: self.driver.find_build(asked[1]) for asked in own}
                told = {one.amphora_id for one in self.driver.changes().statuses}
            self.assertEqual(listed, own, f'what the list of {owner} has')
            found = {asked: one and one.id for asked, one in by_key.items()}
            self.assertEqual(found, own, f'what {owner} finds by key')
            self.assertEqual(told & {*built.values()}, {*own.values()}, f'changes of {owner}')

    @needs(Ability.LIST_RESOURCES, Ability.CREATE_SERVER_GROUP)
    def test_a_server_group_is_not_listed_among_the_resources_of_another_owner(self) -> None:
        name = self.new_key()
        groups = {}
        for owner in (self.driver.owner, self.other_owner):
            with self.as_owner(owner):
                groups[owner] = self.new_group(name).id
        for owner, group_id in groups.items():
            with self.as_owner(owner):
                listed = {one.id for one in self.driver.list_resources()}
            strange = {*groups.values()} - {group_id}
            self.assertEqual(listed & strange, set(), f'groups of others in the list of {owner}')

    def test_a_name_or_a_key_is_not_taken_for_an_id(self) -> None:
        name, key = self.new_key(), self.new_key()
        amphora_id = self.build_active(name=name, build_key=key)
        for word in (name, key):
            for look in (self.driver.status, lambda one: self.driver.get_amphora(None, one)):
                with self.assertRaises(InstanceNotFoundError):
                    look(word)
            self.assertFalse(self.driver.statuses([word]))
            self.driver.delete(word)
        self.pass_time(0.1)
        self.assertIs(self.driver.status(amphora_id).state, State.ACTIVE)

    def test_the_id_of_another_owners_instance_is_accepted(self) -> None:
        theirs = self.build_for_other()
        self.settle(theirs)
        self.assertEqual(self.driver.get_amphora(amphora_id=theirs).owner, self.other_owner)
        self.assertEqual(set(self.driver.statuses([theirs])), {theirs})
        self.driver.delete(theirs)
        self.becomes(lambda: self.seen(theirs), is_gone)

    def theirs_and_ours(self) -> tuple[Amphora, str]:
        """Build for another owner, and for this site with the same name and key."""
        key = self.new_key()
        theirs = self.build_for_other(build_key=key, name=key)
        self.settle(theirs)
        try:
            ours = self.build_active(build_key=key, name=key)
        except BuildConflict:
            # On a backend with unique names only the key can be the same.
            ours = self.build_active(build_key=key, name=self.new_key())
        return self.driver.get_amphora(amphora_id=theirs), ours

    def acts_on_ours(self, act: Callable[[str], None], state: State = State.ACTIVE) -> None:
        """Act on the instance of this site, and check that of the other owner."""
        theirs, ours = self.theirs_and_ours()
        act(ours)
        self.assert_untouched(theirs)
        self.settle(ours, state)
        self.assert_untouched(theirs)

    def assert_untouched(self, before: Amphora) -> None:
        """Fail unless an instance of another owner is as it was, and is not among ours."""
        self.assertNotIn(before.id, {one.id for one in self.driver.list_amphorae()}, 'our list')
        told = {one.amphora_id for one in self.driver.changes().statuses}
        self.assertNotIn(before.id, told, 'our changes')
        listed = {one.id: one for one in self.driver.list_amphorae(owner=before.owner)}
        self.assertIn(before.id, listed, 'the amphorae of the other owner')
        after = listed[before.id]
        for fact in _LASTING:
            self.assertEqual(
                getattr(after, fact),
                getattr(before, fact),
                f'{fact} of theirs',
            )
