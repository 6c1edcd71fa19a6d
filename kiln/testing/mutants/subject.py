"""The driver whose mutants are judged: what can be changed, and what judges it."""

from __future__ import annotations

import abc
import dataclasses
import os
import pkgutil
import sys
import unittest
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any, Self

from kiln.exceptions import DriverNotFound
from kiln.testing.mutants.loading import modules_below
from kiln.testing.mutants.mutants import Mutant

#: Name and text of a changed module or file.
Changed = tuple[str, str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Subject(abc.ABC):
    """A driver of some kind, in words that another process can use."""

    name: str
    #: Test classes, as MODULE:CLASS, or as MODULE for all of a module, or of the modules of a
    #: package; without any, those of the kit for the kind of driver.
    suites: tuple[str, ...] = ()

    # ---- what is changed ---------------------------------------------------

    @abc.abstractmethod
    def load(self) -> None:
        """Import the driver, and all that it uses.

        :raises KilnError: it does not exist, or cannot be used.
        """

    @property
    @abc.abstractmethod
    def operators(self) -> Sequence[str]:
        """The names of the mistakes that its authors make."""

    @abc.abstractmethod
    def modules(self) -> Sequence[str]:
        """Return the names of its modules, and of its other files."""

    @abc.abstractmethod
    def mutants(self, module: str, operators: Iterable[str]) -> list[Mutant]:
        """Return the mutants of one module or file."""

    # ---- the judgement -----------------------------------------------------

    @property
    def patience_s(self) -> float:
        """Real seconds that a mutant can wait for what never happens."""
        return 0.0

    @abc.abstractmethod
    def fresh(self) -> Self:
        """Return the driver as it is, which this process imports again."""

    @abc.abstractmethod
    def changed(self, changed: Changed) -> Self:
        """Return the wrong copy, which replaces the driver in this process from now on."""

    @abc.abstractmethod
    def judges(self) -> list[type[unittest.TestCase]]:
        """Return the test classes that judge the driver."""

    @abc.abstractmethod
    def own(self, module: str) -> str | None:
        """Return the name here of an imported module of the driver; None for others."""

    @property
    def leaves_resources(self) -> bool:
        """True if what a mutant has built can outlive its process."""
        return False

    def clean_up(self, prefix: str) -> None:
        """Remove what a mutant has built, and not removed; called if it can outlive it."""
        raise NotImplementedError


def suite_classes(path: str) -> list[type]:
    """Return the class that MODULE:CLASS names, or the test classes below MODULE.

    :raises DriverNotFound: it cannot be imported.
    """
    if ':' in path:
        return [resolved(path)]
    found = [
        one
        for module in map(resolved, modules_below(resolved(path).__name__))
        for one in vars(module).values()
        if _is_of(module, one)
    ]
    if not found:
        raise DriverNotFound(
            f'Cannot find a test in {path}: it is neither a test class nor a module that has some.'
        )
    return found


def _is_of(module: ModuleType, found: object) -> bool:
    """Return True for a class of tests that a module defines."""
    if not isinstance(found, type) or not issubclass(found, unittest.TestCase):
        return False
    names = unittest.defaultTestLoader.getTestCaseNames
    return found.__module__ == module.__name__ and bool(names(found))


def resolved(path: str) -> Any:
    """Return what MODULE:CLASS names.

    :raises DriverNotFound: it cannot be imported.
    """
    # Tests beside a package are found from the current directory.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return pkgutil.resolve_name(path)
    except (ImportError, AttributeError, ValueError) as exc:
        raise DriverNotFound(f'Cannot find {path}: {exc}.') from exc
