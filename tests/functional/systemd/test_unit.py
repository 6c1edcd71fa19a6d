"""The unit of the conductor as systemd judges it, without starting it."""

import pathlib
import subprocess
import tempfile
import unittest

UNIT = pathlib.Path(__file__).parents[3] / 'doc/examples/systemd/kiln-conductor.service'
#: On systemd's scale from 0 (closed) to 10 (open).
MOST_EXPOSED = 3.0


def analyze(*arguments):
    return subprocess.run(
        ['systemd-analyze', '--no-pager', *arguments], capture_output=True, text=True, check=False
    )


class UnitTest(unittest.TestCase):
    def test_the_exposure_of_the_unit_is_below_three(self):
        # The option counts in tenths.
        done = analyze('security', '--offline=true', f'--threshold={MOST_EXPOSED * 10:.0f}', UNIT)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn('Overall exposure level for kiln-conductor.service', done.stdout)

    def test_systemd_knows_all_settings_of_the_unit(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        lines = UNIT.read_text().splitlines()
        # The program need not be installed where the test runs.
        lines = ['ExecStart=/bin/true' if one.startswith('ExecStart=') else one for one in lines]
        unit = folder / UNIT.name
        unit.write_text('\n'.join(lines))
        done = analyze('verify', '--man=no', unit)
        self.assertEqual((done.returncode, done.stderr), (0, ''))
