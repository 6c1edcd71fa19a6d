"""Octavia's errors made of ours; the cause stays with each."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from octavia.common import exceptions

from kiln.exceptions import (
    BuildConflict,
    InstanceNotFoundError,
    InstanceStateConflict,
    InsufficientCapacity,
    InvalidRequest,
    KilnError,
    ResourceNotFoundError,
    UnsupportedOperation,
)

Translation = Callable[[KilnError], Exception]


@contextlib.contextmanager
def leaving_as(translation: Translation) -> Iterator[None]:
    """Let each error of kiln leave as the one of Octavia that it amounts to."""
    try:
        yield
    except KilnError as exc:
        raise translation(exc) from exc


def saying(kind: Callable[[str], Exception]) -> Translation:
    """Return what makes an error of that kind, with kiln's words for Octavia's."""
    # Octavia takes the words for a format.
    return lambda exc: kind(str(exc).replace('%', '%%'))


_no_resources = saying(exceptions.ComputeNoResourcesException)


def of_build(exc: KilnError) -> Exception:
    """Return what Octavia calls a build that failed."""
    if isinstance(exc, InsufficientCapacity):
        return _no_resources(exc)
    failed: Exception = exceptions.ComputeBuildException(fault=str(exc))
    return failed


def of_delete(exc: KilnError) -> Exception:
    """Return what Octavia calls a delete that failed."""
    failed: Exception = exceptions.ComputeDeleteException(compute_msg=str(exc))
    return failed


def of_attach(
    exc: KilnError, compute_id: str, network_id: str | None, port_id: str | None
) -> Exception:
    """Return what Octavia calls an attachment that failed.

    Its network drivers tell by the kind and by the resource what to do next.
    """
    error: Exception
    if isinstance(exc, InstanceNotFoundError):
        error = exceptions.NotFound(resource='Instance', id=compute_id)
    elif isinstance(exc, ResourceNotFoundError):
        kind = 'Port' if port_id else 'Network'
        error = exceptions.NotFound(resource=kind, id=port_id or network_id)
    elif isinstance(exc, InsufficientCapacity):
        error = _no_resources(exc)
    elif _in_use(exc, port_id):
        error = exceptions.ComputePortInUseException(port=port_id)
    else:
        error = _unknown(exc)
    return error


def _in_use(exc: KilnError, port_id: str | None) -> bool:
    # A conflict that does not name the port is about the instance, which is busy.
    conflict = isinstance(exc, BuildConflict | InstanceStateConflict)
    return conflict and port_id is not None and getattr(exc, 'resource_id', None) == port_id


def of_validation(resource: str, name: str) -> Translation:
    """Return what says what Octavia calls a flavor or a zone that may not be used."""

    def translation(exc: KilnError) -> Exception:
        if isinstance(exc, UnsupportedOperation):
            return NotImplementedError(str(exc))
        if isinstance(exc, InvalidRequest):
            refused: Exception = exceptions.InvalidSubresource(resource=resource, id=name)
            return refused
        return _unknown(exc)

    return translation


def _unknown(exc: KilnError) -> Exception:
    error: Exception = exceptions.ComputeUnknownException(exc=str(exc))
    return error
