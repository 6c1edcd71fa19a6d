"""Where messages begin and end, however their bytes come."""

import asyncio
import contextlib
import unittest

import hypothesis
from hypothesis import strategies as st

from kiln.testing.proxy.http1 import LONGEST_HEAD, FramingError, read_answer, read_request

STREAM = (
    b'GET /a HTTP/1.1\r\nHost: x\r\n\r\n'
    b'PUT /b HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc'
    b'PUT /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n'
    b'4;name=value\r\nwiki\r\n5 \r\npedia\r\n0\r\nX-Trailer: 1\r\n\r\n'
    b'PUT /d HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'
    b'PUT /e HTTP/1.0\r\nX: 1\r\nx: 2\r\nContent-Length: 0\r\n\r\n'
)
#: Where each request of the stream is over.
ENDS = [STREAM.index(b'PUT ' + target) for target in (b'/b', b'/c', b'/d', b'/e')] + [len(STREAM)]
BODIES = {'/a': b'', '/b': b'abc', '/c': b'wikipedia', '/d': b'', '/e': b''}


async def read_all(stream):
    """Return the requests of a stream that are complete."""
    messages = []
    with contextlib.suppress(EOFError):
        while True:
            messages.append(await read_request(stream, bytes))
    return messages


async def fed(read, *parts, ended=True):
    """Return what is read from a stream to which parts come one after the other."""
    stream = asyncio.StreamReader(limit=LONGEST_HEAD)
    reading = asyncio.ensure_future(read(stream))
    for part in parts:
        stream.feed_data(part)
        # Lets the reader take all that it can before the next part comes.
        for _ in range(2):
            await asyncio.sleep(0)
    if ended:
        stream.feed_eof()
    elif not reading.done():
        reading.cancel()
    return await reading


class Requests(unittest.TestCase):
    def request(self, text, send=bytes):
        return asyncio.run(fed(lambda stream: read_request(stream, send), text))

    @hypothesis.given(st.lists(st.integers(0, len(STREAM)), max_size=20).map(sorted))
    def test_messages_are_the_same_however_their_bytes_come(self, cuts):
        cut = zip([0, *cuts], [*cuts, len(STREAM)], strict=True)
        messages = asyncio.run(fed(read_all, *(STREAM[start:end] for start, end in cut)))
        self.assertEqual(STREAM, b''.join(message.raw for message in messages))
        self.assertEqual(BODIES, {message.first[1]: message.body for message in messages})
        self.assertEqual('1, 2', messages[-1].headers['x'])

    @hypothesis.given(st.integers(1, len(STREAM) - 1))
    def test_a_stream_that_ends_within_a_message_gives_the_whole_ones_before(self, end):
        messages = asyncio.run(fed(read_all, STREAM[:end]))
        whole = b''.join(message.raw for message in messages)
        self.assertTrue(STREAM[:end].startswith(whole))
        self.assertEqual(sum(end >= ends for ends in ENDS), len(messages))

    def test_whether_a_connection_lasts_is_for_version_and_header_to_say(self):
        for version, header, lasting in (
            ('1.1', 'X: y', True),
            ('1.1', 'Connection: Close', False),
            ('1.0', 'X: y', False),
            ('1.0', 'Connection: Keep-Alive', True),
        ):
            request = self.request(f'GET / HTTP/{version}\r\n{header}\r\n\r\n'.encode())
            self.assertIs(lasting, request.lasting, (version, header))

    def test_a_client_that_waits_for_permission_gets_it_once(self):
        given = []
        head = b'PUT / HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-Continue\r\n\r\n'
        self.assertEqual(b'ab', self.request(head + b'ab', given.append).body)
        self.assertEqual([b'HTTP/1.1 100 Continue\r\n\r\n'], given)

    def test_what_can_be_no_request_is_an_error(self):
        for text in (
            b'GET /\r\n\r\n',
            b'GET / SPDY/3\r\n\r\n',
            b'PUT / HTTP/1.1\r\nContent-Length: 1x\r\n\r\n',
            b'PUT / HTTP/1.1\r\nContent-Length: \xb2\r\n\r\n',
            b'PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-7\r\n',
            b'PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\r\n',
            b'x' * (LONGEST_HEAD + 10),
        ):
            with self.subTest(text[:60]), self.assertRaises(FramingError):
                self.request(text)


class Answers(unittest.TestCase):
    def answer(self, text, *, head=False, ended=True):
        return asyncio.run(
            fed(lambda stream: read_answer(stream, to_head=head), text, ended=ended)
        )

    def test_what_comes_before_an_answer_is_none(self):
        early = b'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n'
        with self.assertRaises(EOFError):
            self.answer(early)
        self.assertEqual(204, self.answer(early + b'HTTP/1.1 204 No Content\r\n\r\n').status)

    def test_a_length_without_a_body_belongs_to_head_and_not_modified(self):
        for status, head in (('200 OK', True), ('304 Not Modified', False)):
            text = f'HTTP/1.1 {status}\r\nContent-Length: 5\r\n\r\n'.encode()
            self.assertEqual(b'', self.answer(text, head=head, ended=False).body)

    def test_without_a_length_the_end_of_the_connection_ends_the_answer(self):
        text = b'HTTP/1.1 200 OK\r\n\r\nsome'
        with self.assertRaises(asyncio.CancelledError):
            self.answer(text, ended=False)
        answer = self.answer(text)
        self.assertEqual((b'some', False), (answer.body, answer.lasting))

    def test_a_reason_may_be_missing(self):
        self.assertEqual(204, self.answer(b'HTTP/1.1 204\r\n\r\n').status)

    def test_what_can_be_no_answer_is_an_error(self):
        for text in (b'220 ready\r\n\r\n', b'HTTP/1.1\r\n\r\n', b'HTTP/1.1 OK\r\n\r\n'):
            with self.subTest(text), self.assertRaises(FramingError):
                self.answer(text)
