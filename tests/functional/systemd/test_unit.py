"""The unit of the conductor as systemd judges it, without starting it."""

import pathlib
import subprocess
import tempfile
import unittest

EXAMPLES = pathlib.Path(__file__).parents[3] / 'doc/examples/systemd'
UNIT = EXAMPLES / 'kiln-conductor.service'
OVERRIDES = (EXAMPLES / 'hooks-user.conf', EXAMPLES / 'programs-user.conf')
#: On systemd's scale from 0 (closed) to 10 (open).
MOST_EXPOSED = 3.0


def analyze(*arguments):
    return subprocess.run(
        ['systemd-analyze', '--no-pager', *arguments], capture_output=True, text=True, check=False
    )


class UnitTest(unittest.TestCase):
    def unit(self, *files):
        """Write the files as one unit, whose program need not be installed; return its path."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        lines = '\n'.join(file.read_text() for file in files).splitlines()
        lines = ['ExecStart=/bin/true' if one.startswith('ExecStart=') else one for one in lines]
        unit = folder / UNIT.name
        unit.write_text('\n'.join(lines))
        return unit

    def test_the_exposure_of_the_unit_is_below_three_even_with_an_override(self):
        for files in ([UNIT], *([UNIT, one] for one in OVERRIDES)):
            # The option counts in tenths.
            most = f'--threshold={MOST_EXPOSED * 10:.0f}'
            done = analyze('security', '--offline=true', most, self.unit(*files))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn('Overall exposure level for kiln-conductor.service', done.stdout)

    def test_systemd_knows_all_settings_of_the_unit_and_the_overrides(self):
        done = analyze('verify', '--man=no', self.unit(UNIT, *OVERRIDES))
        self.assertEqual((done.returncode, done.stderr), (0, ''))
