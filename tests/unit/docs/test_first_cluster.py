"""The first cluster in five minutes: each command prints what the page shows."""

import contextlib
import os
import re
import shlex
import subprocess
import unittest.mock

from tests.unit.cli.shell import Shell
from tests.unit.docs.pages import ROOT, blocks_of

PAGE = 'user/first-cluster.rst'
BLOCKS = list(blocks_of(PAGE, (ROOT / 'doc/source' / PAGE).read_text()))
#: What differs in each run: times, ids, the random ends of names, addresses, and the order.
FREE = {
    r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|\d\d:\d\d:\d\dZ': 'TIME',
    r'[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}': 'ID',
    r'\b(web-(?:front|work))-[a-z0-9]{5}\b': r'\1-NAME',
    r'\b127\.\d+\.\d+\.\d+': 'ADDRESS',
}
BAD = """\
cluster: web
nodegroups:
  - name: work
    flavors: {small: 3}
    image: debian-13
    zones: {az1: 4}
    contu: 3
"""


def loosened(text):
    """Return the lines of an output without what differs, and in order where order does."""
    for pattern, word in FREE.items():
        text = re.sub(pattern, word, text)
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return sorted(lines) if any('TIME' in line for line in lines) else lines


def session(text):
    """Yield each command of a console block with the output that the page shows."""
    for part in re.split(r'(?m)^\$ ', text)[1:]:
        command, _, shown = part.partition('\n')
        yield shlex.split(command), shown


class FirstCluster(Shell):
    def setUp(self):
        super().setUp()
        self.enterContext(contextlib.chdir(self.folder))
        self.enterContext(
            unittest.mock.patch.dict(
                os.environ, HOME=str(self.folder), XDG_STATE_HOME=str(self.folder / 'state')
            )
        )
        # Where the page has the configuration, too.
        (self.folder / '.kiln').mkdir()
        ini, page = (
            next(one.text for one in BLOCKS if one.language == kind) for kind in ('ini', 'yaml')
        )
        self.config.write_text(ini)
        (self.folder / 'web.yaml').write_text(page)
        (self.folder / 'bad.yaml').write_text(BAD)

    def test_each_command_prints_what_the_page_shows(self):
        for block in BLOCKS:
            for words, shown in session(block.text) if block.language == 'console' else ():
                with self.subTest(block=str(block), words=words):
                    self.check(words, shown)

    def check(self, words, shown):
        if words[0] != 'kiln':
            subprocess.run(words, check=True)
            return
        words = [self.real(word) for word in words[1:]]
        status = self.sh(*words)
        self.assertEqual(2 if 'bad.yaml' in words else 0, status, self.err)
        if shown.strip():
            printed = loosened(re.sub(r'(?m)^kiln: .*default store.*\n', '', self.out + self.err))
            self.compare(loosened(shown), printed)

    def real(self, word):
        """Return the name that a node of the page has here."""
        if not re.fullmatch('web-work-[a-z0-9]{5}', word):
            return word
        return next(
            one['name']
            for one in self.json('node', 'list', 'web')
            if one['flavor'] == 'small' and one['zone'] == 'az1' and one['group'] == 'work'
        )

    def compare(self, shown, printed):
        if '  ...' in shown:
            self.assertLessEqual(set(shown) - {'  ...'}, set(printed))
        else:
            self.assertEqual(shown, printed)
