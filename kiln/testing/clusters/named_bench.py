"""Bench that a driver class names."""

from __future__ import annotations

import pkgutil
from typing import TypeVar

from kiln.cluster_drivers.base import ClusterDriver
from kiln.exceptions import DriverLoadError

B = TypeVar('B')


def named_bench(driver_class: type[ClusterDriver], kind: type[B]) -> type[B] | None:
    """Return the class of the bench that a driver names; None if it names none.

    :raises DriverLoadError: it cannot be imported, or is not a bench for such drivers.
    """
    named = getattr(driver_class, 'bench', None)
    if named is None:
        return None
    found = named if isinstance(named, type) else _imported(driver_class, named)
    if not isinstance(found, type) or not issubclass(found, kind):
        article = 'an' if kind.__name__[0] in 'AEIOU' else 'a'
        raise DriverLoadError(
            f'Cannot use bench {named!r} of {driver_class.name!r}: it is not {article} '
            f'{kind.__name__}.'
        )
    return found


def _imported(driver_class: type[ClusterDriver], named: str) -> object:
    beside = driver_class.__module__.rpartition('.')[0] if named.startswith('.') else ''
    try:
        return pkgutil.resolve_name(f'{beside}{named}')
    # The code of an author can raise anything.
    except Exception as exc:
        raise DriverLoadError(
            f'Cannot load bench {named!r} of {driver_class.name!r}: {exc}.'
        ) from exc
