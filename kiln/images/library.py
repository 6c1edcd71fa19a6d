"""Recipe library: recipes of kiln, of cluster drivers and of the operator."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

from kiln.clusters.exceptions import Problem
from kiln.images.exceptions import AmbiguousRecipe, ImageNotFound, InvalidRecipe
from kiln.images.recipe import Recipe
from kiln.images.recipe_file import RECIPE_FILE, read_files, read_recipe

LOG = logging.getLogger(__name__)

#: Recipes shipped with kiln.
OWN = Path(__file__).parent / 'recipes'


@dataclasses.dataclass(frozen=True, slots=True)
class Shelf:
    """A directory whose subdirectories can be recipes, named like the recipe."""

    path: Path
    #: Owner to show: 'kiln', 'cluster driver swarm_v1', 'directory /etc/kiln/images'.
    origin: str

    @classmethod
    def at(cls, path: str) -> Self:
        """Return the shelf for a configured directory."""
        return cls(Path(path).expanduser(), f'directory {path}')


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """A recipe directory that has been found but not read."""

    path: Path
    origin: str

    @property
    def name(self) -> str:
        """Required name of the recipe."""
        return self.path.name


class Library:
    """The recipes of some shelves; each call reads the directories again."""

    def __init__(self, shelves: Iterable[Shelf] = ()) -> None:
        self._shelves = (Shelf(OWN, 'kiln'), *shelves)

    def entries(self) -> Sequence[Entry]:
        """Return all recipes, sorted by name; names can be duplicated."""
        found: dict[Path, Entry] = {}
        for shelf in self._shelves:
            for path in _folders(shelf.path):
                if (path / RECIPE_FILE).is_file():
                    # A shelf that is listed twice does not make its recipes ambiguous.
                    found.setdefault(path.resolve(), Entry(path.absolute(), shelf.origin))
        return sorted(found.values(), key=lambda entry: (entry.name, entry.path))

    def find(self, word: str) -> Recipe:
        """Return the complete recipe of a name, or of a directory if there is a slash in it.

        :raises ImageNotFound: the recipe or its base does not exist.
        :raises AmbiguousRecipe: several recipes have the name.
        :raises InvalidRecipe: the recipe is invalid; contains every mistake.
        """
        return self.read(Path(word) if '/' in word else self._entry(word).path)

    def read(self, directory: Path) -> Recipe:
        """Return the complete recipe of a directory; raises the same errors as ``find``."""
        return self._read(directory, ())

    def _read(self, directory: Path, above: tuple[str, ...]) -> Recipe:
        declared = read_recipe(directory)
        files = read_files(directory)
        base = None
        if declared.base is not None:
            path = (*above, declared.name)
            if declared.base in path:
                circle = ' -> '.join((*path, declared.base))
                file = str(directory / RECIPE_FILE)
                message = f'the recipe is its own base: {circle}'
                problem = Problem(message=message, path='base', file=file, line=1, column=1)
                raise InvalidRecipe([problem])
            base = self._read(self._entry(declared.base, of=declared.name).path, path)
        return declared.upon(base, files)

    def _entry(self, name: str, *, of: str = '') -> Entry:
        entries = self.entries()
        found = [entry for entry in entries if entry.name == name]
        if not found:
            what = f'base {name!r} of image {of}' if of else f'a recipe {name!r}'
            there = ', '.join(dict.fromkeys(entry.name for entry in entries))
            raise ImageNotFound(f'Cannot find {what}. There are: {there}.')
        if len(found) > 1:
            places = ' and '.join(str(entry.path) for entry in found)
            raise AmbiguousRecipe(
                f'Recipe {name!r} is ambiguous: {places}. Rename one of them, or give a directory '
                f'instead of the name.'
            )
        return found[0]


def _folders(shelf: Path) -> Sequence[Path]:
    try:
        return sorted(path for path in shelf.iterdir() if path.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return ()  # most of the default directories do not exist on a site
    except OSError as exc:
        LOG.warning('Cannot read image recipes in %s: %s', shelf, exc.strerror)
        return ()
