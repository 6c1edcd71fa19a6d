"""Operations that only one driver has, such as showing what a user joins a cluster with."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol

from kiln.cluster_drivers.parameters import Parameter
from kiln.cluster_drivers.values import Context
from kiln.clusters.models import Cluster


class Run(Protocol):
    """What a verb does."""

    def __call__(
        self, context: Context, cluster: Cluster, arguments: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Do it, and return plain data to show; it may be called again."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Verb:
    """One operation, and what it takes."""

    run: Run
    help: str
    parameters: tuple[Parameter, ...] = ()
