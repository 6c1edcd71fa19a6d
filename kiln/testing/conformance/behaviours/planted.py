"""Search for a planted secret in text, in any encoding that a driver may use; pure."""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Iterator, Mapping
from types import MappingProxyType

_SECRET = 'correct-horse-battery-staple-0x5ec'  # noqa: S105  # planted, and searched for
USER_DATA, FILE, _COMMENT = f'{_SECRET}-of-user-data', f'{_SECRET}-of-file', f'{_SECRET}-of-key'
#: A public key as a whole; its comment is the secret.
KEY = f'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0d {_COMMENT}'
#: Each secret, and the content of a request that has it.
CONTENTS = MappingProxyType(
    {
        USER_DATA: 'user_data of the request',
        FILE: 'the content of a file of the request',
        _COMMENT: 'a key of the request',
        # A content can be cut off.
        _SECRET: 'a content of the request',
    }
)

_BASE64 = re.compile(r'[A-Za-z0-9+/_-]{24,}')
_HEX = re.compile(r'(?:[0-9a-fA-F]{2}){12,}')


def revealed(text: str, secrets: Mapping[str, str], depth: int = 2) -> str:
    """Return the name of the secret that a text has, in whatever encoding; empty if it has none.

    ``secrets`` has each secret with its name.
    """
    if name := next((name for secret, name in secrets.items() if secret in text), ''):
        return name
    inner = _decoded(text) if depth > 0 else ()
    return next(filter(None, (revealed(one, secrets, depth - 1) for one in inner)), '')


def _decoded(text: str) -> Iterator[str]:
    for run in _HEX.findall(text):
        yield from _read(bytes.fromhex(run))
    # Line ends divide what MIME encodes.
    for run in _BASE64.findall(re.sub(r'(?:\\n|\n)', '', text)):
        for begin in range(4):
            whole = run[begin : begin + (len(run) - begin) // 4 * 4]
            try:
                yield from _read(base64.b64decode(whole, altchars=b'-_' if '-' in run else None))
            except binascii.Error:
                continue


def _read(content: bytes) -> Iterator[str]:
    yield content.decode('utf-8', 'ignore')
    try:
        # The beginning of a content that is cut off can be read.
        yield zlib.decompressobj(wbits=47).decompress(content).decode('utf-8', 'ignore')
    except zlib.error:
        return
