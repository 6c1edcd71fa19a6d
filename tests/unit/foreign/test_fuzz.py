"""Fuzzing of what others send: it is read, or refused with an error of its kind."""

import http.client
import json
import math
import socket
import unittest

import requests
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kiln.compute_drivers.docker.api import client as docker_client
from kiln.errors.masking import redact
from kiln.foreign.answers import NotJson, parse_json, too_deep
from kiln.foreign.exchange import TimedSocket
from kiln.foreign.http import PlainConnection, status_of
from kiln.foreign.text import visible
from kiln.hooks.replies import retry_after
from kiln.openstack.replies import Reply
from tests.examples import examples

NOW = 1_700_000_000.0
#: Pieces of headers, from which nearly valid ones are made.
DATES = st.lists(
    st.sampled_from(
        ('Mon', 'Tue, ', ' ', '1', '31', '29', ' Feb ', ' Jan ', '2024', '0001', '9999', '99',
         ' 00:00:00', '23:59:60', ':', ' GMT', ' -0000', ' +9999', ' +', '9' * 20, '.', '-', ',')
    ),
    max_size=10,
).map(''.join)  # fmt: skip
HEADERS = st.text(max_size=20) | DATES | st.integers().map(str) | st.floats().map(str)
#: Pieces of JSON and what breaks it.
JSON = st.lists(
    st.sampled_from(
        (b'{', b'}', b'[', b']', b'"', b'\\', b'\\u', b'd800', b',', b':', b'1e999', b'-', b'0',
         b'NaN', b'true', b'null', b' ', b'\xff', b'\xef\xbb\xbf', b'[' * 200, b'{"a":' * 200)
    ),
    max_size=20,
).map(b''.join)  # fmt: skip
#: Pieces of answers of HTTP.
WIRE = st.lists(
    st.sampled_from(
        (b'HTTP/1.1 ', b'HTTP/1.0 ', b'HTTP/2 ', b'200', b'100', b'204', b'999', b'-1', b' OK',
         b'\r\n', b'\r\n\r\n', b'\n', b'Content-Length: ', b'5', b'-5', b'9' * 5000, b'x' * 70_000,
         b'Transfer-Encoding: chunked\r\n', b'ffffffffffffffff', b'Set-Cookie: a=b', b': ', b' ',
         b'A: b\r\n' * 101, b'\x00', b'\xff', b'Location: /\r\n', b'Content-Type: text/\xe9\r\n')
    ),
    max_size=12,
).map(b''.join)  # fmt: skip


class Wire(unittest.TestCase):
    @settings(max_examples=examples(100))
    @given(JSON | st.binary(max_size=100))
    def test_any_bytes_are_json_or_refused(self, content):
        try:
            value = parse_json(content)
        except NotJson:
            return
        self.assertFalse(too_deep(content))
        json.dumps(value)

    @settings(max_examples=examples(100))
    @given(
        WIRE
        | st.binary(max_size=200)
        | st.tuples(st.just(b'HTTP/1.1 200 OK\r\n'), WIRE).map(b''.join)
    )
    def test_any_bytes_are_the_status_of_an_answer_or_none(self, content):
        ours, theirs = socket.socketpair()
        connection = PlainConnection('127.0.0.1', 1)
        # The server has ended before it is asked, and what it sent can still be read.
        connection.sock = TimedSocket(ours)
        with theirs:
            # As much as fits without a reader.
            theirs.sendall(content[:100_000])
            theirs.shutdown(socket.SHUT_WR)
            try:
                status = status_of(connection, '/', 30.0)
            except (OSError, http.client.HTTPException):
                return
        self.assertLess(99, status)
        self.assertLess(status, 1000)


class RetryAfter(unittest.TestCase):
    def check(self, seconds):
        if seconds is not None:
            self.assertGreaterEqual(seconds, 0)
            self.assertTrue(math.isfinite(seconds))

    @settings(max_examples=examples(100))
    @given(HEADERS)
    @example('Mon, 01 Jan 2024 00:00:00 +99999999999999999999')
    @example('0\x1f')
    def test_any_retry_after_of_openstack_is_a_time_or_nothing(self, text):
        answer = Reply(service='compute', status=429, headers={'retry-after': text}, body=None)
        self.check(answer.retry_after(NOW))

    @settings(max_examples=examples(100))
    @given(HEADERS)
    def test_any_retry_after_of_a_hook_is_a_time_or_nothing(self, text):
        self.check(retry_after(text))

    @settings(max_examples=examples(100))
    @given(HEADERS, JSON)
    def test_any_error_of_an_engine_is_a_reply(self, text, body):
        response = requests.Response()
        response.status_code, response._content = 500, b'' if too_deep(body) else body
        response.headers['Retry-After'] = text
        error = docker_client.docker.errors.APIError('no', response=response)
        self.check(docker_client._reply(error).retry_after)


class Words(unittest.TestCase):
    @settings(max_examples=examples(100))
    @given(st.text())
    def test_any_text_can_be_masked_and_shown(self, text):
        self.assertEqual(visible(redact(text)), visible(redact(visible(redact(text)))))

    @settings(max_examples=examples(100))
    @given(
        st.text(max_size=30),
        st.text(st.characters(categories=('L', 'N')), min_size=12, max_size=30),
        st.text(max_size=30),
    )
    def test_a_password_in_any_surroundings_is_masked(self, before, secret, after):
        if secret in before or secret in after:
            return
        text = f'{before}\npassword="{secret}"\n{after}'
        self.assertNotIn(secret, redact(text))
