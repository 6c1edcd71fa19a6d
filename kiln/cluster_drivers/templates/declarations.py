"""Declarations of a driver's mappings, and the values that clusters give to them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, TypeVar

from kiln.cluster_drivers.parameters import Parameter
from kiln.cluster_drivers.templates.mappings import Mapped, Spot
from kiln.cluster_drivers.values import Context
from kiln.clusters.exceptions import ClusterDriverError, Problem
from kiln.clusters.models import Cluster
from kiln.clusters.spec import Scope

M = TypeVar('M', bound=Mapped)


class Declarations:
    """Mappings by name, their positions, and the mistakes in them."""

    def __init__(self) -> None:
        self.mistakes: list[Problem] = []
        #: The position of each mapping, by kind and name.
        self.spots: dict[tuple[str, str], Spot] = {}

    def declare(self, known: dict[str, M], kind: str, name: str, mapping: M, spot: Spot) -> None:
        """Add a mapping under its name, and note its contradictions."""
        for field, message in mapping.contradictions():
            self.mistakes.append(spot.problem(f'{kind} {name!r}, {field}: {message}'))
        if name in known:
            self.mistakes.append(spot.problem(f'{kind} {name!r} is there twice'))
        known[name] = mapping
        self.spots[kind, name] = spot


def value_of(mapping: Parameter, given: Mapping[str, Any]) -> Any:
    """Return the value that is given to a parameter, or else its default."""
    value = given.get(mapping.name)
    return mapping.default if value is None else value


def secret_of(context: Context, parameter: str, name: str) -> str:
    """Return the secret that a parameter names.

    :raises ClusterDriverError: the secret does not exist; the message names the parameter.
    """
    try:
        return context.secrets.get(name)
    except ClusterDriverError as exc:
        # A colon after the parameter would mask the reason of one that is called password.
        reason = f'{exc.reason} Parameter {parameter} names it.'
        raise ClusterDriverError(reason, exc.hint, exc.retryable) from None


def group_path(cluster: Cluster, group: str) -> str:
    """Return the place of a group in a cluster file."""
    names = [one.name for one in cluster.spec.groups]
    # As in the cluster file, where groups are a list; a group of the template is not there.
    return f'nodegroups[{names.index(group)}]' if group in names else f'template.{group}'


def path_of(cluster: Cluster, group: str, name: str, origins: Mapping[str, Scope]) -> str:
    """Return the place in a cluster file from which a group has a parameter."""
    match origins[f'parameters.{name}']:
        case Scope.GROUP:
            return f'{group_path(cluster, group)}.parameters.{name}'
        case Scope.CLUSTER:
            return f'parameters.{name}'
        case scope:
            return f'{scope}.parameters.{name}'


def caller() -> Spot:
    """Return the position of the caller's caller."""
    frame = sys._getframe(2)
    return Spot(frame.f_code.co_filename, frame.f_lineno)
