"""Answers of hooks: parsing, and messages that are safe to show."""

import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.hooks.replies import (
    LONGEST_MESSAGE,
    Answer,
    NoAnswer,
    Reply,
    clean,
    last_lines,
    parse,
    retry_after,
)


class Parsing(unittest.TestCase):
    def test_an_answer_in_the_format_of_cluster_api_is_parsed(self):
        for text, reply, message, after_s in (
            (b'{"status": "Success"}', Reply.OK, '', None),
            (b'{"status": "Success", "message": "done"}', Reply.OK, 'done', None),
            (b'{"status": "Success", "retryAfterSeconds": 0}', Reply.OK, '', None),
            (
                b'{"status": "Success", "message": "wait", "retryAfterSeconds": 7}',
                Reply.LATER, 'wait', 7.0,
            ),
            (b'{"status": "Failure", "message": "no", "retryAfterSeconds": 7}', Reply.FAILED,
             'no', None),
        ):  # fmt: skip
            with self.subTest(text):
                self.assertEqual(Answer(reply, message, after_s), parse(text))

    def test_a_failure_without_a_message_gets_a_message(self):
        self.assertTrue(parse(b'{"status": "Failure"}').message)

    def test_an_invalid_answer_is_refused_with_the_reason(self):
        for text, why in (
            (b'', 'JSON'),
            (b'\xff', 'JSON'),
            (b'[' * 100_000, 'JSON'),
            (b'[1]', 'object'),
            (b'{}', 'status'),
            (b'{"status": "success"}', 'status'),
            (b'{"status": "Success", "message": 5}', 'message'),
            (b'{"status": "Success", "retryAfterSeconds": "5"}', 'retryAfterSeconds'),
            (b'{"status": "Success", "retryAfterSeconds": true}', 'retryAfterSeconds'),
            (b'{"status": "Success", "retryAfterSeconds": -1}', 'retryAfterSeconds'),
            (b'{"status": "Success", "retryAfterSeconds": NaN}', 'retryAfterSeconds'),
        ):
            with self.subTest(text[:40]), self.assertRaisesRegex(NoAnswer, why):
                parse(text)

    @given(st.binary(max_size=200))
    def test_any_bytes_are_an_answer_or_refused(self, content):
        try:
            parse(content)
        except NoAnswer as exc:
            self.assertTrue(str(exc))

    def test_retry_after_is_read_in_seconds(self):
        for text, wanted in (('7', 7.0), ('1.5', 1.5), (None, None), ('soon', None),
                             ('-1', None), ('inf', None), ('nan', None)):  # fmt: skip
            self.assertEqual(wanted, retry_after(text), text)


class Cleaning(unittest.TestCase):
    def test_a_message_is_one_line_without_control_characters(self):
        self.assertEqual('a b c', clean('a\r\n\tb\x00\u202ec '))
        self.assertEqual('red', clean('\x1b[31mred\x1b[0m\x1b]0;title\x07'))

    def test_letters_of_all_languages_are_kept(self):
        self.assertEqual('Größe 大', clean('Größe 大'))

    def test_secrets_are_removed_from_a_message(self):
        self.assertNotIn('hunter2', Answer.failed('password=hunter2').message)

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
