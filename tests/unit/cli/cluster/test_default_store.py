"""The default store, which every configuration without ``[db] url`` shares."""

import os
import shutil
import unittest.mock

from tests.unit.cli.site_shell import SiteShell, blank_state


class DefaultStore(SiteShell):
    stored = False

    def test_it_is_named_when_a_configuration_uses_it(self):
        state = self.folder / 'home' / 'kiln'
        shutil.copytree(blank_state(), state)
        lines = self.config.read_text().splitlines()
        self.config.write_text('\n'.join(one for one in lines if not one.startswith('url =')))
        with unittest.mock.patch.dict(os.environ, XDG_STATE_HOME=str(state.parent)):
            self.ok('cluster', 'list')
            self.assertIn(f'the default store, sqlite:///{state}/kiln.db, which every', self.err)
            self.ok('--quiet', 'cluster', 'list')
            self.assertEqual('', self.err)
