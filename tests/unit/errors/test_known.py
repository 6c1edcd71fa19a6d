"""Secrets that were read are in nothing that leaves the process, however it is encoded."""

import base64
import json
import unittest
import urllib.parse

from hypothesis import given
from hypothesis import strategies as st

from kiln.errors.known import KNOWN_SECRETS, LONGEST, MOST, SHORTEST, KnownSecrets
from kiln.errors.masking import LONGEST as LONGEST_TEXT
from kiln.errors.masking import redact, redact_all

SECRETS = st.text(st.characters(codec='utf-8'), min_size=SHORTEST, max_size=40)
#: How a server, a library or Python can quote a text.
ENCODINGS = {
    'as it is': lambda text: text,
    'in a URL': lambda text: urllib.parse.quote(text, safe=''),
    'in a form': urllib.parse.quote_plus,
    'in JSON': json.dumps,
    'in JSON with letters of all languages': lambda text: json.dumps(text, ensure_ascii=False),
    'in Python': repr,
    'as bytes in Python': lambda text: repr(text.encode()),
    'in base64': lambda text: base64.b64encode(text.encode()).decode(),
    'behind a name': lambda text: base64.b64encode(b'me:' + text.encode()).decode(),
    'between others': lambda text: base64.b64encode(b'm:' + text.encode() + b'x').decode(),
    'in base64 for a URL': lambda text: base64.urlsafe_b64encode(b'..' + text.encode()).decode(),
    'in hex': lambda text: text.encode().hex(),
    'in capital hex': lambda text: text.encode().hex().upper(),
}


class Masked(unittest.TestCase):
    @given(SECRETS)
    def test_no_encoding_of_a_secret_is_left(self, secret):
        known = KnownSecrets()
        known.note(secret)
        for name, encode in ENCODINGS.items():
            quoted = encode(secret)
            self.assertNotIn(quoted, known.masked(f'Refused: {quoted}, sorry'), name)

    def test_the_letters_around_a_secret_in_base64_do_not_hide_it(self):
        known = KnownSecrets()
        known.note('hunter22')
        for before in ('', 'a', 'ab', 'abc'):
            header = base64.b64encode(f'{before}hunter22{before}'.encode()).decode()
            self.assertIn('***', known.masked(header), before)

    def test_a_secret_that_is_part_of_another_does_not_save_its_rest(self):
        known = KnownSecrets()
        for one in ('hunter', 'hunter-of-night'):
            known.note(one)
        self.assertEqual('a *** b ***', known.masked('a hunter-of-night b hunter'))

    def test_what_occurs_in_ordinary_words_is_no_secret(self):
        known = KnownSecrets()
        known.note('node')
        self.assertEqual('a node', known.masked('a node'))

    def test_the_password_of_a_url_is_one_as_it_is_and_as_it_is_written(self):
        known = KnownSecrets()
        known.note_url('redis://me:p%40ssw0rd@h:1/0')
        known.note_url('http://nobody:1/')
        self.assertEqual('*** *** me', known.masked('p%40ssw0rd p@ssw0rd me'))

    def test_only_the_last_are_remembered_and_of_long_ones_the_beginning(self):
        known = KnownSecrets()
        for number in range(MOST + 1):
            known.note(f'secret-{number:06}')
        self.assertEqual('secret-000000 ***', known.masked('secret-000000 secret-000001'))
        known.note('x' * LONGEST + 'end')
        self.assertEqual('***end', known.masked('x' * LONGEST + 'end'))


class Redacted(unittest.TestCase):
    def setUp(self):
        KNOWN_SECRETS.note('of-no-known-form')

    def test_errors_and_logs_are_masked_by_what_was_read(self):
        self.assertEqual('He said ***.', redact('He said of-no-known-form.'))

    def test_a_text_of_any_length_is_masked_and_not_cut(self):
        line = f'{"x" * 997}\n'
        text = line * 200 + 'password=hunter2 of-no-known-form\n' + line * 200
        masked = redact_all(text)
        self.assertEqual(text.replace('hunter2', '***').replace('of-no-known-form', '***'), masked)
        whole = 'x' * (3 * LONGEST_TEXT + 5)
        self.assertEqual(whole, redact_all(whole))


if __name__ == '__main__':
    unittest.main()
