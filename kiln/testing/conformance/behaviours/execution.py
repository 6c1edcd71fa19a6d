"""Behaviours of suspend, resume, reboot, rebuild and console log."""

from __future__ import annotations

from collections.abc import Callable

from kiln.exceptions import (
    InstanceNotFoundError,
    InstanceStateConflict,
    InvalidBuildRequest,
    InvalidRequest,
    NotSuspendedError,
)
from kiln.models import Ability, State
from kiln.testing.conformance.fixture import ConformanceFixture, needs, takes


class Execution(ConformanceFixture):
    """Execution state."""

    @needs(Ability.SUSPEND)
    def test_a_suspended_instance_says_so(self) -> None:
        self.suspended()

    @needs(Ability.SUSPEND)
    def test_suspending_again_is_a_success(self) -> None:
        amphora_id = self.suspended()
        self.driver.suspend(amphora_id)
        self.settle(amphora_id, State.SUSPENDED)

    @needs(Ability.SUSPEND)
    def test_suspending_an_unknown_instance_is_not_found(self) -> None:
        with self.assertRaises(InstanceNotFoundError):
            self.driver.suspend(self.unknown_id())

    @needs(Ability.SUSPEND, Ability.RESUME)
    def test_a_resumed_instance_is_active_again(self) -> None:
        amphora_id = self.suspended()
        self.driver.resume(amphora_id)
        self.settle(amphora_id)

    @needs(Ability.RESUME)
    def test_resuming_what_runs_is_refused_as_not_suspended(self) -> None:
        amphora_id = self.build_active()
        with self.assertRaises(NotSuspendedError):
            self.driver.resume(amphora_id)

    @needs(Ability.RESUME)
    def test_resuming_an_unknown_instance_is_not_found(self) -> None:
        with self.assertRaises(InstanceNotFoundError):
            self.driver.resume(self.unknown_id())

    @needs(Ability.REBOOT)
    def test_an_instance_survives_a_soft_reboot(self) -> None:
        amphora_id = self.build_active()
        self.driver.reboot(amphora_id)
        self.settle(amphora_id)

    @needs(Ability.REBOOT)
    def test_an_instance_survives_a_hard_reboot(self) -> None:
        amphora_id = self.build_active()
        self.driver.reboot(amphora_id, hard=True)
        self.settle(amphora_id)

    @needs(Ability.REBOOT)
    def test_rebooting_an_unknown_instance_is_not_found(self) -> None:
        with self.assertRaises(InstanceNotFoundError):
            self.driver.reboot(self.unknown_id())

    @needs(Ability.REBUILD)
    def test_a_rebuilt_instance_becomes_active_again(self) -> None:
        amphora_id = self.build_active()
        self.driver.rebuild(amphora_id)
        self.settle(amphora_id)

    @needs(Ability.REBUILD)
    def test_a_rebuilt_instance_keeps_name_key_and_owner(self) -> None:
        amphora_id = self.build_active()
        before = self.driver.get_amphora(amphora_id=amphora_id)
        self.driver.rebuild(amphora_id)
        after = self.driver.get_amphora(amphora_id=amphora_id)
        for fact in ('name', 'build_key', 'owner', 'amphora_type'):
            self.assertEqual(getattr(after, fact), getattr(before, fact), f'{fact} as before')

    @needs(Ability.REBUILD)
    def test_rebuilding_an_unknown_instance_is_not_found(self) -> None:
        with self.assertRaises(InstanceNotFoundError):
            self.driver.rebuild(self.unknown_id())

    @needs(Ability.REBUILD)
    @takes(image_id='some')
    def test_a_rebuild_refuses_an_unknown_image_as_a_build_would_refuse_it(self) -> None:
        amphora_id, unknown = self.build_active(), self.unknown_id()
        try:
            self.driver.rebuild(amphora_id, image_id=unknown)
        except InvalidRequest:
            with self.assertRaises(InvalidBuildRequest):
                self.build(image_id=unknown)
        else:
            # A backend can accept any name; then its builds must accept it as well.
            self.build(image_id=unknown)
        self.settle(amphora_id)

    @needs(Ability.SUSPEND)
    def test_suspending_what_is_being_built_has_its_effect_or_is_a_conflict(self) -> None:
        self.acts_or_conflicts(self.build(), self.driver.suspend, State.SUSPENDED)

    @needs(Ability.SUSPEND, Ability.REBOOT)
    def test_rebooting_what_is_suspended_has_its_effect_or_is_a_conflict(self) -> None:
        self.acts_or_conflicts(self.suspended(), self.driver.reboot, State.ACTIVE)

    @needs(Ability.SUSPEND, Ability.REBUILD)
    def test_rebuilding_what_is_suspended_has_its_effect_or_is_a_conflict(self) -> None:
        self.acts_or_conflicts(self.suspended(), self.driver.rebuild, State.ACTIVE)

    @needs(Ability.CONSOLE_LOG)
    def test_a_console_log_is_text(self) -> None:
        self.assertIsInstance(self.driver.console_log(self.build_active()), str)

    @needs(Ability.CONSOLE_LOG)
    def test_a_console_log_has_no_more_lines_than_were_asked_for(self) -> None:
        text = self.driver.console_log(self.build_active(), lines=1)
        self.assertLessEqual(len(text.splitlines()), 1, 'lines of console_log(lines=1)')

    @needs(Ability.CONSOLE_LOG)
    def test_a_console_log_of_an_unknown_instance_is_not_found(self) -> None:
        with self.assertRaises(InstanceNotFoundError):
            self.driver.console_log(self.unknown_id())

    def acts_or_conflicts(self, amphora_id: str, act: Callable[[str], None], state: State) -> None:
        """Act on an instance in a wrong state; fail unless it is refused, or takes effect."""
        try:
            act(amphora_id)
        except InstanceStateConflict as exc:
            self.assertIn(amphora_id, str(exc))
            self.assertTrue(self.exists(amphora_id))
        else:
            self.settle(amphora_id, state)
