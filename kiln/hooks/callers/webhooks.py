"""Webhooks: signed HTTP POST requests, without redirects and proxies."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import ssl
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kiln.clock import SYSTEM_CLOCK, Clock
from kiln.exceptions import KNOWN_SECRETS
from kiln.foreign.answers import Flood, read_at_most, words
from kiln.foreign.exchange import exchange
from kiln.foreign.http import PlainConnection, TlsConnection
from kiln.hooks.callers.watchdog import Watchdog
from kiln.hooks.hook import Webhook
from kiln.hooks.replies import MAX_ANSWER, Answer, NoAnswer, parse, retry_after
from kiln.plugins.foreign_files import unsafe_because

#: The largest payload, in bytes.
MAX_DOCUMENT = 1024 * 1024
_LATER = frozenset({429, 503})
_MAX_SECRET = 64 * 1024
#: The shortest key of a signature, in bytes.
MIN_SECRET = 16


def sign(secret: bytes, timestamp: str, body: bytes) -> str:
    """Return the HMAC signature of a timestamp and a body."""
    return hmac.new(secret, timestamp.encode() + b'.' + body, hashlib.sha256).hexdigest()


def call_webhook(
    watchdog: Watchdog,
    webhook: Webhook,
    document: Mapping[str, Any],
    timeout_s: float,
    *,
    clock: Clock = SYSTEM_CLOCK,
) -> Answer:
    """Post the payload; return the answer of the server, or a failure at the timeout."""
    body = json.dumps(document).encode()
    if len(body) > MAX_DOCUMENT:
        return Answer.failed(f'the payload has more than {MAX_DOCUMENT} bytes')
    try:
        headers = _headers(webhook, document['invocation'], body, clock)
        status, after_s, content = watchdog.run(
            document['invocation'], lambda: _post(webhook, headers, body, timeout_s), timeout_s
        )
    except Flood:
        return Answer.failed(f'its answer has more than {MAX_ANSWER} bytes')
    except (OSError, http.client.HTTPException, ValueError) as exc:
        return Answer.failed(f'it did not answer: {words(exc)}')
    return _answer(status, after_s, content)


def _headers(webhook: Webhook, key: str, body: bytes, clock: Clock) -> Mapping[str, str]:
    timestamp = str(int(clock.time()))
    headers = {
        'Content-Type': 'application/json',
        'User-Agent': 'kiln',
        'Idempotency-Key': key,
        'Kiln-Timestamp': timestamp,
    }
    if webhook.secret_file:
        # Read for each call, so that a new secret is used at once.
        secret = _secret(Path(webhook.secret_file))
        headers['Kiln-Signature'] = f'sha256={sign(secret, timestamp, body)}'
    return headers


def _secret(path: Path) -> bytes:
    """Return the key of signatures.

    :raises ValueError: other users could read or change it, or it is too short to keep one from
        guessing it.
    """
    if unsafe := unsafe_because(path, private=True):
        raise ValueError(f'its secret_file cannot be used: {unsafe}')
    with path.open('rb') as file:
        secret = file.read(_MAX_SECRET).strip()
    if len(secret) < MIN_SECRET:
        raise ValueError(f'its secret_file has fewer than {MIN_SECRET} bytes; write a longer one')
    KNOWN_SECRETS.note(secret.decode('utf-8', 'surrogateescape'))
    return secret


def _post(
    webhook: Webhook, headers: Mapping[str, str], body: bytes, timeout_s: float
) -> tuple[int, float | None, bytes]:
    # http.client instead of a higher-level library: it follows no redirects, uses no
    # proxy of the environment, and reads only as much as requested.
    url = urllib.parse.urlsplit(webhook.url)
    assert url.hostname is not None
    connection: http.client.HTTPConnection
    if url.scheme == 'https':
        trusted = ssl.create_default_context(cafile=webhook.ca_file)
        connection = TlsConnection(url.hostname, url.port, trusted)
    else:
        connection = PlainConnection(url.hostname, url.port)
    path = urllib.parse.urlunsplit(('', '', url.path or '/', url.query, ''))
    try:
        # The watchdog leaves a late thread behind; this ends the thread as well.
        with exchange(timeout_s):
            connection.request('POST', path, body, dict(headers))
            with connection.getresponse() as response:
                after_s = retry_after(response.getheader('Retry-After'))
                return response.status, after_s, read_at_most(response, MAX_ANSWER)
    finally:
        connection.close()


def _answer(status: int, after_s: float | None, content: bytes) -> Answer:
    if 300 <= status < 400:
        return Answer.failed(f'it sent a redirect (HTTP {status}), which is not followed')
    try:
        said = parse(content)
    except NoAnswer as exc:
        if status == http.client.NO_CONTENT:
            return Answer.ok()
        if status in _LATER:
            return Answer.later(f'it is not ready (HTTP {status})', after_s)
        if status >= 400:
            return Answer.failed(f'it refused (HTTP {status})')
        return Answer.failed(f'its answer cannot be used: {exc}')
    if status in _LATER:
        return Answer.later(said.message, said.after_s or after_s)
    if status >= 400:
        return Answer.failed(f'it refused (HTTP {status}): {said.message}')
    return said
