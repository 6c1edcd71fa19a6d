"""What the changes since a cursor promise."""

from __future__ import annotations

from collections.abc import Collection

from kiln.models import ComputeStatus, State
from kiln.testing.conformance.fixture import ConformanceFixture
from kiln.testing.conformance.wording import in_words


class Watching(ConformanceFixture):
    """Watching."""

    def test_the_empty_cursor_tells_of_every_instance(self) -> None:
        built = {self.build() for _ in range(2)}
        changes = self.driver.changes()
        self.assertTrue(changes.complete, 'an answer to the empty cursor must be complete')
        self.assertLessEqual(built, {status.amphora_id for status in changes.statuses})

    def test_changes_tell_of_an_instance_that_was_built_since(self) -> None:
        cursor = self.driver.changes().cursor
        self.assert_it_comes_to_tell(self.build(), cursor)

    def test_a_cursor_that_is_at_hand_tells_of_what_is_built_from_then_on(self) -> None:
        if cursor := self.driver.cursor():
            self.assert_it_comes_to_tell(self.build(), cursor)

    def test_changes_tell_of_the_state_that_an_instance_has_reached(self) -> None:
        amphora_id = self.build()
        before = self.driver.changes()
        state = self.settle(amphora_id).state
        told = {status.amphora_id: status.state for status in before.statuses}
        told |= {id_: status.state for id_, status in self.told(before.cursor).items()}
        self.assertEqual(told.get(amphora_id, state), state)

    def test_changes_tell_of_an_instance_that_was_deleted_since(self) -> None:
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
            'changes tell of a deleted instance, or leave it out of a complete answer',
            lambda: in_words(told),
        )

    def test_changes_of_one_instance_are_told_beside_those_of_another(self) -> None:
        deleted = self.build()
        cursor = self.driver.changes().cursor
        self.driver.delete(deleted)
        built = {self.build(), self.build()}
        for amphora_id in built:
            self.settle(amphora_id)
        self.assertLessEqual(built, set(self.told(cursor)))

    def test_changes_are_told_again_to_who_asks_with_an_old_cursor(self) -> None:
        cursor = self.driver.changes().cursor
        amphora_id = self.build()
        for _ in range(2):
            # Not at once: assert_it_comes_to_tell() says why.
            self.becomes(
                lambda: self.told(cursor),
                lambda told: amphora_id in told,
                'what was told is told again to who asks with the same cursor',
            )

    def test_changes_never_tell_that_a_living_instance_is_gone(self) -> None:
        cursor = self.driver.changes().cursor
        built = {self.build(), self.build()}
        self.assertFalse(built & set(self.driver.changes(cursor).gone))

    def test_changes_leave_out_what_another_owner_has(self) -> None:
        cursor = self.driver.changes().cursor
        self.assertNotIn(self.build_for_other(), self.told(cursor))

    def test_those_who_reached_a_state_since_a_cursor_are_told_in_short(self) -> None:
        cursor = self.driver.cursor()
        # Only with a cursor at hand is anybody asked so.
        if not cursor or self.driver.reached(State.ACTIVE, cursor) is None:
            return
        known, foreign = self.build(), self.build_for_other()
        state = self.settle(known).state
        for asked in (State.ACTIVE, State.ERROR):
            told: Collection[str] | None = self.driver.reached(asked, cursor)
            if told is None:
                # It cannot now, as one that has begun to listen: then changes() has to tell.
                told = [one for one, status in self.told(cursor).items() if status.state is asked]
            self.assertEqual(asked is state, known in told, asked)
            self.assertNotIn(foreign, told)

    def test_each_answer_has_a_cursor_that_can_be_asked_with(self) -> None:
        cursor = ''
        for _ in range(3):
            self.build()
            cursor = self.driver.changes(cursor).cursor
            self.assertIsInstance(cursor, str)

    def assert_it_comes_to_tell(self, amphora_id: str, cursor: str) -> None:
        """Fail unless who goes on from answer to answer learns that a build is done.

        A backend that hands a build over to another part of itself may lose sight of it
        for a moment. Then one of the next answers has it, and no cursor passes it by.
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
            'who goes on from answer to answer learns that a build is done',
            # The last that was told: an answer without news is silent.
            lambda: in_words(told[-1:]),
        )

    def told(self, cursor: str) -> dict[str, ComputeStatus]:
        """Return the statuses that changes tell, by id."""
        return {status.amphora_id: status for status in self.driver.changes(cursor).statuses}
