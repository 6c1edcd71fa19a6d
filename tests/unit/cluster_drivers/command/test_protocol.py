"""The protocol of programs: what is read of their lines, and what their exit status means."""

import json
import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.cluster_drivers.command import protocol
from kiln.cluster_drivers.command.protocol import (
    API,
    LONGEST_LINE,
    MOST_BYTES,
    MOST_LINES,
    REFUSED,
    Condition,
    Ending,
    Nonsense,
    Verb,
    answer,
    read_output,
)


def lines(*said):
    return b''.join(json.dumps(one).encode() + b'\n' for one in said)


PROGRESS = {'type': 'progress', 'message': 'a machine is up'}
STATE = {'type': 'state', 'state': {'stack': 7}, 'handle': 'stack-7'}
RESULT = {'type': 'result', 'outputs': {'url': 'http://a/'}}


class Lines(unittest.TestCase):
    def test_the_lines_of_a_program_are_read(self):
        found = read_output(lines(PROGRESS, STATE, PROGRESS, RESULT))
        self.assertEqual(('a machine is up',) * 2, found.progress)
        self.assertEqual(({'stack': 7}, 'stack-7'), (found.state, found.handle))
        self.assertEqual((RESULT, ''), (found.result, found.nonsense))

    def test_the_last_state_counts(self):
        later = {'type': 'state', 'state': {'stack': 8}}
        found = read_output(lines(STATE, later))
        self.assertEqual(({'stack': 8}, 'stack-7'), (found.state, found.handle))

    def test_half_a_line_of_a_program_at_work_is_not_read(self):
        content = lines(PROGRESS) + b'{"type": "sta'
        self.assertEqual('', read_output(content, ended=False).nonsense)
        self.assertIn('line 2 of its output is not JSON', read_output(content).nonsense)

    def test_a_last_line_without_an_end_counts_once_the_program_has_ended(self):
        self.assertEqual(RESULT, read_output(lines(RESULT).rstrip()).result)

    def test_unknown_fields_and_types_are_ignored(self):
        found = read_output(lines({'type': 'metric', 'value': 1}, {**RESULT, 'new': [1]}))
        self.assertEqual(('', [1]), (found.nonsense, found.result['new']))

    def test_nonsense_is_one_sentence_with_its_line(self):
        for line, words in (
            (b'Hello, world', "is not JSON: 'Hello, world'"),
            (b'\xff\xfe', 'is not JSON'),
            (b'[' * 1000, 'is nested more than 40 deep'),
            (b'{"a": NaN}', 'is not JSON'),
            (b'{"a": -1e999}', 'is not JSON'),
            (b'[1]', 'is not a JSON object'),
            (b'{"message": "x"}', 'has no type, such as "progress" or "result"'),
            (b'{"type": 1}', 'has no type, such as "progress" or "result"'),
            (b'{"type": "progress"}', 'has no message'),
            (b'{"type": "error", "message": " "}', 'has no message'),
            (b'{"type": "state"}', 'has neither a state nor a handle'),
            (b'{"type": "state", "state": [1]}', 'has a state that is not a JSON object'),
            (b'{"type": "state", "handle": ""}', 'has a handle that is not a text'),
            (b'{"type": "state", "handle": "%s"}' % (b'x' * 256), 'has a handle that is not'),
        ):
            with self.subTest(line[:40]):
                found = read_output(lines(PROGRESS) + line + b'\n' + lines(STATE))
                self.assertIn(f'line 2 of its output {words}', found.nonsense)
                self.assertEqual({'stack': 7}, found.state, 'what follows is where resources are')

    def test_two_results_are_one_too_many(self):
        found = read_output(lines(RESULT, RESULT))
        self.assertEqual('line 2 of its output is a second result', found.nonsense)

    def test_no_more_is_read_than_the_limits(self):
        long = read_output(b'{"type": "progress", "message": "%s"}' % (b'x' * LONGEST_LINE))
        self.assertIn(f'has more than {LONGEST_LINE} bytes', long.nonsense)
        many = read_output(lines(PROGRESS) * (MOST_LINES + 5) + lines(STATE, RESULT))
        self.assertIn(f'line {MOST_LINES + 1} of its output is one too many', many.nonsense)
        self.assertEqual(MOST_LINES, len(many.progress))
        self.assertEqual(({'stack': 7}, True), (many.state, many.result is not None))
        much = read_output(lines(STATE) + b'x' * MOST_BYTES)
        self.assertEqual(f'its output has more than {MOST_BYTES} bytes', much.nonsense)
        self.assertEqual({'stack': 7}, much.state)

    def test_messages_are_short_lines_without_what_looks_like_a_secret(self):
        said = {'type': 'progress', 'message': 'password=hunter2\n\x1b[31m' + 'x' * 9999}
        (message,) = read_output(lines(said)).progress
        self.assertNotIn('hunter2', message)
        self.assertLessEqual(len(message), 500)
        self.assertTrue(message.isprintable())

    @given(st.binary(max_size=300))
    def test_any_bytes_are_read_without_an_error(self, content):
        for ended in (True, False):
            found = read_output(content, ended=ended)
            answer(0, found, content)


class Endings(unittest.TestCase):
    def test_the_exit_status_decides(self):
        good = read_output(lines(RESULT))
        for status, ending in (
            (0, Ending.DONE), (75, Ending.LATER), (REFUSED, Ending.REFUSED), (1, Ending.FAILED),
            (-9, Ending.FAILED),
        ):  # fmt: skip
            self.assertIs(ending, answer(status, good, b'').ending)

    def test_a_program_that_is_done_has_printed_a_result(self):
        found = answer(0, read_output(lines(PROGRESS)), b'')
        self.assertEqual('it ended with status 0 and without a result', found.message)
        self.assertIs(Ending.FAILED, found.ending)

    def test_a_program_that_is_done_has_printed_no_nonsense(self):
        found = answer(0, read_output(b'Ready.\n' + lines(RESULT)), b'')
        self.assertIs(Ending.FAILED, found.ending)
        self.assertEqual("line 1 of its output is not JSON: 'Ready.'", found.message)

    def test_a_failure_has_the_words_of_the_program(self):
        error = read_output(lines({'type': 'error', 'message': 'no quota'}))
        self.assertEqual('it ended with status 1: no quota', answer(1, error, b'trace').message)
        silent = read_output(b'')
        self.assertEqual('it ended with status 2: a / b', answer(2, silent, b'a\nb\n').message)
        self.assertEqual('it ended with signal 15', answer(-15, silent, b'').message)
        self.assertEqual('it gives no reason', answer(REFUSED, silent, b'').message)

    def test_a_program_says_when_to_call_it_again_within_limits(self):
        for said, expected in (
            ({}, 10.0), ({'after_s': 30}, 30.0), ({'after_s': 0}, 1.0), ({'after_s': 1e9}, 300.0),
            ({'after_s': True}, 10.0), ({'after_s': 'soon'}, 10.0),
            ({'after_s': float('nan')}, 10.0), ({'after_s': 10**400}, 300.0),
        ):  # fmt: skip
            found = answer(75, read_output(lines({'type': 'result', **said})), b'')
            self.assertEqual(expected, found.after_s)


class Results(unittest.TestCase):
    VERBS = tuple(one.value for one in Verb)

    def refused(self, call, result):
        with self.assertRaises(Nonsense) as caught:
            call(result)
        return str(caught.exception)

    def test_a_program_describes_itself(self):
        for api in (API, [API], ['kiln.command/2', f'{API}.3']):
            found = protocol.description({'api': api, 'verbs': [*self.VERBS, 'dance']})
            self.assertEqual(set(Verb), found.verbs)

    def test_validate_plan_and_cancel_can_be_left_out(self):
        verbs = [one for one in self.VERBS if one not in ('validate', 'plan', 'cancel')]
        self.assertEqual(5, len(protocol.description({'api': API, 'verbs': verbs}).verbs))
        wrong = {'api': API, 'verbs': ['describe', 'status']}
        said = self.refused(protocol.description, wrong)
        self.assertEqual('it lacks the verbs create, delete, update', said)

    def test_another_major_version_is_refused_by_its_name(self):
        for api in ('kiln.command/2', ['kiln.command/10'], []):
            said = self.refused(protocol.description, {'api': api, 'verbs': list(self.VERBS)})
            self.assertIn("this kiln speaks 'kiln.command/1'", said)
        self.assertIn('no "api"', self.refused(protocol.description, {'verbs': list(self.VERBS)}))
        self.assertIn('"verbs"', self.refused(protocol.description, {'api': API}))

    def test_a_status_has_a_condition(self):
        self.assertIs(Condition.LOST, protocol.condition({'condition': 'lost'}))
        for wrong in ({}, {'condition': 'fine'}, {'condition': ['lost']}):
            self.assertIn('one of complete', self.refused(protocol.condition, wrong))

    def test_outputs_are_an_object_or_left_out(self):
        self.assertEqual({'a': 1}, protocol.outputs({'outputs': {'a': 1}}))
        self.assertIsNone(protocol.outputs({}))
        self.assertIn('"outputs"', self.refused(protocol.outputs, {'outputs': 'a'}))

    def test_problems_have_a_message_and_a_place(self):
        result = {'problems': [{'message': 'too big', 'path': 'parameters.size'}]}
        (found,) = protocol.problems(result)
        self.assertEqual(('too big', 'parameters.size'), (found.message, found.path))
        self.assertEqual([], list(protocol.problems({})))
        for wrong in ('a', ['a'], [{}], [{'message': ' '}]):
            self.assertIn('problems', self.refused(protocol.problems, {'problems': wrong}))

    def test_changes_are_texts_and_an_empty_list_is_an_answer(self):
        self.assertEqual(['web: +2'], protocol.changes({'changes': ['web: +2']}))
        self.assertEqual([], protocol.changes({'changes': []}))
        for wrong in ({}, {'changes': 'web'}, {'changes': [1]}):
            self.assertIn('"changes"', self.refused(protocol.changes, wrong))


if __name__ == '__main__':
    unittest.main()
