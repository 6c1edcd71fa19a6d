"""Confidential build data, packed for the store and for claim commands; pure."""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Iterator

from kiln.compute_drivers.appliance.claims.matching import brings
from kiln.models import BuildRequest, InjectedFile


def packed(request: BuildRequest) -> bytes | None:
    """Return a build's user data, keys and files, packed; None if it has none."""
    if not brings(request):
        return None
    packed = {
        'user_data': request.user_data,
        'keys': request.keys,
        'files': [dataclasses.asdict(file) for file in request.files],
    }
    return json.dumps(packed, default=_base64).encode()


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def unpacked(payload: bytes, *, build_key: str, name: str, owner: str) -> BuildRequest:
    """Return a build request with the data that was packed."""
    kept = json.loads(payload)
    user_data = kept['user_data']
    return BuildRequest(
        build_key=build_key,
        name=name,
        owner=owner,
        keys=tuple(kept['keys']),
        user_data=None if user_data is None else base64.b64decode(user_data),
        files=tuple(
            InjectedFile(**{**one, 'content': base64.b64decode(one['content'])})
            for one in kept['files']
        ),
    )


def contents(request: BuildRequest) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each file in a claim command's folder."""
    if request.user_data is not None:
        yield 'user_data', request.user_data
    if request.keys:
        yield 'authorized_keys', ''.join(f'{key}\n' for key in request.keys).encode()
    if request.files:
        listed = []
        for number, file in enumerate(request.files):
            source = f'file-{number}'
            mode = f'{file.mode:04o}'
            listed.append({'source': source, 'path': file.path, 'mode': mode, 'owner': file.owner})
            yield source, file.content
        yield 'files.json', json.dumps(listed).encode()
