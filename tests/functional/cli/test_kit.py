"""The whole conformance kit from the command line."""

from tests.unit.cli.shell import Shell


class Kit(Shell):
    def test_every_behaviour_is_shown_on_noop(self):
        report = self.json('driver', 'test', 'noop')
        self.assertEqual((True, 0), (report['ok'], report['not_shown']))
