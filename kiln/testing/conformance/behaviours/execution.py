"""Behaviours of suspend, resume, reboot, rebuild and console log."""

from __future__ import annotations

from kiln.exceptions import InstanceNotFoundError, NotSuspendedError
from kiln.models import Ability, State
from kiln.testing.conformance.fixture import ConformanceFixture, needs


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
