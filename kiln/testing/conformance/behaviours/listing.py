"""What asking for many instances at once promises."""

from __future__ import annotations

from kiln.testing.conformance.fixture import ConformanceFixture


class Listing(ConformanceFixture):
    """Listing."""

    def test_a_list_has_every_instance_of_this_site(self) -> None:
        built = {self.build() for _ in range(5)}
        self.assertLessEqual(built, set(self.listed()))

    def test_a_list_has_each_instance_once(self) -> None:
        built = [self.build() for _ in range(3)]
        listed = self.listed()
        self.assertEqual([listed.count(amphora_id) for amphora_id in built], [1, 1, 1])

    def test_a_list_leaves_out_what_another_owner_has(self) -> None:
        self.assertNotIn(self.build_for_other(), self.listed())

    def test_a_list_of_another_owner_has_what_is_its(self) -> None:
        # What an earlier behaviour deleted may be on its way out yet.
        before = self.listed(self.other_owner)
        built = self.build_for_other()
        self.assertEqual(set(self.listed(self.other_owner)) - set(before), {built})

    def test_a_list_of_another_owner_leaves_out_what_this_site_has(self) -> None:
        built = self.build()
        self.assertNotIn(built, self.listed(self.other_owner))

    def test_a_list_of_an_owner_without_instances_is_empty(self) -> None:
        self.build()
        self.assertEqual(self.listed(f'{self.prefix}-nobody'), [])

    def test_a_list_has_only_what_has_its_owner(self) -> None:
        self.build()
        owners = {amphora.owner for amphora in self.driver.list_amphorae()}
        self.assertEqual(owners, {self.driver.owner})

    def test_an_instance_that_still_builds_is_listed(self) -> None:
        amphora_id = self.build()
        self.assertIn(amphora_id, self.listed())

    def test_statuses_tell_of_every_instance_asked_for(self) -> None:
        built = {self.build() for _ in range(3)}
        self.assertLessEqual(built, set(self.driver.statuses(built)))

    def test_statuses_tell_of_nothing_that_was_not_asked_for(self) -> None:
        asked, other = self.build(), self.build()
        self.assertNotIn(other, self.driver.statuses([asked]))

    def test_statuses_leave_out_what_does_not_exist(self) -> None:
        built, unknown = self.build(), self.unknown_id()
        self.assertNotIn(unknown, self.driver.statuses([built, unknown]))

    def test_statuses_of_nothing_that_exists_are_empty(self) -> None:
        self.assertFalse(self.driver.statuses([self.unknown_id(), self.unknown_id()]))

    def test_statuses_of_nothing_are_empty(self) -> None:
        self.build()
        self.assertFalse(self.driver.statuses([]))

    def test_statuses_bear_the_id_they_are_filed_under(self) -> None:
        statuses = self.driver.statuses([self.build(), self.build()])
        for amphora_id, status in statuses.items():
            self.assertEqual(status.amphora_id, amphora_id)

    def test_statuses_say_what_a_status_says(self) -> None:
        amphora_id = self.build_active()
        alone = self.driver.status(amphora_id)
        together = self.driver.statuses([amphora_id]).get(amphora_id, alone)
        self.assertEqual(together.state, alone.state)

    def test_statuses_tell_of_an_instance_asked_for_twice(self) -> None:
        amphora_id = self.build()
        self.assertEqual(list(self.driver.statuses([amphora_id, amphora_id])), [amphora_id])

    def listed(self, owner: str | None = None) -> list[str]:
        """Return the ids in a list."""
        return [amphora.id for amphora in self.driver.list_amphorae(owner=owner)]
