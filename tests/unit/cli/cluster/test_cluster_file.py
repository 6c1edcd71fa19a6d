"""Tests that the user guides show what the commands print."""

import pathlib
import re
import textwrap

from tests.unit.cli.site_shell import SiteShell

ROOT = pathlib.Path(__file__).parents[4]
USER = ROOT / 'doc' / 'source' / 'user'


def block(text, opening):
    """Return the first indented block that begins with the given words."""
    found = re.search(rf'(?m)^ +{re.escape(opening)}.*\n((?:^ .*\n|^\n)*)', text)
    return textwrap.dedent(found[0])


class Pages(SiteShell):
    def test_the_file_of_the_readme_and_of_the_guide_plans_as_shown(self):
        for path in (ROOT / 'README.rst', USER / 'first-cluster.rst'):
            with self.subTest(path.name):
                text = path.read_text()
                self.page(block(text, 'cluster: web'))
                shown = self.ok('plan', str(self.path))
                self.assertIn(shown.split('\n\n')[0], block(text, '$ kiln'))
                self.assertIn(shown.split('\n\n')[1], block(text, '$ kiln'))

    def test_the_file_for_nova_differs_in_two_lines(self):
        text = (USER / 'first-cluster.rst').read_text()
        play, nova = re.findall(r'\n   cluster: web\n(?:   .*\n)+', text)
        differs = [line for line in nova.splitlines() if line not in play.splitlines()]
        self.assertEqual(
            ['compute_driver', 'image'], [one.split(':')[0].strip() for one in differs]
        )
