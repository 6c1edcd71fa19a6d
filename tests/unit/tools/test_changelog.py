"""The page of changes is what the release notes say."""

import pathlib
import tempfile
import unittest

from tools.changelog import ROOT, NoteError, changelog

FIX = 'fixes:\n  - |\n    Nothing is lost\n    any more.\n'


class ChangelogTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.root / 'setup.cfg').write_text('[metadata]\nversion = 0.2.0.dev0\n')
        (self.root / 'releasenotes').mkdir()

    def note(self, name, text):
        path = self.root / 'releasenotes' / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def test_the_page_in_the_tree_is_up_to_date(self):
        page = (ROOT / 'CHANGELOG.rst').read_text(encoding='utf-8')
        self.assertEqual(changelog(ROOT), page, 'run "make changelog"')

    def test_what_is_not_released_comes_first_and_then_the_newest_release(self):
        self.note('notes/b.yaml', FIX)
        self.note('0.9.0/a.yaml', 'prelude: >\n  The ninth.\n' + FIX)
        self.note('0.10.0/a.yaml', FIX)
        page = changelog(self.root)
        titles = ('0.2.0 (not released yet)', '0.10.0\n', '0.9.0\n')
        self.assertEqual(sorted(titles, key=page.index), list(titles))
        self.assertIn('-----\n\nThe ninth.\n\nFixes\n~~~~~\n\n', page)
        self.assertIn('\n* Nothing is lost\n  any more.\n', page)

    def test_a_release_just_made_has_nothing_before_it(self):
        self.note('0.1.0/a.yaml', FIX)
        self.assertNotIn('not released', changelog(self.root))

    def test_a_note_that_would_be_left_out_is_named(self):
        for text in ('fixed:\n  - A word.\n', 'fixes: A word.\n', 'fixes: [\n', '- A word.\n',
                     'prelude: [A word.]\n', ''):  # fmt: skip
            self.note('notes/odd.yaml', text)
            with self.subTest(text), self.assertRaisesRegex(NoteError, 'odd.yaml'):
                changelog(self.root)
