"""Compute driver as the subject of mutants: modules, judged by the kit or by suites."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import sys
import unittest
from collections.abc import Iterable
from typing import Any, Self

from kiln import conf as kiln_conf
from kiln.clock import SYSTEM_CLOCK
from kiln.compute.backends import DriverManager
from kiln.compute.loading import contract_violations
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.conf.compute import GROUP
from kiln.exceptions import DriverLoadError
from kiln.testing.clock import VirtualClock
from kiln.testing.conformance import ComputeDriverConformance, FaultConformance, sweep
from kiln.testing.conformance.fixture import ConformanceFixture
from kiln.testing.mutants.loading import forget, import_changed, modules_below, source_of
from kiln.testing.mutants.mutants import Mutant, mutants_of
from kiln.testing.mutants.operators import OPERATORS
from kiln.testing.mutants.subject import Changed, Subject, resolved, suite_classes

#: Packages with modules of others beside a driver's.
_SHARED = frozenset({'', 'kiln', 'kiln.compute_drivers', 'kiln.testing'})


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComputeSubject(Subject):
    """A configured backend, a compute driver, or MODULE:CLASS.

    Without suites, the bench of the driver is used.
    """

    config_files: tuple[str, ...] | None = None
    config_dirs: tuple[str, ...] | None = None
    #: True if a virtual clock is advanced instead of waiting.
    virtual_time: bool = False
    #: Seconds within which every effect must have taken place.
    timeout_s: float = 10.0

    operators = tuple(OPERATORS)

    def load(self) -> None:
        _place_of(self)

    def modules(self) -> list[str]:
        """Return the names of its modules, without those that test it."""
        return modules_of(self.driver_class())

    def mutants(self, module: str, operators: Iterable[str]) -> list[Mutant]:
        return mutants_of(module, source_of(module) or '', operators)

    @property
    def patience_s(self) -> float:
        return 0.0 if self.virtual_time else self.timeout_s

    def fresh(self) -> Self:
        forget([_place_of(self)])
        return self

    def changed(self, changed: Changed) -> Self:
        module, source = changed
        import_changed(module, source, [_place_of(self)])
        importlib.import_module(module)
        return self

    def own(self, module: str) -> str | None:
        place = _place_of(self)
        return module if module == place or module.startswith(f'{place}.') else None

    @property
    def leaves_resources(self) -> bool:
        return not self.virtual_time

    def clean_up(self, prefix: str) -> None:
        for one in self.judges():
            if not issubclass(one, ConformanceFixture):
                # Other tests clean up after themselves.
                continue
            case: Any = one(unittest.defaultTestLoader.getTestCaseNames(one)[0])
            case.prefix = prefix
            with contextlib.ExitStack() as stack:
                stack.callback(case.doCleanups)
                case.setUp()
                sweep.remains(case.driver, prefix, case.time, case.timeout_s)

    def driver_class(self) -> type[AmphoraComputeDriver]:
        """Return the class of the driver.

        :raises DriverNotFound: no driver has the name.
        :raises DriverLoadError: it breaks the contract.
        """
        if ':' in self.name:
            found: Any = resolved(self.name)
            if violations := list(contract_violations(found)):
                raise DriverLoadError(f'Cannot use {self.name}: {"; ".join(violations)}.')
            loaded: type[AmphoraComputeDriver] = found
            return loaded
        with contextlib.closing(self.open_driver()) as driver:
            return type(driver)

    def open_driver(self) -> AmphoraComputeDriver:
        """Return a new driver."""
        clock = VirtualClock() if self.virtual_time else SYSTEM_CLOCK
        if ':' not in self.name:
            return DriverManager(self._conf).open_driver(self.name, clock=clock)
        driver_class = self.driver_class()
        name, options = driver_class.name, None
        if driver_class.options:
            options = kiln_conf.register(self._conf, f'{GROUP}:{name}', driver_class.options)
        return driver_class.open(options, name=name, owner='kiln', clock=clock)

    def judges(self) -> list[type[unittest.TestCase]]:
        """Return the test classes that judge the driver."""
        if self.suites:
            return [one for path in self.suites for one in suite_classes(path)]
        subject = self

        class Given(ConformanceFixture):
            timeout_s = self.timeout_s

            def make_driver(self) -> AmphoraComputeDriver:
                return subject.open_driver()

        class Kit(Given, ComputeDriverConformance, unittest.TestCase):
            pass

        class Faults(Given, FaultConformance, unittest.TestCase):
            pass

        return [Kit, Faults]

    @property
    def _conf(self) -> Any:
        return _loaded(self.config_files, self.config_dirs)


def package_of(driver_class: type) -> str:
    """Return the package of a driver; its module if others have modules in the package."""
    module = driver_class.__module__
    if getattr(sys.modules.get(module), '__path__', None) is not None:
        return module
    package = module.rpartition('.')[0]
    return module if package in _SHARED else package


def modules_of(driver_class: type) -> list[str]:
    """Return the names of the modules of a driver, without those that test it."""
    bench = (getattr(driver_class, 'bench', None) or '').partition(':')[0]
    own = driver_class.__module__
    return [one for one in modules_below(package_of(driver_class)) if one == own or one != bench]


@functools.cache
def _loaded(files: tuple[str, ...] | None, folders: tuple[str, ...] | None) -> Any:
    # Not kept in the subject, which is sent to other processes.
    return kiln_conf.load(files, folders)


@functools.cache
def _place_of(subject: ComputeSubject) -> str:
    # Found before the driver is changed, which then might not even load.
    return package_of(subject.driver_class())
