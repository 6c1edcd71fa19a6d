"""Translation of kiln's exceptions to Octavia's, with kiln's as the cause."""

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
    """Raise each error of kiln as the translated error of Octavia."""
    try:
        yield
    except KilnError as exc:
        raise translation(exc) from exc


def saying(kind: Callable[[str], Exception]) -> Translation:
    """Return a translation to errors of that kind with kiln's message."""
    # Octavia uses the message as a format string.
    return lambda exc: kind(str(exc).replace('%', '%%'))


def naming(kind: Callable[..., Exception], argument: str) -> Translation:
    """Return a translation to errors of that kind, with kiln's message as this argument."""
    return lambda exc: kind(**{argument: str(exc)})


_no_resources = saying(exceptions.ComputeNoResourcesException)
_failed = naming(exceptions.ComputeBuildException, 'fault')
_unknown = naming(exceptions.ComputeUnknownException, 'exc')
#: Octavia's error for a failed delete.
of_delete = naming(exceptions.ComputeDeleteException, 'compute_msg')


def of_build(exc: KilnError) -> Exception:
    """Return Octavia's error for a failed build."""
    if isinstance(exc, InsufficientCapacity):
        return _no_resources(exc)
    return _failed(exc)


def of_attach(
    exc: KilnError, compute_id: str, network_id: str | None, port_id: str | None
) -> Exception:
    """Return Octavia's error for a failed attachment.

    Octavia's network drivers decide by its class and its resource what to do next.
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
    # A conflict that does not name the port is about a busy instance.
    conflict = isinstance(exc, BuildConflict | InstanceStateConflict)
    return conflict and port_id is not None and getattr(exc, 'resource_id', None) == port_id


def of_validation(resource: str, name: str) -> Translation:
    """Return the translation to Octavia's error for an invalid flavor or zone."""

    def translation(exc: KilnError) -> Exception:
        if isinstance(exc, UnsupportedOperation):
            return NotImplementedError(str(exc))
        if isinstance(exc, InvalidRequest):
            refused: Exception = exceptions.InvalidSubresource(resource=resource, id=name)
            return refused
        return _unknown(exc)

    return translation
