"""Contract check of a driver class."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from kiln.cluster_drivers.base import CONTRACT_VERSION, ClusterDriver
from kiln.cluster_drivers.discovery.manifest import ManifestError, from_class


def contract_violations(driver_class: Any) -> Iterator[str]:
    """Yield each violation that makes a class unusable as a cluster driver."""
    if not inspect.isclass(driver_class) or not issubclass(driver_class, ClusterDriver):
        yield f'{driver_class!r} is not a subclass of ClusterDriver'
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
    except Exception as exc:  # an author's property can raise anything
        yield f'its provides cannot be read without creating a driver: {exc}'
