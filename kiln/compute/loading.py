"""Compute drivers by name: loaded and checked against the contract; home of stevedore."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Any, NoReturn

from stevedore import driver as stevedore_driver
from stevedore import exception as stevedore_exceptions

from kiln.compute_drivers.base import CONTRACT_VERSION, AmphoraComputeDriver
from kiln.compute_drivers.calls import Call
from kiln.exceptions import DriverConflict, DriverLoadError, DriverNotFound
from kiln.plugins.entry_points import entry_points
from kiln.plugins.extras import needed_extra
from kiln.plugins.signatures import differing_signatures

COMPUTE_NAMESPACE = 'kiln.compute_drivers'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class InstalledDriver:
    """A driver of an installed package, loadable or not."""

    name: str
    distribution: str
    version: str
    # Why it cannot be used; None if it can.
    error: str | None = None
    # The command that installs the missing extra; None if no extra is missing.
    install: str | None = None


def load_compute_driver(name: str) -> type[AmphoraComputeDriver]:
    """Return the class of a compute driver.

    :raises DriverNotFound: not installed; the message lists the installed drivers.
    :raises DriverConflict: two packages provide a driver of this name.
    :raises DriverLoadError: it cannot be imported, or violates the contract.
    """
    try:
        found = stevedore_driver.DriverManager(
            COMPUTE_NAMESPACE,
            name,
            on_load_failure_callback=_load_failed,
            on_missing_entrypoints_callback=None,
        )
    except stevedore_exceptions.MultipleMatches as exc:
        offers = ' and '.join(
            f'{entry.dist.name if entry.dist else "?"} ({entry.value})'
            for entry in entry_points(COMPUTE_NAMESPACE)
            if entry.name == name
        )
        raise DriverConflict(
            f'Cannot load compute driver {name!r}: {offers} both offer it. Uninstall one of them.'
        ) from exc
    except stevedore_exceptions.NoMatches as exc:
        names = {entry.name for entry in entry_points(COMPUTE_NAMESPACE)}
        installed = ', '.join(sorted(names)) or 'none'
        raise DriverNotFound(
            f'Cannot find compute driver {name!r}. Installed: {installed}.'
        ) from exc
    driver_class: Any = found.driver
    if violations := list(contract_violations(driver_class)):
        raise DriverLoadError(
            f'Cannot use compute driver {name!r}: it breaks the contract: {"; ".join(violations)}.'
        )
    loaded: type[AmphoraComputeDriver] = driver_class
    return loaded


def installed_drivers() -> list[InstalledDriver]:
    """Return every installed compute driver, with the reason if it cannot be used."""
    offered = sorted(entry_points(COMPUTE_NAMESPACE), key=lambda entry: entry.name)
    return [_describe(entry) for entry in offered]


def contract_violations(driver_class: Any) -> Iterator[str]:
    """Yield each violation of the compute driver contract by a class."""
    if not inspect.isclass(driver_class) or not issubclass(driver_class, AmphoraComputeDriver):
        yield f'{driver_class!r} is not a subclass of AmphoraComputeDriver'
        return
    if driver_class.contract_version != CONTRACT_VERSION:
        yield (
            f'it is written for contract {driver_class.contract_version}, '
            f'this kiln has {CONTRACT_VERSION}'
        )
    if lacking := sorted(driver_class.__abstractmethods__):
        yield f'it lacks {", ".join(lacking)}'
    public = (name for name in vars(AmphoraComputeDriver) if not name.startswith('_'))
    names = (*public, *(call.hook for call in Call))
    yield from differing_signatures(AmphoraComputeDriver, driver_class, names)


def _describe(entry: EntryPoint) -> InstalledDriver:
    error, install = None, None
    try:
        load_compute_driver(entry.name)
    except DriverConflict as exc:
        error = str(exc)
    except DriverLoadError as exc:
        error, install = str(exc), exc.install
    return InstalledDriver(
        name=entry.name,
        distribution=entry.dist.name if entry.dist else '',
        version=entry.dist.version if entry.dist else '',
        error=error,
        install=install,
    )


def _load_failed(_manager: Any, entry: Any, exc: BaseException) -> NoReturn:
    # stevedore does not record which package an entry point comes from.
    owners = (one.dist for one in entry_points(COMPUTE_NAMESPACE) if one.name == entry.name)
    needed = needed_extra(exc, next(owners, None), driver=entry.name)
    if needed is None or not needed.absent:
        raise DriverLoadError(
            f'Cannot load compute driver {entry.name!r} from {entry.value}: {exc}.'
        ) from exc
    raise DriverLoadError(
        f'Cannot load compute driver {entry.name!r}: {needed}', install=needed.command
    ) from exc
