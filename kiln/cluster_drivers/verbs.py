"""Verbs: operations of one cluster driver only, ``kiln x DRIVER VERB``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol

from kiln.cluster_drivers.parameters import Parameter
from kiln.cluster_drivers.values import Context
from kiln.clusters.models import Cluster


class Run(Protocol):
    """The function that runs a verb."""

    def __call__(
        self, context: Context, cluster: Cluster, arguments: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Run the verb, and return plain data to show; calls can be repeated."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Verb:
    """One operation and its parameters."""

    run: Run
    help: str
    parameters: tuple[Parameter, ...] = ()
