"""User data for cloud-init that carries files and public keys; pure.

Nova accepts at most 65,535 characters of base64. Larger content is compressed, first each
file and then the whole.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import zlib
from collections.abc import Sequence

from kiln.models import InjectedFile

#: Bytes before base64; Nova's schema allows 65,535 characters after it.
MAX_BYTES = 49_149

_GZIP = b'\x1f\x8b'
# Two parts that both write files would replace each other; with this merge type kiln's
# part is appended to the caller's part.
_MERGE = 'list(append)+dict(no_replace,recurse_list)+str()'


def compose(
    user_data: bytes | None, files: Sequence[InjectedFile], keys: Sequence[str] = ()
) -> bytes | None:
    """Return user data with the caller's own content, files and public keys.

    The result can still be too large; the caller must check its size.
    """
    if not files and not keys:
        return user_data
    parts = [_callers(user_data)] if user_data else []
    parts.append(_ours(files, keys))
    whole = _multipart(parts)
    return whole if len(whole) <= MAX_BYTES else gzip.compress(whole, 9, mtime=0)


def _ours(files: Sequence[InjectedFile], keys: Sequence[str]) -> bytes:
    """Return files and keys as a part."""
    config: dict[str, object] = {}
    if files:
        config['write_files'] = [_entry(file) for file in files]
    if keys:
        config['ssh_authorized_keys'] = list(keys)
    # YAML and JSON escape characters beyond sixteen bits differently, so these
    # characters are not escaped.
    ours = '#cloud-config\n' + json.dumps(config, sort_keys=True, ensure_ascii=False)
    return _part('cloud-config', ours.encode(), f'Merge-Type: {_MERGE}\n')


def compose_text(
    user_data: bytes | None, files: Sequence[InjectedFile], keys: Sequence[str] = ()
) -> bytes | None:
    """Return the same as :func:`compose` for a backend that takes text only, in UTF-8.

    Content that is not text, or too large, is compressed by itself and written as text.
    """
    if not files and not keys and (user_data is None or _is_short_text(user_data)):
        return user_data
    ours = [_ours(files, keys)] if files or keys else []
    plain = _multipart([_callers(user_data), *ours] if user_data else ours)
    if len(plain) <= MAX_BYTES or not user_data or _is_message(user_data := _unpacked(user_data)):
        return plain
    return _multipart([_packed(user_data), *ours])


def _is_short_text(content: bytes) -> bool:
    return len(content) <= MAX_BYTES and is_text(content)


def is_text(content: bytes) -> bool:
    """Return True if content is UTF-8."""
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _packed(content: bytes) -> bytes:
    # cloud-init unpacks a part of this type, and then detects its kind.
    packed = base64.encodebytes(gzip.compress(content, 9, mtime=0))
    return b'Content-Type: application/gzip\nContent-Transfer-Encoding: base64\n\n' + packed


def textual(user_data: bytes) -> bytes:
    """Return user data as UTF-8 text: compressed or binary content becomes a message.

    For backends that take text only; cloud-init reads both alike.
    """
    if not user_data.startswith(_GZIP):
        try:
            user_data.decode()
        except UnicodeDecodeError:
            pass
        else:
            return user_data
    return _multipart([_callers(user_data)])


def _multipart(parts: Sequence[bytes]) -> bytes:
    """Return one message that contains the parts, which are whole messages, unchanged."""
    # The same parts have the same boundary, so that a repeated build sends the same
    # bytes; and no part can contain it.
    boundary = f'kiln-{hashlib.sha256(b"".join(parts)).hexdigest()[:32]}'
    # cloud-init searches for the version only near the beginning.
    head = f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="{boundary}"\n'
    mark = f'\n--{boundary}'.encode()
    return head.encode() + b''.join(mark + b'\n' + part for part in parts) + mark + b'--\n'


def _callers(user_data: bytes) -> bytes:
    """Return the caller's user data, of any kind, as a part."""
    user_data = _unpacked(user_data)
    if _is_message(user_data):
        # cloud-init reads both.
        return user_data
    # cloud-init detects the kind of a plain part from its beginning.
    return _part('plain', user_data)


def _unpacked(user_data: bytes) -> bytes:
    if user_data.startswith(_GZIP):
        try:
            return gzip.decompress(user_data)
        except (OSError, EOFError, zlib.error):
            # cloud-init would not have unpacked it either.
            pass
    return user_data


def _is_message(user_data: bytes) -> bool:
    """Return True if user data is a MIME message by itself."""
    return b'mime-version:' in user_data[:4096].lower()


def _part(kind: str, content: bytes, more: str = '') -> bytes:
    head = f'Content-Type: text/{kind}; charset="utf-8"\n{more}'
    # The line end before a boundary belongs to the boundary, and so does a return before it.
    if content.isascii() and b'\r' not in content:
        return f'{head}\n'.encode() + content
    head += 'Content-Transfer-Encoding: base64\n\n'
    return head.encode() + base64.encodebytes(content)


def _entry(file: InjectedFile) -> dict[str, object]:
    plain = base64.b64encode(file.content)
    packed = base64.b64encode(gzip.compress(file.content, 9, mtime=0))
    encoding, content = ('gz+b64', packed) if len(packed) < len(plain) else ('b64', plain)
    entry: dict[str, object] = {
        'path': file.path,
        'encoding': encoding,
        'content': content.decode('ascii'),
        'permissions': f'{file.mode:04o}',
        'owner': file.owner,
    }
    if file.owner.partition(':')[0] != 'root':
        # A file whose owner is created later, by a package or by the caller's part, would
        # prevent all other files from being written.
        entry['defer'] = True
    return entry
