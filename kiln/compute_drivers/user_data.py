"""How files and keys travel in user data, for cloud-init to unpack; pure.

Nova takes at most 65,535 characters of base64 there. So what does not fit is
compressed, files one by one and then all of it.
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
# Two parts that both write files would replace one another; with this ours is
# appended to what the caller's own part says.
_MERGE = 'list(append)+dict(no_replace,recurse_list)+str()'


def compose(
    user_data: bytes | None, files: Sequence[InjectedFile], keys: Sequence[str] = ()
) -> bytes | None:
    """Return user data that holds the caller's own, files and public keys.

    What it returns may still be too large; who sends it must look.
    """
    if not files and not keys:
        return user_data
    config: dict[str, object] = {}
    if files:
        config['write_files'] = [_entry(file) for file in files]
    if keys:
        config['ssh_authorized_keys'] = list(keys)
    # YAML has another escape than JSON for what is beyond sixteen bits, so
    # there is none.
    ours = '#cloud-config\n' + json.dumps(config, sort_keys=True, ensure_ascii=False)
    parts = [_callers(user_data)] if user_data else []
    parts.append(_part('cloud-config', ours.encode(), f'Merge-Type: {_MERGE}\n'))
    whole = _multipart(parts)
    return whole if len(whole) <= MAX_BYTES else gzip.compress(whole, 9, mtime=0)


def _multipart(parts: Sequence[bytes]) -> bytes:
    """Return one message of parts that are whole messages, byte by byte as they are."""
    # The same parts have the same boundary, so that a repeated build sends the
    # same bytes; and none of them can hold it.
    boundary = f'kiln-{hashlib.sha256(b"".join(parts)).hexdigest()[:32]}'
    # cloud-init looks for the version near the beginning, and nowhere else.
    head = f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="{boundary}"\n'
    mark = f'\n--{boundary}'.encode()
    return head.encode() + b''.join(mark + b'\n' + part for part in parts) + mark + b'--\n'


def _callers(user_data: bytes) -> bytes:
    """Return the caller's user data as a part, of whatever kind it is."""
    if user_data.startswith(_GZIP):
        try:
            user_data = gzip.decompress(user_data)
        except (OSError, EOFError, zlib.error):
            # Then cloud-init would not have unpacked it either.
            pass
    if b'mime-version:' in user_data[:4096].lower():
        # A message of its own: cloud-init walks through both.
        return user_data
    # cloud-init looks for itself what a plain part begins with.
    return _part('plain', user_data)


def _part(kind: str, content: bytes, more: str = '') -> bytes:
    head = f'Content-Type: text/{kind}; charset="utf-8"\n{more}'
    # The line end before a boundary belongs to it, and a return before that too.
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
        # One whose owner is made later by a package or by the caller's part
        # would keep all others from being written.
        entry['defer'] = True
    return entry
