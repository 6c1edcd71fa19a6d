"""Behaviours of suspend, resume, reboot, rebuild and console log."""

from __future__ import annotations

import functools
from collections.abc import Callable

from kiln.compute_drivers import hooks
from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.exceptions import (
    InstanceNotFoundError,
    InstanceStateConflict,
    InvalidBuildRequest,
    InvalidRequest,
    NotSuspendedError,
)
from kiln.models import Ability, State
from kiln.testing.conformance.fixture import ConformanceFixture, needs, takes


class Execution(ConformanceFixture, contract=(hooks,)):
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
    def test_a_reboot_is_hard_only_if_that_was_requested(self) -> None:
        amphora_id = self.build_active()
        for hard in (True, False):
            self.driver.reboot(amphora_id, hard=hard)
            self.assertEqual(self.bench.reboots_hard(amphora_id), hard, f'hard={hard}')
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

    @needs(Ability.REBUILD)
    @takes(image_id='some')
    def test_an_instance_has_the_image_that_it_was_rebuilt_from_last(self) -> None:
        if len(self.images) < 2:
            raise CannotBeShown('the bench names no two images')
        first, second = (image.id for image in self.images[:2])
        amphora_id = self.build_active(image_id=first)
        for given in (second, None):
            self.driver.rebuild(amphora_id, image_id=given)
            self.settle(amphora_id)
            image_id = self.driver.get_amphora(amphora_id=amphora_id).image_id
            self.assertEqual(image_id, second, f'image_id after rebuild(image_id={given!r})')

    def test_an_action_repeated_while_it_is_under_way_ends_as_if_requested_once(self) -> None:
        amphora_id = self.build_active()
        for ability, act, state in (
            (Ability.SUSPEND, self.driver.suspend, State.SUSPENDED),
            (Ability.RESUME, self.driver.resume, State.ACTIVE),
            (Ability.REBOOT, self.driver.reboot, State.ACTIVE),
            (Ability.REBUILD, self.driver.rebuild, State.ACTIVE),
        ):
            # Without a suspend there is nothing to resume.
            if self.lacks(ability) or (ability is Ability.RESUME and self.lacks(Ability.SUSPEND)):
                continue
            act(amphora_id)
            self.repeat(act, amphora_id)
            self.settle(amphora_id, state)

    @needs(Ability.SUSPEND)
    def test_suspending_what_is_being_built_has_its_effect_or_is_a_conflict(self) -> None:
        self.acts_or_conflicts(self.build(), self.driver.suspend, State.SUSPENDED)

    @needs(Ability.SUSPEND, Ability.REBOOT)
    def test_rebooting_what_is_suspended_has_its_effect_or_is_a_conflict(self) -> None:
        amphora_id = self.suspended()
        self.acts_or_conflicts(amphora_id, self.driver.reboot, State.ACTIVE)
        if self.driver.status(amphora_id).state is State.SUSPENDED:
            hard = functools.partial(self.driver.reboot, hard=True)
            self.acts_or_conflicts(amphora_id, hard, State.ACTIVE)

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
    def test_a_console_log_of_some_lines_has_the_last_ones(self) -> None:
        amphora_id = self.build_active()

        def look() -> tuple[list[str], list[str]]:
            # What is written meanwhile is in the second only.
            last = self.driver.console_log(amphora_id, lines=1)
            return last.splitlines(), self.driver.console_log(amphora_id).splitlines()

        self.becomes(look, lambda seen: seen[0] in ([], seen[1][-1:]))

    @needs(Ability.CONSOLE_LOG, Ability.REBOOT)
    def test_a_console_log_that_is_read_again_has_what_came_since(self) -> None:
        if not self.bench.logs_boots:
            raise CannotBeShown('the bench does not promise boots in console logs (logs_boots)')
        amphora_id = self.build_active()
        before = self.driver.console_log(amphora_id)
        self.driver.reboot(amphora_id)
        self.settle(amphora_id)
        self.becomes(lambda: self.driver.console_log(amphora_id) != before, bool)

    @needs(Ability.CONSOLE_LOG)
    def test_a_console_log_of_an_unknown_instance_is_not_found(self) -> None:
        with self.assertRaises(InstanceNotFoundError):
            self.driver.console_log(self.unknown_id())

    def repeat(self, act: Callable[[str], None], amphora_id: str) -> None:
        """Repeat an action; fail if it is refused by anything else than a conflict."""
        before = self.driver.status(amphora_id)
        try:
            act(amphora_id)
        except NotSuspendedError:
            # It is resumed, or about to be.
            return
        except InstanceStateConflict as exc:
            after = self.driver.status(amphora_id)
            busy = before.task_state is not None and after.task_state == before.task_state
            if busy and before.state in (State.ACTIVE, State.SUSPENDED):
                self.assert_retryable(exc, f'an action during {before.task_state}')

    def acts_or_conflicts(self, amphora_id: str, act: Callable[[str], None], state: State) -> None:
        """Act on an instance in a wrong state; fail unless it is refused, or takes effect."""
        try:
            act(amphora_id)
        except InstanceStateConflict as exc:
            self.assertIn(amphora_id, str(exc))
            self.assertTrue(self.exists(amphora_id))
        else:
            self.settle(amphora_id, state)
