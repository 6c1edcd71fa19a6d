"""Cluster driver as the subject of mutants: a folder, of which each mutant is a copy.

The kit starts processes that find the driver by its folder, so a change in memory would not
reach all that it judges.
"""

from __future__ import annotations

import dataclasses
import re
import shutil
import tempfile
import unittest
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.discovery.guide import home_of
from kiln.clusters.exceptions import ClusterDriverUnusable
from kiln.testing.clusters import (
    ClusterDriverConformance,
    OwnEngineConformance,
    find_driver,
)
from kiln.testing.clusters.named_bench import named_bench
from kiln.testing.mutants.mutants import Mutant, mutants_of
from kiln.testing.mutants.operators import CLUSTER_OPERATORS, OPERATORS
from kiln.testing.mutants.subject import Changed, Subject, suite_classes
from kiln.testing.mutants.texts import TEXT_OPERATORS, mutants_of_text

#: Files that make a folder a driver.
_HEADS = ('driver.py', 'driver.yaml')


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClusterSubject(Subject):
    """A cluster driver that has a folder of its own.

    Suites are judged with the folder as their driver; without any, it is the whole kit for
    drivers of its kind, but for the kills of processes. Its bench is not part of it.
    """

    folder: Path

    operators = (*OPERATORS, *CLUSTER_OPERATORS, *TEXT_OPERATORS)

    @classmethod
    def find(cls, reference: str, *, suites: tuple[str, ...] = ()) -> Self:
        """Return the driver that a folder, MODULE:CLASS or a name refers to.

        :raises ClusterError: it does not exist, cannot be used, or has no folder of its own.
        """
        folder = Path(reference)
        if not folder.is_dir():
            folder = home_of(find_driver(reference))
        if not any((folder / name).is_file() for name in _HEADS):
            raise ClusterDriverUnusable(
                f'Cannot make mutants of {reference}: it has no folder with a driver.py or a '
                f'driver.yaml.'
            )
        return cls(name=reference, suites=suites, folder=folder.resolve())

    def load(self) -> None:
        find_driver(str(self.folder))

    def modules(self) -> list[str]:
        """Return its modules, as NAME.MODULE, and its manifest and templates, as NAME/PATH."""
        bench = named_bench(find_driver(str(self.folder)), object)
        beside = None if bench is None else self.own(bench.__module__)
        return [name for name in map(self._name_of, self._files()) if name != beside]

    def mutants(self, module: str, operators: Iterable[str]) -> list[Mutant]:
        path = self._path_of(module)
        make = mutants_of if path.suffix == '.py' else mutants_of_text
        return make(module, path.read_text(), operators)

    def fresh(self) -> Self:
        """Return a copy in a new folder; the place of temporary files is the mutant's own."""
        copy = Path(tempfile.mkdtemp(), self.folder.name)
        shutil.copytree(self.folder, copy, ignore=shutil.ignore_patterns('__pycache__'))
        return dataclasses.replace(self, folder=copy)

    def changed(self, changed: Changed) -> Self:
        name, text = changed
        wrong = self.fresh()
        wrong._path_of(name).write_text(text)
        wrong.load()
        return wrong

    def judges(self) -> list[type[unittest.TestCase]]:
        of_nodes = issubclass(find_driver(str(self.folder)), NodeClusterDriver)
        whole = ClusterDriverConformance if of_nodes else OwnEngineConformance
        suites = [one for path in self.suites for one in suite_classes(path)]
        # Each part alone, as kiln driver test runs them: one can be skipped as a whole.
        return [self._given(one) for one in suites or whole.__bases__]

    def own(self, module: str) -> str | None:
        # Modules of a directory are imported under a name that is unique to its content.
        name = re.sub('[^A-Za-z0-9]', '_', self.folder.name)
        found = re.fullmatch(rf'kiln_driver_{name}_[0-9a-f]+((?:\..+)?)', module)
        return f'{self.folder.name}{found[1] or ".__init__"}' if found else None

    def _given(self, suite: type) -> type[unittest.TestCase]:
        bases: Any = (suite,) if issubclass(suite, unittest.TestCase) else (suite, _Case)
        given: type[unittest.TestCase] = type(suite.__name__, bases, {'driver': str(self.folder)})
        return given

    def _files(self) -> list[Path]:
        found = [*self.folder.rglob('*.py'), *self.folder.glob('driver.yaml')]
        found += [one for one in (self.folder / 'templates').rglob('*') if one.is_file()]
        return sorted(one for one in found if one.parent.name not in ('image', '__pycache__'))

    def _path_of(self, name: str) -> Path:
        (path,) = (one for one in self._files() if self._name_of(one) == name)
        return path

    def _name_of(self, path: Path) -> str:
        inner = path.relative_to(self.folder)
        if inner.suffix == '.py' and inner.parts[0] != 'templates':
            return '.'.join((self.folder.name, *inner.with_suffix('').parts))
        return f'{self.folder.name}/{inner.as_posix()}'


class _Case(unittest.TestCase):
    """Base of the classes of the kit, which are not test cases themselves."""
