"""Calls of a driver's code: its mistakes become errors that name driver and method."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from kiln.cluster_drivers.answers import checked
from kiln.cluster_drivers.author_errors import described
from kiln.cluster_drivers.base import ClusterDriver
from kiln.clusters.exceptions import ClusterDriverDefect
from kiln.exceptions import KilnError

LOG = logging.getLogger(__name__)

_Answer = TypeVar('_Answer')
_Driver = TypeVar('_Driver', bound=ClusterDriver)


def open_driver(driver_class: type[_Driver], *, overrides: Path | None = None) -> _Driver:
    """Open a driver.

    :raises ClusterDriverDefect: its code has a mistake.
    :raises InvalidClusterDriver: its templates cannot be used.
    """
    with driver_errors(driver_class.name, 'open'):
        return driver_class.open(overrides=overrides)


def call_driver(name: str, method: str, call: Callable[[], _Answer]) -> _Answer:
    """Call a driver, and return its answer once the answer is known to be usable.

    :param name: the name of the driver.
    :param method: what is called, for the message.
    :raises ClusterDriverDefect: the driver raised an error that is not kiln's, or its
        answer is not one that the contract allows.
    """
    with driver_errors(name, method):
        answer = call()
    return checked(name, method, answer)


@contextlib.contextmanager
def driver_errors(name: str, method: str) -> Iterator[None]:
    """Pass kiln's own errors through; report any other as a mistake of the driver.

    :raises ClusterDriverDefect: an error of any other kind.
    """
    try:
        yield
    except KilnError:
        raise
    # A driver's code can raise anything, even SystemExit.
    except (Exception, SystemExit) as exc:
        LOG.debug('Cluster driver %s failed in %s', name, method, exc_info=True)
        raise ClusterDriverDefect(
            f'Cluster driver {name} failed in {method}: {described(exc)}.'
        ) from exc
