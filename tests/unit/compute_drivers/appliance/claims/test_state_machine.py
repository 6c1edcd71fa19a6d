"""Transitions of a claim by commands, probes and requests."""

import dataclasses
import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.compute_drivers.appliance.claims import state_machine
from kiln.compute_drivers.appliance.claims.state_machine import (
    COMMANDS,
    LEAVING,
    Ended,
    Phase,
    Rules,
)
from kiln.exceptions import InstanceStateConflict
from kiln.models import State
from tests.unit.compute_drivers.appliance.samples import RULES, claim, machine

ALL = machine(
    'claim = ["/bin/c"]\nwipe = ["/bin/w"]\nreboot = ["/bin/r"]\nrebuild = ["/bin/b"]\n'
    'probe = {tcp = 22}\n'
)
BARE = machine()
PROBED = machine('probe = {tcp = 22}\n')
OK, BAD = Ended(True), Ended(False, 'no route')


def after(probes, *, phase=Phase.UP, rules=RULES):
    """Return a claim after probes in a row, ten seconds apart."""
    one = claim(phase)
    for number, ended in enumerate(probes, 1):
        one = state_machine.probed(one, ended, 10.0 * number, rules)
    return one


class Building(unittest.TestCase):
    def begun(self, at):
        return state_machine.begun(claim(Phase.CLAIMING, epoch=0), at, 5.0)

    def test_a_claim_begins_with_its_command(self):
        one = self.begun(ALL)
        self.assertEqual((Phase.CLAIMING, 5.0, 1), (one.phase, one.due, one.epoch))
        self.assertEqual((State.BUILDING, 'claiming'), (one.state, one.task))

    def test_without_a_command_the_probe_is_due_at_once(self):
        one = self.begun(PROBED)
        self.assertEqual((Phase.STARTING, 5.0), (one.phase, one.due))

    def test_without_command_and_probe_it_is_active_at_once(self):
        one = self.begun(BARE)
        self.assertEqual((State.ACTIVE, None, None), (one.state, one.task, one.due))

    def test_a_claim_is_active_once_its_probe_passes_after_the_command(self):
        one = state_machine.command_ended(self.begun(ALL), ALL, OK, 7.0, RULES)
        self.assertEqual((Phase.STARTING, State.BUILDING, 7.0), (one.phase, one.state, one.due))
        one = state_machine.probed(one, BAD, 8.0, RULES)
        self.assertEqual((Phase.STARTING, 9.0), (one.phase, one.due))
        one = state_machine.probed(one, OK, 9.0, RULES)
        self.assertEqual((Phase.UP, 19.0, 9.0), (one.phase, one.due, one.probed_at))

    def test_a_failed_claim_command_is_an_error_with_its_output(self):
        one = state_machine.command_ended(
            self.begun(ALL), ALL, Ended(False, 'no disk'), 7.0, RULES
        )
        self.assertEqual((State.ERROR, 'claim command: no disk'), (one.state, one.fault))
        self.assertIsNone(one.due)

    def test_a_probe_that_never_passes_is_an_error_after_a_time(self):
        one = state_machine.command_ended(self.begun(ALL), ALL, OK, 7.0, RULES)
        self.assertIs(State.BUILDING, state_machine.probed(one, BAD, 106.9, RULES).state)
        one = state_machine.probed(one, BAD, 107.0, RULES)
        self.assertIs(Phase.FAILED, one.phase)
        self.assertEqual('not ready after 100 s, last probe: no route', one.fault)

    def test_the_verdict_on_a_machine_is_that_it_came_up_or_failed(self):
        coming = claim(Phase.STARTING)
        for old, new, said in (
            (coming, Phase.UP, True),
            (coming, Phase.FAILED, False),
            (None, Phase.UP, True),
            (None, Phase.CLAIMING, None),
            (claim(Phase.DOWN), Phase.UP, None),
            (claim(Phase.CLAIMING), Phase.STARTING, None),
        ):
            self.assertIs(said, state_machine.verdict(old, claim(new)))
        again = claim(Phase.FAILED, epoch=2)
        for phase in (Phase.REBOOTING, Phase.STARTING):
            self.assertIsNone(state_machine.verdict(claim(phase, epoch=2), again))


class Serving(unittest.TestCase):
    def test_single_failures_change_nothing(self):
        for probes in ([BAD, BAD, OK, BAD, BAD], [BAD, OK] * 20):
            one = after(probes)
            self.assertEqual((Phase.UP, None), (one.phase, one.fault))

    def test_failures_in_a_row_are_an_error_with_the_last_result(self):
        one = after([OK, BAD, BAD, BAD])
        self.assertEqual((State.ERROR, 50.0), (one.state, one.due))
        self.assertEqual('3 probes in a row failed, last: no route', one.fault)

    def test_it_is_active_again_after_enough_passes_in_a_row(self):
        self.assertIs(Phase.DOWN, after([OK, BAD, OK, BAD, OK], phase=Phase.DOWN).phase)
        one = after([OK, OK], phase=Phase.DOWN)
        self.assertEqual((Phase.UP, None, 0), (one.phase, one.fault, one.failures))

    @given(st.lists(st.booleans(), max_size=40), st.integers(1, 4), st.integers(1, 4))
    def test_it_goes_down_and_up_exactly_by_the_rule(self, passes, failures, successes):
        rules = Rules(probe_failures=failures, probe_successes=successes)
        up, streak = True, 0
        one = claim(Phase.UP)
        for number, ok in enumerate(passes):
            streak = streak + 1 if ok is not up else 0
            if streak == (failures if up else successes):
                up, streak = not up, 0
            one = state_machine.probed(one, Ended(ok, 'x'), float(number), rules)
            self.assertIs(Phase.UP if up else Phase.DOWN, one.phase)
            self.assertEqual(number + rules.probe_interval_s, one.due)


class Leaving(unittest.TestCase):
    def test_a_delete_wipes_and_the_end_of_the_wipe_frees_the_machine(self):
        one = state_machine.deleted(claim(Phase.UP), ALL, 5.0)
        self.assertEqual((State.DELETING, 5.0, 2), (one.state, one.due, one.epoch))
        self.assertIsNone(state_machine.command_ended(one, ALL, OK, 6.0, RULES))

    def test_a_machine_without_a_wipe_command_is_free_at_once(self):
        self.assertIsNone(state_machine.deleted(claim(Phase.UP), BARE, 5.0))

    def test_a_command_that_might_still_run_must_end_first(self):
        for phase in COMMANDS:
            self.assertIs(Phase.WIPING, state_machine.deleted(claim(phase), BARE, 5.0).phase)

    def test_a_repeated_delete_during_the_wipe_changes_nothing(self):
        one = state_machine.deleted(claim(Phase.UP), ALL, 5.0)
        self.assertEqual(one, state_machine.deleted(one, ALL, 6.0))

    def test_a_failed_wipe_is_retried_after_growing_intervals(self):
        one = state_machine.deleted(claim(Phase.UP), ALL, 0.0)
        waits = []
        for _ in range(5):
            one = state_machine.command_ended(one, ALL, BAD, 10.0, RULES)
            waits.append(one.due - 10.0)
        self.assertEqual([60.0, 120.0, 240.0, 300.0, 300.0], waits)
        # A task stays set, so that a caller waiting for the delete does not give up.
        self.assertEqual((State.ERROR, 'wiping'), (one.state, one.task))
        self.assertEqual('wipe command failed 5 times, last: no route', one.fault)

    def test_a_repeated_delete_makes_a_failed_wipe_due_and_keeps_its_failure_count(self):
        one = state_machine.deleted(claim(Phase.UNWIPED, failures=4, due=500.0), ALL, 20.0)
        self.assertEqual((State.DELETING, 20.0), (one.state, one.due))
        one = state_machine.command_ended(one, ALL, BAD, 30.0, RULES)
        self.assertEqual((5, 'wipe command failed 5 times, last: no route'),
                         (one.failures, one.fault))  # fmt: skip

    def test_failed_probes_are_not_counted_as_failed_wipes(self):
        self.assertEqual(
            0, state_machine.deleted(claim(Phase.DOWN, failures=4), ALL, 1.0).failures
        )

    def test_the_first_failure_is_reported_as_once(self):
        one = state_machine.command_ended(claim(Phase.WIPING), ALL, BAD, 1.0, RULES)
        self.assertIn('failed once', one.fault)

    def test_a_maximum_below_the_first_quarantine_does_not_shorten_it(self):
        rules = Rules(quarantine_s=60.0, quarantine_max_s=1.0)
        self.assertEqual([60.0, 60.0], [rules.back_off_s(1), rules.back_off_s(9)])

    def test_any_number_of_failures_has_a_quarantine(self):
        self.assertEqual(300.0, RULES.back_off_s(100_000))


class Commanded(unittest.TestCase):
    def test_a_reboot_ends_when_the_probe_passes_again(self):
        one = state_machine.rebooted(claim(Phase.UP), ALL, 5.0, hard=True)
        self.assertEqual((State.ACTIVE, 'rebooting', True), (one.state, one.task, one.hard))
        one = state_machine.command_ended(one, ALL, OK, 6.0, RULES)
        self.assertEqual(
            (Phase.RETURNING, State.ACTIVE, 'rebooting'), (one.phase, one.state, one.task)
        )
        self.assertIs(Phase.UP, state_machine.probed(one, OK, 7.0, RULES).phase)

    def test_without_a_probe_a_reboot_ends_with_its_command(self):
        one = state_machine.rebooted(
            claim(Phase.UP), machine('reboot = ["/bin/r"]'), 5.0, hard=False
        )
        self.assertIs(Phase.UP, state_machine.command_ended(one, BARE, OK, 6.0, RULES).phase)

    def test_a_rebuild_takes_a_new_image_if_one_is_given(self):
        one = state_machine.rebuilt(claim(Phase.UP, image_id='a'), ALL, 5.0, 'b')
        self.assertEqual((State.BUILDING, 'rebuilding', 'b'), (one.state, one.task, one.image_id))
        self.assertEqual('a', state_machine.rebuilt(claim(image_id='a'), ALL, 5.0, None).image_id)
        self.assertIs(Phase.STARTING, state_machine.command_ended(one, ALL, OK, 6.0, RULES).phase)

    def test_an_amphora_in_error_can_be_rebooted_hard_and_rebuilt(self):
        for phase in (Phase.DOWN, Phase.FAILED):
            one = claim(phase)
            self.assertIs(Phase.REBOOTING, state_machine.rebooted(one, ALL, 5.0, hard=True).phase)
            self.assertIs(Phase.REBUILDING, state_machine.rebuilt(one, ALL, 5.0, None).phase)
            with self.assertRaises(InstanceStateConflict) as caught:
                state_machine.rebooted(one, ALL, 5.0, hard=False)
            self.assertIn('must be active and at rest', str(caught.exception))
            self.assertFalse(caught.exception.retryable)

    def test_a_busy_or_leaving_amphora_cannot_be_rebooted_or_rebuilt(self):
        for phase in set(Phase) - {Phase.UP, Phase.DOWN, Phase.FAILED}:
            with self.assertRaises(InstanceStateConflict) as caught:
                state_machine.rebuilt(claim(phase), ALL, 5.0, None)
            self.assertEqual(phase not in LEAVING, caught.exception.retryable)
            self.assertEqual('a1', caught.exception.amphora_id)
            self.assertIn('must be active or error and at rest', str(caught.exception))

    def test_a_failed_command_is_an_error(self):
        one = state_machine.command_ended(claim(Phase.REBOOTING), ALL, BAD, 6.0, RULES)
        self.assertEqual((State.ERROR, 'reboot command: no route'), (one.state, one.fault))

    @given(st.data())
    def test_a_claim_has_a_due_time_exactly_while_it_waits(self, data):
        at = data.draw(st.sampled_from([ALL, BARE, PROBED]))
        one = state_machine.begun(claim(Phase.CLAIMING, epoch=0), at, 0.0)
        for now in range(1, 20):
            if one is None:
                return
            rests = one.phase is Phase.FAILED or (one.phase is Phase.UP and at.probe is None)
            self.assertEqual(rests, one.due is None, one.phase)
            ended = data.draw(st.sampled_from([OK, BAD]))
            wish = data.draw(st.sampled_from(['happen', 'delete', 'reboot', 'rebuild']))
            try:
                if wish == 'delete':
                    one = state_machine.deleted(one, at, now)
                elif wish == 'reboot':
                    one = state_machine.rebooted(one, at, now, hard=True)
                elif wish == 'rebuild':
                    one = state_machine.rebuilt(one, at, now, None)
                elif one.phase in COMMANDS:
                    one = state_machine.command_ended(one, at, ended, now, RULES)
                elif not rests:
                    one = state_machine.probed(one, ended, now, RULES)
            except InstanceStateConflict:
                continue

    def test_only_a_claim_that_rests_gets_the_probe_that_its_machine_has_got(self):
        for phase, due, expected in (
            (Phase.UP, None, 5.0), (Phase.UP, 9.0, 9.0), (Phase.FAILED, None, None),
        ):  # fmt: skip
            watched = state_machine.watched(claim(phase, due=due), PROBED, 5.0)
            self.assertEqual(expected, watched.due, (phase, due))
        self.assertIsNone(state_machine.watched(claim(Phase.UP), BARE, 5.0).due)

    def test_a_claim_does_not_show_the_table_of_its_machine(self):
        self.assertNotIn('rack', repr(claim(table={'labels': {'rack': 'r1'}})))

    def test_every_phase_has_a_state(self):
        for phase in Phase:
            self.assertIsInstance(dataclasses.replace(claim(), phase=phase).state, State)
