"""Behaviours of lists and of statuses of many instances."""

from __future__ import annotations

from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.testing.conformance.fixture import ConformanceFixture


class Listing(
    ConformanceFixture,
    contract=(AmphoraComputeDriver.list_amphorae, AmphoraComputeDriver.statuses),
):
    """Listing."""

    def test_a_list_has_every_instance_of_this_site(self) -> None:
        built = {self.build() for _ in range(5)}
        self.assertLessEqual(built, set(self.listed()))

    def test_a_list_has_each_instance_once(self) -> None:
        built = [self.build() for _ in range(3)]
        listed = self.listed()
        times = {amphora_id: listed.count(amphora_id) for amphora_id in built}
        self.assertEqual(times, dict.fromkeys(built, 1), 'how often the list has each')

    def test_a_list_leaves_out_instances_of_another_owner(self) -> None:
        self.assertNotIn(self.build_for_other(), self.listed())

    def test_a_list_of_another_owner_has_its_instances(self) -> None:
        # Instances that an earlier behaviour deleted might still be shutting down.
        before = self.listed(self.other_owner)
        built = self.build_for_other()
        self.assertEqual(set(self.listed(self.other_owner)) - set(before), {built})

    def test_a_list_of_another_owner_leaves_out_instances_of_this_site(self) -> None:
        built = self.build()
        self.assertNotIn(built, self.listed(self.other_owner))

    def test_a_list_of_an_owner_without_instances_is_empty(self) -> None:
        self.build()
        self.assertEqual(self.listed(f'{self.prefix}-nobody'), [])

    def test_a_list_has_only_instances_of_its_owner(self) -> None:
        self.build()
        owners = {amphora.owner for amphora in self.driver.list_amphorae()}
        self.assertEqual(owners, {self.driver.owner})

    def test_an_instance_that_still_builds_is_listed(self) -> None:
        amphora_id = self.build()
        self.assertIn(amphora_id, self.listed())

    def test_statuses_include_every_requested_instance(self) -> None:
        built = {self.build() for _ in range(3)}
        self.assertLessEqual(built, set(self.driver.statuses(built)))

    def test_statuses_include_only_requested_instances(self) -> None:
        asked, other = self.build(), self.build()
        self.assertNotIn(other, self.driver.statuses([asked]))

    def test_statuses_leave_out_unknown_instances(self) -> None:
        built, unknown = self.build(), self.unknown_id()
        self.assertNotIn(unknown, self.driver.statuses([built, unknown]))

    def test_statuses_of_unknown_instances_are_empty(self) -> None:
        self.assertEqual(self.driver.statuses([self.unknown_id(), self.unknown_id()]), {})

    def test_statuses_of_nothing_are_empty(self) -> None:
        self.build()
        self.assertFalse(self.driver.statuses([]))

    def test_statuses_are_keyed_by_their_id(self) -> None:
        statuses = self.driver.statuses([self.build(), self.build()])
        for amphora_id, status in statuses.items():
            self.assertEqual(status.amphora_id, amphora_id)

    def test_statuses_agree_with_a_single_status(self) -> None:
        amphora_id = self.build_active()
        alone = self.driver.status(amphora_id)
        together = self.driver.statuses([amphora_id]).get(amphora_id, alone)
        self.assertEqual(together.state, alone.state)

    def test_statuses_include_an_instance_requested_twice(self) -> None:
        amphora_id = self.build()
        self.assertEqual(list(self.driver.statuses([amphora_id, amphora_id])), [amphora_id])

    def listed(self, owner: str | None = None) -> list[str]:
        """Return the ids in a list."""
        return [amphora.id for amphora in self.driver.list_amphorae(owner=owner)]
