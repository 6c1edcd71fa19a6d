"""Secrets in what Heat reports: masked before it is cut, in whichever form they are quoted."""

import base64
import dataclasses
import unittest

from kiln.cluster_drivers.heat.secret_masking import hidden
from kiln.clusters.exceptions import ClusterDriverError
from kiln.testing.clusters import samples
from tests.unit.cluster_drivers.heat.driver_case import NAME, DriverCase
from tests.unit.cluster_drivers.heat.fake_heat import Refusal, happens
from tests.unit.cluster_drivers.heat.made import FILE, cluster_of

LINES = ['-----BEGIN CERTIFICATE-----', *(f'{n:02}' * 30 for n in range(20)), '-----END--']
CERTIFICATE = '\n'.join(LINES) + '\n'


class Texts(unittest.TestCase):
    def test_a_secret_is_hidden_in_each_form_in_which_it_is_quoted(self):
        for form in (
            CERTIFICATE, CERTIFICATE.strip(), ' '.join(LINES), repr(CERTIFICATE)[1:-1],
            base64.b64encode(CERTIFICATE.encode()).decode(),
        ):  # fmt: skip
            with self.subTest(form[:40]):
                found = hidden(f'Value {form} is wrong.', (CERTIFICATE,))
                self.assertRegex(found, r'^Value \*\*\*\S{0,4}\n? is wrong\.$')

    def test_the_beginning_of_a_secret_at_the_end_of_a_text_is_hidden(self):
        secret = 'open sesame'
        for text, told in (
            ('Value open ses', 'Value ***'), ('Value open sesame, open s', 'Value ***, ***'),
            ('Value opened', 'Value opened'), ('Value open ses is bad', 'Value open ses is bad'),
            ('to the open', 'to the open'),
        ):  # fmt: skip
            self.assertEqual(told, hidden(text, (secret,)))

    def test_the_longest_of_several_is_hidden_first(self):
        self.assertEqual('*** is too short, ***', hidden('abc is too short, ab', ('ab', 'abc')))

    def test_a_short_secret_is_hidden_as_it_is_alone(self):
        self.assertEqual('a *** c', hidden('a b c', ('b',)))
        self.assertEqual('a b c', hidden('a b c', (' b\n',)))


class Reported(DriverCase):
    def setUp(self):
        super().setUp()
        self.cluster = cluster_of(f'{FILE}parameters: {{user_data: door}}\n')

    def use(self, secret):
        """Let each secret of the cluster have a value."""
        secrets = samples.Secret(secret)
        self.context = dataclasses.replace(self.context, secrets=secrets)

    def refusal(self, message):
        self.heat.refuses = Refusal(400, 'StackValidationFailed', message)
        with self.assertRaises(ClusterDriverError) as caught:
            self.create()
        return f'{caught.exception} {caught.exception.reason}'

    def event(self, reason):
        """Return what a poll tells of a resource that failed, and the reason of the stack."""
        self.heat.refuses = None
        self.create()
        self.heat.work(1.0)
        self.poll()
        happens(self.heat.named(NAME), 'work-1', 'FAILED', reason)
        self.heat.work(1.0)
        (line,) = (one for one in self.poll().events if 'FAILED' in one)
        self.heat.named(NAME)['failure'] = reason
        return line, self.work().reason

    def test_user_data_that_nova_quotes_is_dropped_behind_the_words_of_heat(self):
        self.use('#!/bin/sh\n' + 'x' * 99)
        # The secret is a part of it, so no form of the secret alone matches.
        quoted = base64.b64encode(b'Content-Type: multipart/mixed' * 20).decode()
        said = (
            f'BadRequest: resources.server: Invalid input for field/attribute user_data. Value: '
            f"{quoted}. '{quoted}' is too long (HTTP 400) (Request-ID: req-1)"
        )
        kept = 'Invalid input for field/attribute user_data: is too long'
        for text in (self.refusal(said), *self.event(said)):
            self.assertNotIn(quoted[:40], text)
            self.assertIn(kept, text)

    def test_a_secret_that_is_longer_than_what_is_told_is_masked_whole(self):
        secret = ''.join(f'{n:04x}' for n in range(500))
        self.use(secret)
        said = f'Property error: {secret} is not allowed'
        for text in (self.refusal(said), *self.event(said)):
            self.assertNotIn(secret[:40], text)
            self.assertIn('*** is not allowed', text)

    def test_a_secret_of_several_lines_is_masked_in_what_is_told_as_one(self):
        self.use(CERTIFICATE)
        said = f'Property error: {CERTIFICATE} is not allowed'
        for text in (self.refusal(said), *self.event(said)):
            self.assertNotIn(LINES[1], text)
            self.assertIn('*** is not allowed', text)

    def test_a_secret_of_which_heat_kept_the_beginning_is_masked(self):
        self.use('#!/bin/sh\n' + 'very secret ' * 99)
        for text in self.event('Property error: #!/bin/sh\nvery secret very secr'):
            self.assertNotIn('very', text)
