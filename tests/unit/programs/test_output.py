"""Text that programs print: one short line that is safe to show."""

import io
import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.programs.output import LONGEST_MESSAGE, clean, last_lines, last_whole_lines


class Cleaning(unittest.TestCase):
    def test_a_message_is_one_line_without_control_characters(self):
        self.assertEqual('a b c', clean('a\r\n\tb\x00\u202ec '))
        self.assertEqual('red', clean('\x1b[31mred\x1b[0m\x1b]0;title\x07'))

    def test_letters_of_all_languages_are_kept(self):
        self.assertEqual('Größe 大', clean('Größe 大'))

    def test_what_looks_like_a_secret_is_removed(self):
        self.assertNotIn('hunter2', clean('password=hunter2'))

    def test_a_long_message_is_cut(self):
        cut = clean('x' * 100_000)
        self.assertEqual((LONGEST_MESSAGE, True), (len(cut), cut.endswith('...')))

    @given(st.text())
    def test_any_text_is_made_safe_for_a_terminal_and_a_database(self, text):
        cleaned = clean(text)
        self.assertLessEqual(len(cleaned), LONGEST_MESSAGE)
        self.assertFalse([one for one in cleaned if ord(one) < 32 or 127 <= ord(one) < 160])
        self.assertEqual(cleaned, cleaned.encode().decode())

    def test_the_last_lines_of_the_output_of_a_program_are_used(self):
        self.assertEqual('b / c / d', last_lines(b'a\nb\n\nc\n  \nd\n'))
        self.assertEqual('', last_lines(b'\n'))
        self.assertEqual('\ufffd', last_lines(b'\xff'))

    def test_the_end_of_a_file_begins_with_a_whole_line(self):
        line = b'x' * 99 + b'\n'
        for content, expected in (
            (b'', b''),
            (b'half', b'half'),
            (line * 100, line * 40),
            (b'first' + line * 40, b'first' + line * 40),
            # No line ends in the part that is read first.
            (line + b'y' * 5000, line + b'y' * 5000),
            (b'y' * 70_000 + line + b'z' * 5000, b'z' * 5000),
            (b'y' * 100_000, b''),
            (b'y' * 100_000 + b'\n', b''),
        ):
            self.assertEqual(expected, last_whole_lines(io.BytesIO(content)))
