"""Behaviours of changes since a cursor."""

from __future__ import annotations

from collections.abc import Collection

from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.models import ComputeStatus, State
from kiln.testing.conformance.fixture import ConformanceFixture
from kiln.testing.conformance.wording import in_words


class Watching(
    ConformanceFixture,
    contract=(AmphoraComputeDriver.changes, AmphoraComputeDriver.reached),
):
    """Watching."""

    def test_the_empty_cursor_returns_every_instance(self) -> None:
        built = {self.build() for _ in range(2)}
        changes = self.driver.changes()
        self.assertTrue(changes.complete, 'the changes of the empty cursor are complete')
        self.assertLessEqual(built, {status.amphora_id for status in changes.statuses})

    def test_a_cursor_that_the_driver_did_not_make_returns_every_instance(self) -> None:
        built = {self.build() for _ in range(2)}
        for foreign in (self.new_key(), '1'):
            changes = self.driver.changes(foreign)
            self.assertTrue(changes.complete, f'the changes of the cursor {foreign} are complete')
            self.assertLessEqual(built, {status.amphora_id for status in changes.statuses})
            # And a caller can follow from there.
            built.add(self.build())
            self.assertIsInstance(self.driver.changes(changes.cursor).cursor, str)

    def test_changes_include_an_instance_built_since(self) -> None:
        cursor = self.driver.changes().cursor
        self.assert_it_comes_to_tell(self.build(), cursor)

    def test_a_current_cursor_covers_later_builds(self) -> None:
        if cursor := self.driver.cursor():
            self.assert_it_comes_to_tell(self.build(), cursor)

    def test_changes_include_the_state_an_instance_has_reached(self) -> None:
        amphora_id = self.build()
        before = self.driver.changes()
        state = self.settle(amphora_id).state
        told = {status.amphora_id: status.state for status in before.statuses}
        told |= {id_: status.state for id_, status in self.told(before.cursor).items()}
        self.assertEqual(told.get(amphora_id, state), state)

    def test_changes_include_an_instance_deleted_since(self) -> None:
        amphora_id = self.build()
        cursor = self.driver.changes().cursor
        self.driver.delete(amphora_id)
        told: list[ComputeStatus] = []

        def so() -> bool:
            changes = self.driver.changes(cursor)
            told[:] = [one for one in changes.statuses if one.amphora_id == amphora_id]
            return amphora_id in changes.gone or (
                changes.complete if not told else State.DELETED in {one.state for one in told}
            )

        self.eventually(
            so,
            'changes report a deleted instance, or complete changes leave it out',
            lambda: in_words(told),
        )

    def test_changes_of_several_instances_are_returned_together(self) -> None:
        deleted = self.build()
        cursor = self.driver.changes().cursor
        self.driver.delete(deleted)
        built = {self.build(), self.build()}
        for amphora_id in built:
            self.settle(amphora_id)
        self.assertLessEqual(built, set(self.told(cursor)))

    def test_an_old_cursor_returns_its_changes_again(self) -> None:
        cursor = self.driver.changes().cursor
        amphora_id = self.build()
        for _ in range(2):
            # Not at once; assert_it_comes_to_tell() explains why.
            self.becomes(lambda: self.told(cursor), lambda told: amphora_id in told)

    def test_changes_never_report_a_living_instance_as_gone(self) -> None:
        cursor = self.driver.changes().cursor
        built = {self.build(), self.build()}
        self.assertEqual(built & set(self.driver.changes(cursor).gone), set())

    def test_changes_leave_out_instances_of_another_owner(self) -> None:
        cursor = self.driver.changes().cursor
        self.assertNotIn(self.build_for_other(), self.told(cursor))

    def test_reached_lists_instances_that_reached_a_state_since_a_cursor(self) -> None:
        cursor = self.driver.cursor()
        # Only drivers with a current cursor support reached().
        if not cursor or self.driver.reached(State.ACTIVE, cursor) is None:
            return
        known, foreign = self.build(), self.build_for_other()
        state = self.settle(known).state
        for asked in (State.ACTIVE, State.ERROR):
            told: Collection[str] | None = self.driver.reached(asked, cursor)
            if told is None:
                # None: the driver cannot answer now, as it has just started; then changes() must.
                told = [one for one, status in self.told(cursor).items() if status.state is asked]
            self.assertEqual(
                known in told, asked is state, f'amphora {known} is among those in {asked.value}'
            )
            self.assertNotIn(foreign, told)

    def test_each_result_has_a_usable_cursor(self) -> None:
        cursor = ''
        for _ in range(3):
            self.build()
            cursor = self.driver.changes(cursor).cursor
            self.assertIsInstance(cursor, str)

    def assert_it_comes_to_tell(self, amphora_id: str, cursor: str) -> None:
        """Fail unless a caller that follows the cursors sees that a build is done.

        A backend that hands a build over between its parts can miss the instance for a
        moment. Then a later result has it, and no cursor skips it.
        """
        told: list[ComputeStatus] = []

        def so() -> bool:
            nonlocal cursor
            changes = self.driver.changes(cursor)
            cursor = changes.cursor
            told.extend(one for one in changes.statuses if one.amphora_id == amphora_id)
            return State.ACTIVE in {one.state for one in told}

        self.eventually(
            so,
            'a caller that follows the cursors sees that a build is done',
            # The last status returned; results without changes have none.
            lambda: in_words(told[-1:]),
        )

    def told(self, cursor: str) -> dict[str, ComputeStatus]:
        """Return the statuses of the changes, by id."""
        return {status.amphora_id: status for status in self.driver.changes(cursor).statuses}
