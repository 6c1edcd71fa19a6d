"""What a builder of pages accepts, and shows torn."""

import re
import unittest

from tests.unit.docs.pages import PAGES, ROOT

SOURCE = ROOT / 'doc' / 'source'
_BORDER = re.compile(r' *=+(?: +=+)+$')
_UNDERLINE = re.compile(r'([=\-~^"*])\1*$')


def torn_rows(text):
    """Yield the numbers of rows of simple tables that begin a row with nothing beside it.

    A second line in the first column is a row of its own. A heading within a table is bold.
    """
    columns = None
    for number, line in enumerate(text.splitlines(), 1):
        if _BORDER.match(line):
            columns = [one.start() for one in re.finditer('=+', line)]
        elif not line.strip():
            columns = None if columns and not line else columns
        elif columns and not line[columns[1] :].strip() and not line.lstrip().startswith('**'):
            yield number


def short_titles(text):
    """Yield titles with an underline that is too short to make them titles."""
    lines = text.splitlines()
    for above, title, line in zip(['', *lines], lines, lines[1:], strict=False):
        underline = _UNDERLINE.match(line)
        is_title = title[:1].isalnum() and not above.strip() and underline
        if is_title and len(line) < len(title):
            yield title


class Pages(unittest.TestCase):
    def test_no_row_of_a_table_is_torn_into_two(self):
        for page in PAGES:
            with self.subTest(page.name):
                self.assertEqual([], list(torn_rows(page.read_text())))

    def test_each_title_has_an_underline_of_its_length(self):
        for page in PAGES:
            with self.subTest(page.name):
                self.assertEqual([], list(short_titles(page.read_text())))

    def test_every_page_for_operators_is_in_a_group_that_says_what_it_holds(self):
        index = (SOURCE / 'index.rst').read_text()
        groups = re.findall(r':caption: For operators: [\w ]+\n.*\n\n((?:   \S+\n)+)', index)
        listed = {page for group in groups for page in group.split()}
        there = {f'admin/{page.stem}' for page in (SOURCE / 'admin').glob('*.rst')}
        self.assertEqual(there, listed)
        self.assertLessEqual(max(len(group.split()) for group in groups), 8)
        self.assertIn('admin/installing', listed)
        self.assertIn('reference/glossary', index)


class Torn(unittest.TestCase):
    def test_a_second_line_in_the_first_column_is_torn(self):
        text = '====  =====\none   first\nmore\ntwo   a\n      b\n====  =====\n'
        self.assertEqual([3], list(torn_rows(text)))

    def test_a_title_with_a_short_underline_is_found(self):
        self.assertEqual(['Decisions'], list(short_titles('Decisions\n==\nText.\n')))
