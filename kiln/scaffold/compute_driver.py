"""A whole package around a new compute driver, from templates."""

from __future__ import annotations

import importlib.resources
import re
import string
from collections.abc import Iterator, Mapping
from importlib.resources.abc import Traversable
from pathlib import Path

from kiln.exceptions import InvalidRequest
from kiln.models import AmphoraType

_NAME = re.compile(r'[a-z][a-z0-9]*(_[a-z0-9]+)*')
# Longer ones break the lines of the generated code.
_MAX_NAME = 20
_SUFFIX = '.tmpl'

_KINDS = {
    AmphoraType.VM: 'virtual machines',
    AmphoraType.CONTAINER: 'containers',
    AmphoraType.BARE_METAL: 'bare metal machines',
    AmphoraType.HW_LOAD_BALANCER: 'hardware load balancers',
}
_HINTS = {
    AmphoraType.VM: 'Return once the machine has an id; kiln watches it boot.',
    AmphoraType.CONTAINER: 'A container that was created but not started is an amphora too.',
    AmphoraType.BARE_METAL: 'Machines are claimed, not made: claim and tag in one step.',
    AmphoraType.HW_LOAD_BALANCER: 'Claim an appliance, or a partition of one, in one step.',
}


def new_compute_driver(name: str, amphora_type: str, target: Path) -> list[Path]:
    """Write the package ``kiln-driver-NAME`` into a folder; return its files.

    It installs, and its tests pass, as it is. Nothing is ever overwritten.

    :raises InvalidRequest: the name or the type is none, or the package exists.
    """
    words = _words(_check_name(name), _check_type(amphora_type))
    root = target / words['dist']
    if root.exists():
        raise InvalidRequest(f'Cannot write {root}: it exists. Remove it, or choose another name.')
    templates = importlib.resources.files('kiln.scaffold') / 'templates' / 'compute'
    # All texts first: a template that cannot be filled leaves nothing behind.
    texts = {
        root / _target_path(path, words): string.Template(template.read_text()).substitute(words)
        for path, template in _walk(templates)
    }
    for path, text in sorted(texts.items()):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return sorted(texts)


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name) or len(name) > _MAX_NAME:
        raise InvalidRequest(
            f'Cannot name a driver {name!r}: use at most {_MAX_NAME} lower-case letters and '
            f'digits, words parted by single underscores, such as "acme" or "acme_metal".'
        )
    return name


def _check_type(amphora_type: str) -> AmphoraType:
    try:
        return AmphoraType(amphora_type)
    except ValueError:
        known = ', '.join(kind.value for kind in AmphoraType)
        raise InvalidRequest(
            f'Cannot write a driver for amphora type {amphora_type!r}: choose one of {known}.'
        ) from None


def _words(name: str, kind: AmphoraType) -> Mapping[str, str]:
    parts = [part.capitalize() for part in name.split('_')]
    dist = f'kiln-driver-{name.replace("_", "-")}'
    return {
        'name': name,
        'dist': dist,
        'rule': '=' * len(dist),
        'module': f'kiln_{name}',
        'cls': ''.join(parts),
        'title': ' '.join(parts),
        'member': kind.name,
        'kinds': _KINDS[kind],
        'hint': _HINTS[kind],
    }


def _walk(folder: Traversable, above: str = '') -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        path = f'{above}{entry.name}'
        if entry.is_dir():
            yield from _walk(entry, f'{path}/')
        elif path.endswith(_SUFFIX):
            yield path, entry


def _target_path(path: str, words: Mapping[str, str]) -> str:
    # A file with its real name would be taken for a part of kiln itself, by
    # git, by the linters and by those who search for tests.
    path = path.removesuffix(_SUFFIX).replace('MODULE', words['module'])
    return path.replace('dot-', '.')
