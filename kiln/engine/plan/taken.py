"""Machines that exist, and become nodes of a new cluster, as its operation has them; pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

#: The argument of the operation.
_MACHINES = 'machines'


@dataclasses.dataclass(frozen=True, slots=True)
class Taken:
    """A machine that exists: its group, its id in the backend, and the id of its node."""

    group: str
    machine: str
    node: str


def taken_in(args: Mapping[str, Any]) -> tuple[Taken, ...]:
    """Return the machines in the arguments of an operation; none for most operations."""
    return tuple(Taken(*one) for one in args.get(_MACHINES, ()))


def taken_args(taken: Iterable[Taken]) -> Mapping[str, Any]:
    """Return the arguments of an operation that takes machines over."""
    return {_MACHINES: [list(dataclasses.astuple(one)) for one in taken]}
