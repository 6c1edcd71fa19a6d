"""How files and keys travel in user data, for cloud-init to unpack; pure.

Nova takes at most 65,535 characters of base64 there. So what does not fit is
compressed, files one by one and then all of it.
"""

from __future__ import annotations

import base64
import email
import email.message
import email.policy
import gzip
import hashlib
import json
from collections.abc import Sequence
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText

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
    ours = _part('#cloud-config\n' + json.dumps(config, sort_keys=True), 'cloud-config')
    ours['Merge-Type'] = _MERGE
    # The same parts have the same boundary, so that a repeated build sends the
    # same bytes.
    digest = hashlib.sha256(ours.as_bytes() + (user_data or b'')).hexdigest()
    whole = MIMEMultipart(boundary=f'kiln-{digest[:32]}')
    if user_data:
        whole.attach(_callers(user_data))
    whole.attach(ours)
    text = whole.as_bytes()
    return text if len(text) <= MAX_BYTES else gzip.compress(text, 9, mtime=0)


def _callers(user_data: bytes) -> email.message.Message:
    """Return the caller's user data as a part, of whatever kind it is."""
    if user_data.startswith(_GZIP):
        user_data = gzip.decompress(user_data)
    head = user_data[:4096].lower()
    if b'mime-version:' in head:
        # A whole tree of parts of its own: cloud-init walks through both.
        return email.message_from_bytes(user_data)
    # cloud-init looks for itself what a plain part begins with.
    return _part(user_data.decode(errors='surrogateescape'), 'plain')


def _part(text: str, kind: str) -> email.message.Message:
    try:
        return MIMEText(text, kind, 'us-ascii')
    except UnicodeEncodeError:
        part = email.message.Message()
        part['Content-Type'] = f'text/{kind}; charset="utf-8"'
        part['Content-Transfer-Encoding'] = 'base64'
        raw = text.encode(errors='surrogateescape')
        part.set_payload(base64.encodebytes(raw).decode('ascii'))
        return part


def _entry(file: InjectedFile) -> dict[str, str]:
    plain = base64.b64encode(file.content)
    packed = base64.b64encode(gzip.compress(file.content, 9, mtime=0))
    encoding, content = ('gz+b64', packed) if len(packed) < len(plain) else ('b64', plain)
    return {
        'path': file.path,
        'encoding': encoding,
        'content': content.decode('ascii'),
        'permissions': f'{file.mode:04o}',
        'owner': file.owner,
    }
