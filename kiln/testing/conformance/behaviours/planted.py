"""Search for a planted secret in text, in any encoding that a driver may use; pure."""

from __future__ import annotations

import base64
import binascii
import re
import traceback
import zlib
from collections.abc import Iterator

from kiln.exceptions import AmphoraComputeError

SECRET = 'correct-horse-battery-staple-0x5ec'  # noqa: S105  # planted, and searched for
#: A public key as a whole; its comment is the secret.
KEY = f'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0d {SECRET}'

_BASE64 = re.compile(r'[A-Za-z0-9+/_-]{24,}')
_HEX = re.compile(r'(?:[0-9a-fA-F]{2}){12,}')


def reveals(text: str, depth: int = 2) -> bool:
    """Return True if a text has the secret, or an encoding of a content that has it."""
    if SECRET in text:
        return True
    return depth > 0 and any(reveals(inner, depth - 1) for inner in _decoded(text))


def words_of(error: BaseException) -> str:
    """Return all that a log or a traceback would show of an error and of its causes."""
    facts = error.to_dict() if isinstance(error, AmphoraComputeError) else ''
    return f'{error} {error!r} {facts} {"".join(traceback.format_exception(error))}'


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
