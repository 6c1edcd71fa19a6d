"""Commands on a site of their own: a store and a simulated cloud in a folder."""

import pathlib

from kiln.cli.stores import configured_site
from tests.unit.cli.shell import Shell
from tests.unit.clusters.site import WEB

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
watch_interval = 0.05
watch_max_interval = 0.05
{more}
[db]
url = sqlite:///{folder}/state/kiln.db
[clusters]
lease = 1
quiesce = 0
"""


class SiteShell(Shell):
    """Has a page to bring up, and ``page`` to write another."""

    def setUp(self):
        super().setUp()
        self.config.write_text(CONFIG.format(folder=self.folder, more=self.east))
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
        return configured_site(app.settings)
