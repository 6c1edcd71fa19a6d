"""Answers of hooks: parsing, and messages that are safe to show."""

import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.hooks.replies import Answer, NoAnswer, Reply, parse, retry_after


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
            (b'{"status": "Success", "retryAfterSeconds": NaN}', 'not JSON'),
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
