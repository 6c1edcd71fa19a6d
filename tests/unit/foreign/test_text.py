"""Text of others as people see it."""

import io
import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.cli.exit_codes import explain
from kiln.cli.output.visible_stream import drawn_on, visible_stream
from kiln.cluster_service.why import Reason
from kiln.clusters.models import Cause
from kiln.exceptions import AmphoraComputeError, BuildFailed
from kiln.foreign.text import plain, visible

#: Characters that a terminal acts on, or that turn text round.
ACTING = [chr(code) for code in (*range(9), 11, 12, *range(14, 32), *range(0x7F, 0xA0))]
ACTING += [chr(code) for code in (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F))]
ACTING += [chr(code) for code in (*range(0x2066, 0x206A), 0xFEFF, 0xE0041, 0xD800)]


class Visible(unittest.TestCase):
    def test_characters_that_act_are_shown_as_escapes(self):
        self.assertEqual(visible('a\x1b[2J\x07b\u202ec'), 'a\\x1b[2J\\x07b\\u202ec')
        for one in ACTING:
            self.assertTrue(visible(f'a{one}b').isprintable(), repr(one))
            self.assertEqual(plain(f'a{one}b'), 'a b')

    def test_words_of_any_language_lines_and_tabs_stay(self):
        for text in ('déjà vu', 'שלום', '日本', 'नी\u200cय', 'a\tb\nc\r\nd', '👩\u200d🚀'):
            self.assertEqual(visible(text), text)

    @given(st.text())
    def test_visible_text_can_be_encoded_and_is_visible_already(self, text):
        shown = visible(text)
        shown.encode()
        self.assertEqual(visible(shown), shown)
        self.assertEqual(len(plain(text).splitlines()), bool(plain(text)))

    def test_a_line_has_no_rest_of_a_terminal_sequence(self):
        self.assertEqual(plain('\x1b]0;title\x07\x1b[31mred\x1b[0m\nnext'), 'red next')


class Shown(unittest.TestCase):
    def test_an_error_shows_what_it_was_told_without_effect(self):
        error = BuildFailed('no\x1b[2J', fault='\u202eoops', request_id='req\x07')
        self.assertEqual(str(error), 'no\\x1b[2J')
        self.assertEqual((error.fault, error.request_id), ('\\u202eoops', 'req\\x07'))

    def test_an_error_is_cut_where_it_gets_too_long_and_says_so(self):
        error = AmphoraComputeError('x' * 100_000)
        self.assertEqual(len(str(error)), AmphoraComputeError.longest)
        self.assertRegex(str(error), r'\[\.\.\. \d+ characters\]$')
        self.assertEqual(str(AmphoraComputeError(str(error))), str(error))

    def test_the_reason_of_a_node_cannot_act_on_the_terminal_of_its_reader(self):
        """Finding M6: a node could erase and fake what kiln why shows."""
        cause = Cause(code='x', message='a\x1b[2J', because=Cause(code='y', message='\u202eb'))
        lines = [*Reason(about='web', said='not ready', cause=cause, do=('c\x07',)).lines()]
        self.assertEqual(
            ['web: not ready', '  because: a\\x1b[2J', '    because: \\u202eb', '  you: c\\x07'],
            lines,
        )
        self.assertIn('\\x1b[2J', explain(BuildFailed('no\x1b[2J')))
        self.assertIn('\\x1b[2J', explain(OSError('no\x1b[2J')))

    def test_a_stream_of_commands_shows_escapes_except_to_what_draws_itself(self):
        below = io.StringIO()
        stream = visible_stream(below)
        stream.write('a\x1b[2Jb\n')
        drawn_on(stream).write('\x1b[0m')
        self.assertEqual(below.getvalue(), 'a\\x1b[2Jb\n\x1b[0m')
        self.assertFalse(stream.isatty())
