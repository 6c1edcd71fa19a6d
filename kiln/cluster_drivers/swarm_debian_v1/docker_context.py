"""Docker context for ``docker context import``: endpoint, certificates and key."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path

from .pki import Papers


def write_context(folder: Path, name: str, endpoint: str, trusted: bytes, papers: Papers) -> Path:
    """Write certificates, a key and their archive for ``docker context import``.

    Only the owner can read the folder and its files. Existing files are replaced. Return
    the path of the archive.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    files = {'ca.pem': trusted, 'cert.pem': papers.certificate, 'key.pem': papers.key}
    for file, content in files.items():
        _write(folder / file, content)
    described = {
        'Name': name,
        'Metadata': {'Description': f'Swarm {name}, made by kiln'},
        'Endpoints': {'docker': {'Host': endpoint, 'SkipTLSVerify': False}},
    }
    archive = folder / 'context.tar'
    tls = {f'tls/docker/{file}': content for file, content in files.items()}
    _write(archive, _archive({'meta.json': json.dumps(described).encode(), **tls}))
    return archive


def _write(path: Path, content: bytes) -> None:
    # An existing file might be readable by others, and would stay so.
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), 'wb') as file:
        file.write(content)


def _archive(files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode='w') as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o600
            tar.addfile(member, io.BytesIO(content))
    return made.getvalue()
