"""Import of a changed module in place of the one on disk."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import pkgutil
import sys
from collections.abc import Collection, Iterator
from types import ModuleType


def source_of(module: str) -> str | None:
    """Return the source of a module, or None if it has none."""
    loader = _spec_of(module).loader
    get_source = getattr(loader, 'get_source', None)
    found: str | None = get_source(module) if get_source else None
    return found


def import_changed(module: str, source: str, dependents: Collection[str]) -> None:
    """Let imports of a module yield other source from now on; nothing on disk is changed.

    Modules that were imported keep what they have, so those in the packages and modules
    ``dependents`` are forgotten: they are imported again when they are needed.
    """
    spec = _spec_of(module)
    sys.meta_path.insert(0, _Finder(module, source, str(spec.origin)))
    forget((module, *dependents))


def forget(places: Collection[str]) -> None:
    """Let packages and modules be imported again when they are needed."""
    for name in list(sys.modules):
        if any(_within(name, place) for place in places):
            del sys.modules[name]


def modules_below(package: str) -> Iterator[str]:
    """Yield the name of a module; if it is a package, also those of all modules in it."""
    yield package
    folders = _spec_of(package).submodule_search_locations
    if folders is not None:
        for found in pkgutil.walk_packages(folders, f'{package}.'):
            yield found.name


def _spec_of(module: str) -> importlib.machinery.ModuleSpec:
    spec = importlib.util.find_spec(module)
    if spec is None:
        raise ImportError(f'Cannot find module {module}.')
    return spec


def _within(name: str, place: str) -> bool:
    return name == place or name.startswith(f'{place}.')


class _Source(importlib.abc.SourceLoader):
    """Loads the source it was given."""

    def __init__(self, source: str, path: str) -> None:
        self._source, self._path = source, path

    def get_filename(self, fullname: str) -> str:
        return self._path

    def get_data(self, path: str | bytes) -> bytes:
        # No file with compiled code is read: the source has neither size nor time.
        return self._source.encode()


class _Finder(importlib.abc.MetaPathFinder):
    """Finds one module, with other source than its file has."""

    def __init__(self, module: str, source: str, path: str) -> None:
        self._module, self._path = module, path
        self._loader = _Source(source, path)

    def find_spec(
        self, fullname: str, path: object, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._module:
            return None
        return importlib.util.spec_from_file_location(fullname, self._path, loader=self._loader)
