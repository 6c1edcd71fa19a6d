"""Replacement of URLs in answers, so that they lead to proxies and not to servers.

Most services build their links from the host that a request names, and that is the
proxy already. Configured URLs name the server: the catalogue in a token, and links
behind a public endpoint or a prefix.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kiln.testing.proxy.http1 import Message, parse_head

_FRAMING = (b'content-length:', b'transfer-encoding:')


def renamed(answer: Message, urls: Mapping[str, str]) -> Message:
    """Return an answer with other URLs in place of these, also at the start of longer ones.

    Only headers and JSON are searched; not a byte of the rest changes.
    """
    if not urls:
        return answer
    names = {old.rstrip('/').encode(): new.rstrip('/').encode() for old, new in urls.items()}
    # The longest first, because a service can be mounted below another; and whole
    # words, because port 877 is not the beginning of port 8774.
    known = b'|'.join(re.escape(old) for old in sorted(names, key=len, reverse=True))
    replace = re.compile(rb'(?:%b)(?![\w.:-])' % known)

    def rename(text: bytes) -> bytes:
        return replace.sub(lambda found: names[found[0]], text)

    old_head, old_body = answer.raw[: answer.body_at], answer.raw[answer.body_at :]
    head = rename(old_head)
    if 'json' in answer.headers.get('content-type', ''):
        plain = answer.body
        body = rename(plain)
        if body != plain:
            return parse_head(_framed(head, len(body))).with_body(body)
    if head == old_head:
        return answer
    return parse_head(head).with_body(old_body, until_closed=answer.until_closed)


def _framed(head: bytes, size: int) -> bytes:
    """Return the head with the length of a body that is not sent in chunks."""
    lines = [
        line for line in head.split(b'\r\n') if line and not line.lower().startswith(_FRAMING)
    ]
    return b'\r\n'.join([*lines, b'Content-Length: %d' % size, b'', b''])
