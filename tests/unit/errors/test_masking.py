"""Masking: what is a credential, and how long the search for one can take."""

import re
import time
import unittest

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kiln.errors.masking import LONGEST, cut, redact, told
from tests.turns import turns

SECRET = 'Zq9vZq9vZq9v'
#: The longest time for a text of a megabyte; a quadratic search takes thousands of turns.
MOST_TURNS = 40

#: Pieces from which texts are made that are slow to search, or hide a credential.
PIECES = (
    'password', 'passwd', 'token', 'secret', 'credential', 'credentials: ', 'api-key',
    'private_key', 'cookie', 'bearer ', 'authorization', 'basic ', '://', '://:', 'a:', '@', '/',
    '=', ': ', '"', "'", '\\', ' ', '   ', '\n', ',', '{', '}', '--', '-', 'SWMTKN-', 'Aa aa ',
    '-----BEGIN ', 'PRIVATE KEY-----', '-----END', 'x', '***', 'b',
)  # fmt: skip

#: The former patterns, whose search was slow; all that they masked stays masked.
FORMER = (
    re.compile(r'(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(-----END|\Z)', re.DOTALL),
    re.compile(r'(://[^/\s:@]*:)[^\s/]+(@)'),
    re.compile(
        r'(\b(?:bearer|authorization["\']?\s*[:=]\s*["\']?basic)\s+)[\w.~+/=-]+()', re.IGNORECASE
    ),
    re.compile(
        r'((?:password|passwd|secret|token|api[_-]?key|private[_-]?key'
        r'|credential(?!s: (?-i:[A-Z][a-z]+ [a-z]+ [a-z]+)))\w*'
        r'["\']?\s*[:=]\s*["\']?)[^"\'\s,;&}]+()',
        re.IGNORECASE,
    ),
)


def formerly(text):
    for pattern in FORMER:
        text = pattern.sub(r'\1***\2', text)
    return text


def texts():
    return st.lists(st.sampled_from((*PIECES, SECRET, SECRET)), max_size=14).map(''.join)


class SecretsTest(unittest.TestCase):
    def test_a_credential_is_masked_in_every_form(self):
        """Finding L5: some forms were not known, and quoted values kept their ends."""
        for text in (
            f"{{'adminPass': '{SECRET}'}}",
            f'{{"server": {{"adminPass": "{SECRET}"}}}}',
            f'SWMTKN-1-{SECRET}-{SECRET}',
            f'docker swarm join --token SWMTKN-1-{SECRET} 10.0.0.1:2377',
            f'Cookie: a=b; session={SECRET}; c=d',
            f'Set-Cookie: sid={SECRET}; Path=/',
            f"{{'Cookie': 'a=b; session={SECRET}'}}",
            f'https://u:p/{SECRET}@east',
            f'https://u:p@{SECRET}@east',
            f'https://u:p/a@{SECRET}@east/path',
            f'mysql --password {SECRET} -h east',
            f'mysql --password="a {SECRET} b" -h east',
            f'curl --token "a {SECRET}"',
            f'Driver=x;pwd={SECRET};',
            f'tailscale up --authkey={SECRET}',
            f'authkey: {SECRET}',
            f'password="p,w;d&{SECRET}"',
            f"password='a b {SECRET} c'",
            f'password="a \\" {SECRET}"',
            f'"{{\\"password\\": \\"a {SECRET}\\"}}"',
            f"password=b'{SECRET}'",
            f'password="never closed {SECRET}',
            f'-----BEGIN PGP PRIVATE KEY BLOCK-----\n{SECRET}\n-----END',
        ):
            with self.subTest(text):
                self.assertNotIn(SECRET, redact(text))

    def test_text_behind_a_quoted_credential_stays_readable(self):
        self.assertEqual(redact('password="a b", says east.'), 'password="***", says east.')
        self.assertEqual(redact('Give --token or --key.'), 'Give --token or --key.')
        self.assertEqual(redact('https://u:p/w@east/x y'), 'https://u:***@east/x y')

    @settings(max_examples=400, derandomize=True)
    @given(texts())
    @example(f'password = {SECRET}')
    @example(f'token\n: "{SECRET}')
    @example(f'tokenapi-key={SECRET}')
    @example(f'://a:b://c:{SECRET}@')
    def test_what_was_once_masked_stays_masked(self, text):
        if SECRET not in formerly(text):
            self.assertNotIn(SECRET, redact(text))

    @settings(max_examples=400, derandomize=True)
    @given(texts())
    def test_masking_twice_is_masking_once(self, text):
        self.assertEqual(redact(redact(text)), redact(text))


class TimeTest(unittest.TestCase):
    """Finding H1: an answer of 128 kB kept all threads waiting for a minute."""

    @settings(max_examples=60, deadline=None, derandomize=True)
    @given(
        st.lists(st.sampled_from(PIECES), max_size=4).map(''.join),
        st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map(''.join),
        st.sampled_from(('', *PIECES)),
    )
    @example('', 'password', '')
    @example('', '://:', '@')
    @example('', 'token   ', '')
    @example('', '-----BEGIN PRIVATE KEY', '')
    @example('password="', '\\', '')
    def test_a_megabyte_takes_no_longer_than_the_limit(self, begin, middle, end):
        text = f'{begin}{middle * (1_000_000 // len(middle))}{end}'
        if turns(lambda: redact(text)) > MOST_TURNS:
            # Once more: this thread pays for the garbage of others.
            self.assertLess(turns(lambda: redact(text)), MOST_TURNS)

    def test_the_time_grows_no_faster_than_the_text(self):
        for piece in PIECES:
            with self.subTest(piece):
                few, many = (
                    self._took_s(piece * (size // len(piece))) for size in (4096, LONGEST)
                )
                self.assertLess(many, 40 * few + 0.005)

    @staticmethod
    def _took_s(text):
        took = []
        for _ in range(3):
            began = time.thread_time()
            redact(text)
            took.append(time.thread_time() - began)
        return min(took)


class ToldTest(unittest.TestCase):
    def test_the_end_of_a_long_error_is_kept_as_it_says_what_to_do(self):
        shown = told(f'No cluster {"a" * 5000}. List them first.', 1000)
        self.assertEqual(1000, len(shown))
        self.assertTrue(shown.startswith('No cluster aaa'), shown)
        self.assertTrue(shown.endswith('a. List them first.'), shown)
        self.assertIn(' [... 5029 characters ...] ', shown)
        self.assertEqual(shown, told(shown, 1000))
        self.assertEqual('short', told('short', 10))

    def test_a_credential_is_masked_before_the_word_that_names_it_is_cut_out(self):
        shown = told(f'{"a" * 900} password={"S3cret" * 200}. Wait.', 1000)
        self.assertNotIn('S3cret', shown)


class CutTest(unittest.TestCase):
    def test_a_cut_text_says_how_long_it_was_and_has_the_length_that_was_asked(self):
        shown = cut('a' * 5000, 100)
        self.assertEqual(len(shown), 100)
        self.assertTrue(shown.endswith(' [... 5000 characters]'), shown)
        self.assertEqual(cut(shown, 100), shown)
        self.assertEqual(cut('short', 100), 'short')
