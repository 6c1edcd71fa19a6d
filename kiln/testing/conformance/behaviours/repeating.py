"""Behaviours of repeated, cancelled and late builds behind kiln's guards.

An instance that was ever reported ACTIVE disappears only on an explicit delete, and a
failed build leaves no orphaned instance.
"""

from __future__ import annotations

from typing import Any

from kiln.compute_drivers.calls import Call
from kiln.compute_drivers.hooks import ComputeHooks
from kiln.exceptions import BuildNotRunning
from kiln.models import Ability, State
from kiln.testing.conformance.fixture import needs
from kiln.testing.conformance.guarded import GuardedFixture
from kiln.testing.conformance.wording import in_words

#: Short, or the deadline passes on a virtual clock before a thread has sent anything.
_STEP_S = 0.001
#: All calls that could show that an instance is active.
_LOOKS = frozenset(Call) - {Call.BUILD, Call.FIND_BUILD, Call.DELETE}


class Repeating(GuardedFixture, contract=(ComputeHooks._find_build, ComputeHooks._delete)):
    """Builds that come to nothing."""

    def test_a_repeated_build_that_fails_leaves_the_running_instance(self) -> None:
        key = self.new_key()
        amphora_id = self.build_active(build_key=key)
        for what, ends in (
            ('was cancelled', self.build_and_cancel),
            ('saw no state until its deadline', self.repeat_until_late),
            ('was ended by a close', self.repeat_and_close),
        ):
            ends(build_key=key)
            self.assert_still(State.ACTIVE, amphora_id, f'a repeated build {what}')

    @needs(Ability.SUSPEND)
    def test_a_repeated_build_reports_at_once_that_its_instance_is_suspended(self) -> None:
        key = self.new_key()
        amphora_id = self.suspended(build_key=key)
        compute, _ = self.behind_guards()
        error = self.error_of(self.start_build(compute, build_key=key))
        self.close_guards(compute)
        self.assert_still(State.SUSPENDED, amphora_id, 'the build was repeated')
        self.assertIsInstance(error, BuildNotRunning)
        for fact in (amphora_id, key, State.SUSPENDED.value):
            self.assertIn(fact, str(error), 'the text of the error')

    @needs(Ability.REBOOT)
    def test_a_rebooting_instance_is_known_to_have_run(self) -> None:
        key = self.new_key()
        self.driver.reboot(self.build_active(build_key=key))
        found = self.driver.find_build(key)
        self.assertIsNotNone(found, 'find_build() finds the instance by its key')
        # With a build key from the caller, kiln may remove an instance that never ran.
        if found is not None and not found.past_building:
            self.broken(
                'the amphora is active, or served is True',
                f'it is {in_words(found)}, and served is {found.served}',
            )

    def test_a_cancelled_build_leaves_no_orphaned_instance(self) -> None:
        name = self.new_key()
        self.build_and_cancel(build_key=None, name=name)

        def left() -> list[str]:
            found = [one.id for one in self.driver.list_amphorae() if one.name == name]
            # The key does not have the prefix by which the sweep finds other instances.
            self._made.extend(found)
            return found

        self.vanishes(left)

    def test_a_cancelled_build_leaves_the_instance_of_another_owner_with_its_key(self) -> None:
        key = self.new_key()
        theirs = self.build_for_other(build_key=key, name=self.new_key())
        self.settle(theirs)
        self.build_and_cancel(build_key=key)
        self.assert_still(State.ACTIVE, theirs, 'A build with its key was cancelled')

    def build_and_cancel(self, **given: Any) -> None:
        """Start a build, and cancel it while the driver has it."""
        compute, gate = self.behind_guards(Call.BUILD)
        operation = self.start_build(compute, **given)
        self.comes(gate.entered.is_set, 'a build is sent')
        operation.cancel()
        gate.released.set()
        self.close_guards(compute)

    def repeat_until_late(self, build_key: str) -> None:
        """Repeat a build, and let its deadline pass while no state can be read."""
        compute, gate = self.behind_guards(*_LOOKS)
        operation = self.start_build(compute, build_key=build_key, timeout=self.short_s)
        self.comes(
            lambda: operation.amphora_id is not None or operation.done(),
            'a build is accepted',
            step_s=_STEP_S,
        )
        self.error_of(operation)
        gate.released.set()
        self.close_guards(compute)

    def repeat_and_close(self, build_key: str) -> None:
        """Repeat a build, and close while the driver has it."""
        compute, gate = self.behind_guards(Call.BUILD)
        self.start_build(compute, build_key=build_key)
        self.comes(gate.entered.is_set, 'a build is sent')
        # Queued behind the first, so it ends when the close stops sending calls.
        waiting = self.start_build(compute, build_key=build_key)
        thread = self.begin_to_close(compute)
        self.error_of(waiting)
        gate.released.set()
        self.comes(lambda: not thread.is_alive(), 'the guards are closed')
