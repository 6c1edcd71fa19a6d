"""From templates to files, all of them or none."""

from __future__ import annotations

import importlib.resources
import re
import string
from collections.abc import Iterator, Mapping
from importlib.resources.abc import Traversable
from pathlib import Path

from kiln.exceptions import InvalidRequest

_NAME = re.compile(r'[a-z][a-z0-9]*(_[a-z0-9]+)*')
# Longer ones break the lines of the generated code.
_MAX_NAME = 20
_SUFFIX = '.tmpl'


def check_name(name: str) -> str:
    """Return the name of a driver that is to be.

    :raises InvalidRequest: it is none.
    """
    if not _NAME.fullmatch(name) or len(name) > _MAX_NAME:
        raise InvalidRequest(
            f'Cannot name a driver {name!r}: use at most {_MAX_NAME} lower-case letters and '
            f'digits, words parted by single underscores, such as "acme" or "acme_metal".'
        )
    return name


def fill(templates: str, words: Mapping[str, str], root: Path) -> list[Path]:
    """Write a folder of templates, filled in with words; return the files.

    :raises InvalidRequest: there is something of that name already.
    """
    check_free(root)
    folder = importlib.resources.files('kiln.scaffold') / 'templates'
    for part in templates.split('/'):
        folder /= part
    # All texts first: a template that cannot be filled leaves nothing behind.
    texts = {
        root / _target_path(path, words): string.Template(template.read_text()).substitute(words)
        for path, template in _walk(folder)
    }
    for path, text in sorted(texts.items()):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return sorted(texts)


def check_free(root: Path) -> None:
    """Return if there is nothing of a name.

    :raises InvalidRequest: there is.
    """
    if root.exists():
        raise InvalidRequest(f'Cannot write {root}: it exists. Remove it, or choose another name.')


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
