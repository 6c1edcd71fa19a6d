"""Test of the whole conformance kit from the command line."""

from tests.unit.cli.shell import Shell


class Kit(Shell):
    def test_noop_shows_every_behaviour(self):
        report = self.json('driver', 'test', 'noop')
        self.assertEqual((True, 0), (report['ok'], report['not_shown']))
