"""Rules as lines of text."""

import unittest

from kiln.testing.proxy import Answer, Delay, LoseAnswer, Refuse, Reset, html_page, nova_error
from kiln.testing.proxy.rule import FAULTS, parse


class RuleText(unittest.TestCase):
    def test_a_line_says_method_path_and_fault(self):
        made = parse('POST /servers lose_answer times=1')
        self.assertEqual(('POST', '/servers', LoseAnswer()), (made.method, made.path, made.faults))
        self.assertEqual((0, 1, 1.0), (made.skip, made.times, made.chance))

    def test_a_star_is_any_method_and_any_path(self):
        made = parse('* * reset skip=3 chance=0.5')
        self.assertEqual((None, None, Reset()), (made.method, made.path, made.faults))
        self.assertEqual((3, None, 0.5), (made.skip, made.times, made.chance))

    def test_settings_are_read_as_what_they_are(self):
        for line, fault in {
            'delay before=1': Delay(before=1.0),
            'delay after=0.5 then=reset': Delay(after=0.5, then=Reset()),
            'answer status=429 retry_after=7 body=123': Answer(429, '123', retry_after='7'),
            'refuse seconds=2 accept=yes': Refuse(2.0, accept=True),
            'refuse accept=no': Refuse(accept=False),
            'html status=504 text=502': html_page(504, '502'),
            'lose_answer instead=answer': LoseAnswer(Answer()),
            'nova_error status=413 retry_after=5': nova_error(413, retry_after='5'),
        }.items():
            with self.subTest(line):
                self.assertEqual(fault, parse(f'* * {line}').faults)

    def test_every_fault_can_be_said_by_its_name_alone(self):
        for name, make in FAULTS.items():
            with self.subTest(name):
                self.assertEqual(make(), parse(f'* * {name}').faults)

    def test_a_line_that_is_no_rule_says_why(self):
        for line, why in {
            '': 'must be: METHOD PATH FAULT',
            'GET /servers': 'must be: METHOD PATH FAULT',
            '* * explode': "'explode' is not a fault; choose from: answer, close, ",
            '* * reset now': "'now' is not a setting; choose from: skip, times, chance",
            '* * delay during=1': "'during=1' is not a setting; choose from: before, after, then",
            '* * answer headers=x': "'headers=x' is not a setting",
            '* * delay then=explode': "'explode' is not a fault",
            '* * delay before=soon': "could not convert string to float: 'soon'",
            '* /( reset': "'/(' is not a regular expression for a path",
        }.items():
            with self.subTest(line), self.assertRaises(ValueError) as raised:
                parse(line)
            self.assertIn(why, str(raised.exception))
