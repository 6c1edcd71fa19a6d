"""What is asked of the class of a driver before any is made, and how its mistakes come out."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

from kiln.cluster_drivers.base import CONTRACT_VERSION, ClusterDriver
from kiln.cluster_drivers.records import ClusterType, cluster_type
from kiln.cluster_exceptions import ClusterDriverError
from kiln.exceptions import KilnError


def provided_by(driver_class: type[ClusterDriver]) -> tuple[ClusterType, ...]:
    """Return what the drivers of a class build.

    :raises ClusterDriverError: it says something else, or only a driver could say it.
    """
    provides: Any = driver_class.provides
    try:
        if isinstance(provides, property) and provides.fget is not None:
            # Called on the class: making a driver may need what is not there now.
            provides = provides.fget(driver_class)
        return tuple(cluster_type(entry) for entry in provides)
    except Exception as exc:  # whatever an author's property may raise
        raise ClusterDriverError(
            f'Cannot read what {driver_class.__name__} provides: {exc}.',
            'It is a list of (server_type, os, coe), and depends on the class alone.',
        ) from exc


def contract_violations(driver_class: Any) -> Iterator[str]:
    """Yield, one by one, what makes a class unfit to be a cluster driver."""
    if not inspect.isclass(driver_class) or not issubclass(driver_class, ClusterDriver):
        yield f'{driver_class!r} is no subclass of ClusterDriver'
        return
    if driver_class.contract_version != CONTRACT_VERSION:
        yield (
            f'it is written for contract {driver_class.contract_version}, '
            f'this kiln has {CONTRACT_VERSION}'
        )
    lacking = sorted(driver_class.__abstractmethods__)
    lacking += [name for name in ('name', 'version') if not hasattr(driver_class, name)]
    if lacking:
        yield f'it lacks {", ".join(lacking)}'
    if 'provides' not in lacking:
        try:
            provided_by(driver_class)
        except ClusterDriverError as exc:
            yield exc.reason


@contextlib.contextmanager
def driver_errors(name: str, action: str) -> Iterator[None]:
    """Let out nothing but kiln's own errors; any other is the driver's fault, and says so."""
    try:
        yield
    except KilnError:
        raise
    except Exception as exc:  # a driver is somebody else's code
        raise ClusterDriverError(
            f'Cluster driver {name} failed to {action}: {type(exc).__name__}: {exc}.',
            'This is a mistake in the driver: tell its author.',
        ) from exc
