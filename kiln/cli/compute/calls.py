"""Calls of a backend for several amphorae at once, and amphorae by name or id."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from kiln.exceptions import AmphoraComputeError, InstanceNotFoundError

if TYPE_CHECKING:
    from kiln.compute.facade import Compute
    from kiln.models import Amphora
    from kiln.wrappers.operations.operation import Operation

    _T = TypeVar('_T')
    #: An operation, or the error with which it was refused.
    Started = Operation[_T] | AmphoraComputeError


def find(compute: Compute, word: str, timeout: float | None = None) -> Amphora:
    """Return the amphora with an id or a name.

    :raises InstanceNotFoundError: no amphora has this id or name.
    :raises AmbiguousInstanceError: several amphorae have this name.
    """
    try:
        return compute.get_amphora(amphora_id=word, timeout=timeout).result()
    except InstanceNotFoundError:
        return compute.get_amphora(amphora_name=word, timeout=timeout).result()


def find_all(
    compute: Compute, words: Sequence[str], timeout: float | None = None
) -> Mapping[str, Amphora | AmphoraComputeError]:
    """Return for each word the amphora with this id or name, or the error of the search."""
    found = gather(
        {word: attempt(compute.get_amphora, amphora_id=word, timeout=timeout) for word in words}
    )
    # Again all at once: only the words that are not ids are searched as names.
    by_name = {
        word: attempt(compute.get_amphora, amphora_name=word, timeout=timeout)
        for word, answer in found.items()
        if isinstance(answer, InstanceNotFoundError)
    }
    return {**found, **gather(by_name)}


def attempt(start: Callable[..., Operation[_T]], *what: Any, **how: Any) -> Started[_T]:
    """Start an operation; return it, or the error with which it was refused."""
    try:
        return start(*what, **how)
    # A full queue or an open circuit; reported for each amphora, like other errors.
    except AmphoraComputeError as exc:
        return exc


def gather(started: Mapping[str, Started[Any]]) -> dict[str, Any]:
    """Wait for operations, and return the result or error of each."""
    return {key: outcome(operation) for key, operation in started.items()}


def outcome(operation: Started[Any]) -> Any:
    """Wait for an operation, and return its result or its error."""
    if isinstance(operation, AmphoraComputeError):
        return operation
    error = operation.exception()
    if error is not None and not isinstance(error, AmphoraComputeError):
        # A defect of kiln, reported like any other exception.
        raise error
    return error or operation.result()
