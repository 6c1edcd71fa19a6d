"""Recipe reader: image.yaml of a directory, and the files beside it.

A recipe can come from others, so no link in it is followed: it would put a file of this host
into an image.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from kiln.clusters.exceptions import Problem
from kiln.images.exceptions import InvalidRecipe
from kiln.images.recipe import Declared, File
from kiln.images.recipe_fields import RECIPE
from kiln.plugins.foreign_files import read_beneath
from kiln.yaml_schema.mistake_list import Mistakes
from kiln.yaml_schema.nodes import Node, described, shown
from kiln.yaml_schema.reader import only_document

RECIPE_FILE = 'image.yaml'
FILES = 'files'
#: Size limit of a file; larger files belong in a package.
MAX_FILE_BYTES = 16 * 1024 * 1024
_LINK = 'is a link, which kiln does not follow; put the file there'


def read_recipe(directory: Path) -> Declared:
    """Return the content of the image.yaml of a directory.

    :raises InvalidRecipe: contains a problem for each mistake, in the order of lines.
    """
    file = directory / RECIPE_FILE
    mistakes = Mistakes(str(file))
    if file.is_symlink():
        mistakes.add_at(1, 1, f'it {_LINK}')
    mistakes.raise_any(InvalidRecipe)
    root = only_document(file, mistakes, begin='image: NAME')
    declared = None
    if root is not None:
        declared = RECIPE.read(root, mistakes)
        _check_name(root, directory, mistakes)
    mistakes.raise_any(InvalidRecipe)
    assert isinstance(declared, Declared)
    return declared


def read_files(directory: Path) -> tuple[File, ...]:
    """Return the files beside the image.yaml of a directory, sorted by path.

    Only the executable bit of their modes is used: other differences between checkouts
    must not change the image.

    :raises InvalidRecipe: a path is neither a file nor a link, is too large, or cannot
        be read.
    """
    found, problems = [], []
    folder = directory / FILES
    if folder.is_symlink():
        raise InvalidRecipe([Problem(message=f'{folder}: it {_LINK}')])
    for path in sorted(_below(folder)):
        try:
            found.append(_file(folder, path.relative_to(folder).as_posix()))
        except (OSError, ValueError) as exc:
            why = exc.strerror if isinstance(exc, OSError) else exc
            problems.append(Problem(message=f'{path}: {why}'))
    if problems:
        raise InvalidRecipe(problems)
    return tuple(found)


def _check_name(root: Node, directory: Path, mistakes: Mistakes) -> None:
    name = root.entries.get('image')
    called = directory.absolute().name
    if name is not None and isinstance(name.value.value, str) and name.value.value != called:
        mistakes.add(
            name.value,
            f'{described(name.value)}, but the directory is {shown(called)}; use one name',
        )


def _below(folder: Path) -> Iterator[Path]:
    for inside, folders, names in os.walk(folder):
        for name in [*names, *(one for one in folders if Path(inside, one).is_symlink())]:
            yield Path(inside, name)


def _file(folder: Path, name: str) -> File:
    path, inside = folder / name, f'/{name}'
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        # It is laid into the image as it is.
        return File(path=inside, link=os.readlink(path))
    if not stat.S_ISREG(found.st_mode):
        raise ValueError('it is neither a file nor a link; remove it')
    if found.st_size > MAX_FILE_BYTES:
        raise ValueError(f'it has more than {MAX_FILE_BYTES} bytes; put it into a package')
    mode = 0o755 if found.st_mode & 0o111 else 0o644
    content = read_beneath(folder, name, most_bytes=MAX_FILE_BYTES)
    return File(path=inside, content=content, mode=mode)
