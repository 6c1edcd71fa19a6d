"""Where recipes are: kiln's own, those beside cluster drivers, and those of the operator."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

from kiln.cluster_exceptions import Problem
from kiln.image_exceptions import AmbiguousRecipe, ImageNotFound, InvalidRecipe
from kiln.images.recipe import Recipe
from kiln.images.recipe_file import RECIPE_FILE, read_files, read_recipe

LOG = logging.getLogger(__name__)

#: The recipes that come with kiln.
OWN = Path(__file__).parent / 'recipes'


@dataclasses.dataclass(frozen=True, slots=True)
class Shelf:
    """A directory in which each directory may be a recipe, called as it is."""

    path: Path
    #: Whose it is, for people: 'kiln', 'cluster driver swarm_v1', 'directory /etc/kiln/images'.
    origin: str

    @classmethod
    def at(cls, path: str) -> Self:
        """Return the shelf of a directory that somebody has named."""
        return cls(Path(path).expanduser(), f'directory {path}')


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """A recipe that was found, and is not read yet."""

    path: Path
    origin: str

    @property
    def name(self) -> str:
        """What the recipe must be called."""
        return self.path.name


class Library:
    """The recipes of some shelves; each call looks again."""

    def __init__(self, shelves: Iterable[Shelf] = ()) -> None:
        self._shelves = (Shelf(OWN, 'kiln'), *shelves)

    def entries(self) -> Sequence[Entry]:
        """Return all recipes there are, by name; of one name there may be several."""
        found: dict[Path, Entry] = {}
        for shelf in self._shelves:
            for path in _folders(shelf.path):
                if (path / RECIPE_FILE).is_file():
                    # A shelf that is listed twice holds no second recipe.
                    found.setdefault(path.resolve(), Entry(path.absolute(), shelf.origin))
        return sorted(found.values(), key=lambda entry: (entry.name, entry.path))

    def find(self, word: str) -> Recipe:
        """Return the whole recipe of a name, or of a directory where there is a slash in it.

        :raises ImageNotFound: there is none, or its base is not there.
        :raises AmbiguousRecipe: there are several.
        :raises InvalidRecipe: what is written in it cannot be; each mistake is told.
        """
        if '/' in word:
            return self.read(Path(word))
        return self.read(self._entry(word).path)

    def read(self, directory: Path) -> Recipe:
        """Return the whole recipe that a directory is; as ``find``."""
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
                message = f'it is its own base: {circle}'
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
                f'Cannot tell which recipe {name!r} is meant: {places}. Call one of them '
                f'otherwise, or name its directory.'
            )
        return found[0]


def _folders(shelf: Path) -> Sequence[Path]:
    try:
        return sorted(path for path in shelf.iterdir() if path.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return ()  # few sites have all the places that are looked at by default
    except OSError as exc:
        LOG.warning('Cannot look for recipes of images in %s: %s', shelf, exc.strerror)
        return ()
