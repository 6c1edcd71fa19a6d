"""Filling of template folders into files, all of them or none."""

from __future__ import annotations

import importlib.resources
import re
import string
from collections.abc import Iterator, Mapping
from importlib.resources.abc import Traversable
from pathlib import Path

from kiln.exceptions import InvalidRequest

_NAME = re.compile(r'[a-z][a-z0-9]*(_[a-z0-9]+)*')
# Longer names make the lines of the generated code too long.
_MAX_NAME = 20
_SUFFIX = '.tmpl'


def check_name(name: str) -> str:
    """Return the name if it is valid for a new driver.

    :raises InvalidRequest: the name is invalid.
    """
    if not _NAME.fullmatch(name) or len(name) > _MAX_NAME:
        raise InvalidRequest(
            f'Cannot name a driver {name!r}: use at most {_MAX_NAME} lower-case letters and '
            f'digits, in words separated by single underscores, such as "acme" or "acme_metal".'
        )
    return name


def fill(templates: str, words: Mapping[str, str], root: Path) -> list[Path]:
    """Fill in a folder of templates and write the files; return them.

    :raises InvalidRequest: the target exists.
    """
    check_free(root)
    folder = importlib.resources.files('kiln.cli.driver.scaffold') / 'templates'
    for part in templates.split('/'):
        folder /= part
    # Fill in all templates first, so that a failure leaves no files behind.
    texts = {
        root / _target_path(path, words): string.Template(template.read_text()).substitute(words)
        for path, template in _walk(folder)
    }
    for path, text in sorted(texts.items()):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        # Templates of programs cannot be relied on to keep their modes when they are installed.
        if not path.suffix and text.startswith('#!'):
            path.chmod(0o755)
    return sorted(texts)


def check_free(root: Path) -> None:
    """Return if a path does not exist.

    :raises InvalidRequest: the path exists.
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
    # With their real names git, linters and test runners would treat the templates as
    # files of kiln itself.
    path = path.removesuffix(_SUFFIX).replace('MODULE', words['module'])
    return path.replace('dot-', '.')
