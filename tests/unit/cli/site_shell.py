"""Base of tests of commands on a site: a store and a simulated cloud in a folder."""

import atexit
import functools
import pathlib
import shutil
import tempfile

from kiln.cli.site.stores import configured_site
from kiln.db.store import open_store
from tests.unit.cli.shell import Shell
from tests.unit.cluster_service.site import WEB

CONFIG = """\
[compute]
default_backend = east
owner = us
[compute:east]
driver = noop
path = {folder}/cloud.db
build_s = 0.02
zones = az1,az2
flavors = small,large
{more}
[db]
url = sqlite:///{folder}/state/kiln.db
[clusters]
lease = 1
quiesce = 0
"""


@functools.cache
def blank_state():
    """Return a folder with a store; copying it is ten times as fast as creating one."""
    folder = tempfile.mkdtemp(prefix='kiln-tests-')
    atexit.register(shutil.rmtree, folder)
    state = pathlib.Path(folder, 'state')
    state.mkdir(mode=0o700)
    open_store(f'sqlite:///{state}/kiln.db').close()
    return state


class SiteShell(Shell):
    """Has a cluster file, and ``page`` to write another one."""

    #: True if the site has an empty store at the start.
    stored = True

    def setUp(self):
        super().setUp()
        self.config.write_text(CONFIG.format(folder=self.folder, more=self.east))
        if self.stored:
            shutil.copytree(blank_state(), self.folder / 'state')
        self.page()

    def page(self, text=WEB, name='web.yaml'):
        self.path = self.folder / name
        pathlib.Path(self.path).write_text(text)
        return str(self.path)

    def up(self, *more):
        return self.ok('up', str(self.path), *more)

    def nodes(self, *more):
        return self.json('node', 'list', 'web', *more)

    def site(self):
        """Open the site as the commands do."""
        app = self.app()
        app.run(['--config-file', str(self.config), 'db', 'check'])
        return configured_site(app.settings, self.clock)
