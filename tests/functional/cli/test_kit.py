"""Test of the whole conformance kit from the command line."""

from tests.unit.cli.shell import Shell

#: By default a reboot of the simulated cloud takes no time, so it cannot be seen.
UNSEEN = ['test_a_reboot_is_hard_only_if_that_was_requested']


class Kit(Shell):
    def test_noop_shows_every_behaviour_that_takes_no_time(self):
        report = self.json('driver', 'test', 'noop')
        unseen = [one['name'] for one in report['results'] if one['outcome'] == 'not_shown']
        self.assertEqual((True, UNSEEN), (report['ok'], unseen))
