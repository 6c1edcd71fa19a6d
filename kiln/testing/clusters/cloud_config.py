"""Kinds of the values in a ``#cloud-config``, as far as drivers of nodes commonly set them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

HEAD = '#cloud-config'
#: The keys that name a machine, which is to have a name of its own.
NAMES = ('hostname', 'fqdn')
_MODE = re.compile(r'0?[0-7]{3,4}')


def loaded(user_data: bytes | None) -> Mapping[str, Any]:
    """Return the values of a cloud-config that is well formed; nothing for other user data."""
    import yaml

    if user_data is None or not user_data.startswith(HEAD.encode()):
        return {}
    found = yaml.safe_load(user_data)
    return found if isinstance(found, dict) else {HEAD: found}


def problems(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield what cloud-init would not take, with its place and without its value."""
    if HEAD in values:
        yield 'it is not a mapping'
    for name in NAMES:
        if name in values and not _is_text(values[name]):
            yield f'{name} is not a text'
    for name, is_one in _LISTS.items():
        if name not in values:
            continue
        if not isinstance(values[name], list):
            yield f'{name} is not a list'
            continue
        for number, one in enumerate(values[name]):
            if not is_one(one):
                yield f'{name}[{number}] is not what cloud-init takes there'


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_command(value: Any) -> bool:
    """Return True for a line of a shell, or for a program and its arguments."""
    return isinstance(value, str) or (
        isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)
    )


def _is_package(value: Any) -> bool:
    """Return True for a name, a name with its version, or packages of one manager."""
    return isinstance(value, dict) or _is_text(value) or (bool(value) and _is_command(value))


def _is_file(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    texts = ('content', 'owner', 'encoding')
    # Without quotes 0755 is the number 493.
    mode = value.get('permissions', '0644')
    return (
        _is_text(value.get('path'))
        and all(isinstance(value.get(name, ''), str | bytes) for name in texts)
        and isinstance(mode, str)
        and bool(_MODE.fullmatch(mode))
    )


_LISTS: Mapping[str, Callable[[Any], bool]] = {
    'runcmd': _is_command,
    'bootcmd': _is_command,
    'packages': _is_package,
    'write_files': _is_file,
}
