"""Whether a class is fit to be a cluster driver, and how the mistakes of one come out."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

from kiln.cluster_drivers.base import CONTRACT_VERSION, ClusterDriver
from kiln.cluster_drivers.discovery.manifest import ManifestError, from_class
from kiln.clusters.exceptions import ClusterDriverError
from kiln.exceptions import KilnError


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
        return
    try:
        if from_class(driver_class).provides is None:
            yield 'it provides nothing'
    except ManifestError as exc:
        yield str(exc)
    except Exception as exc:  # whatever an author's property may raise
        yield f'what it provides cannot be read without making a driver: {exc}'


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
