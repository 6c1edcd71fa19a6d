"""Base of tests that run commands in this process, on a shared simulated cloud."""

import contextlib
import io
import json
import pathlib
import tempfile
import unittest

from kiln.cli.app import KilnApp
from tests.self_moving_clock import MovingTime

CONFIG = """\
[compute]
default_backend = east
owner = us
[db]
url = sqlite:///{folder}/state/kiln.db
[compute:east]
driver = noop
path = {folder}/cloud.db
{more}
[compute:broken]
driver = noop
faults = *:refuse=down for repairs
call_timeout = 0.3
[compute:crowded]
driver = noop
accept_s = 0.2
max_queue = 1
max_workers = 3
[compute:narrow]
driver = noop
missing_abilities = suspend,list_resources
"""


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Shell(MovingTime, unittest.TestCase):
    """Has ``run``, and the output of the last run in ``out`` and ``err``."""

    #: More options of the backend called east.
    east = ''
    terminal = False

    def setUp(self):
        self.clock = self.open_clock()
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.config = self.folder / 'kiln.conf'
        self.config.write_text(CONFIG.format(folder=self.folder, more=self.east))

    def app(self, **streams):
        kind = Terminal if self.terminal else io.StringIO
        given = {'stdout': io.StringIO(), 'stderr': kind()} | streams
        return KilnApp(**given, clock=self.clock)

    def run_bare(self, *argv, app=None):
        app = app or self.app()
        with contextlib.redirect_stderr(app.stderr), contextlib.redirect_stdout(app.stdout):
            code = app.run(list(argv))
        self.out, self.err = app.stdout.getvalue(), app.stderr.getvalue()
        return code

    def sh(self, *argv):
        return self.run_bare('--config-file', str(self.config), *argv)

    def ok(self, *argv):
        self.assertEqual(0, self.sh(*argv), self.out + self.err)
        return self.out

    def json(self, *argv):
        return json.loads(self.ok(*argv, '-f', 'json'))

    def fails(self, code, *argv):
        self.assertEqual(code, self.sh(*argv), self.out + self.err)
        self.assertNotIn('Traceback', self.err)
        return self.err

    def build(self, name, *more):
        (row,) = self.json('compute', 'build', '--name', name, '--wait', *more)
        return row['id']

    def states(self):
        return {one['name']: one['state'] for one in self.json('compute', 'list')}
