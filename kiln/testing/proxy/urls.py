"""Makes the answers of servers name proxies where they name servers.

Most services make their links of the host that a request names, and that is the
proxy already. What is configured names the server: the catalogue in a token,
and links behind a public endpoint or a prefix.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kiln.testing.proxy.http1 import Message, Parser

_FRAMING = (b'content-length:', b'transfer-encoding:')


def renamed(answer: Message, urls: Mapping[str, str]) -> Message:
    """Return an answer with other URLs, and what stands below them, in place of these.

    Only headers and JSON are looked through; not a byte of the rest changes.
    """
    if not urls:
        return answer
    names = {old.rstrip('/').encode(): new.rstrip('/').encode() for old, new in urls.items()}
    # The longest first, for one service may live below another; and whole
    # words, for port 877 is not the beginning of port 8774.
    known = b'|'.join(re.escape(old) for old in sorted(names, key=len, reverse=True))
    replace = re.compile(rb'(?:%b)(?![\w.:-])' % known)

    def rename(text: bytes) -> bytes:
        return replace.sub(lambda found: names[found[0]], text)

    head, body = rename(answer.raw[: answer.body_at]), answer.raw[answer.body_at :]
    if 'json' in answer.headers.get('content-type', ''):
        plain = answer.body
        other = rename(plain)
        if other != plain:
            head, body = _framed(head, len(other)), other
    return _parsed(head, body) if head + body != answer.raw else answer


def _framed(head: bytes, size: int) -> bytes:
    """Return the head of a body that comes whole and has this size."""
    lines = [
        line for line in head.split(b'\r\n') if line and not line.lower().startswith(_FRAMING)
    ]
    return b'\r\n'.join([*lines, b'Content-Length: %d' % size, b'', b''])


def _parsed(head: bytes, body: bytes) -> Message:
    parser = Parser(answers=True)
    parser.answers_head = not body
    parser.feed(head + body)
    parser.end()
    answer = parser.take()
    assert answer is not None
    return answer
