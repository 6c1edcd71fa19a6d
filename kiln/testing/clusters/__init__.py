"""Conformance kit for cluster drivers: every promise of the contract, as a test.

A driver author writes one class, which any test runner can run::

    class AcmeConformance(ClusterDriverConformance, unittest.TestCase):
        driver = 'drivers/acme_v1'

and a second one in the same way with :class:`CrashConformance`, which kills the worker
processes at each commit of each operation. A driver with an engine of its own has one class,
with :class:`OwnEngineConformance`, and a bench, :class:`EngineBench`.
:func:`run_cluster_conformance` runs what fits a driver without a test runner and returns a
report; so does ``kiln driver test PATH``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kiln.testing.clusters.behaviours.crashes import CrashConformance
    from kiln.testing.clusters.engine_bench import EngineBench, EngineNode
    from kiln.testing.clusters.machine_bench import Booted, MachineBench, Request, Response
    from kiln.testing.clusters.road.machines import Machine
    from kiln.testing.clusters.simulation.site import Site
    from kiln.testing.clusters.subjects import find_driver
    from kiln.testing.clusters.suite import (
        ClusterDriverConformance,
        OwnEngineConformance,
        run_cluster_conformance,
    )

__all__ = [
    'Booted',
    'ClusterDriverConformance',
    'CrashConformance',
    'EngineBench',
    'EngineNode',
    'Machine',
    'MachineBench',
    'OwnEngineConformance',
    'Request',
    'Response',
    'Site',
    'find_driver',
    'run_cluster_conformance',
]

_HOMES = {
    'Booted': 'machine_bench',
    'ClusterDriverConformance': 'suite',
    'CrashConformance': 'behaviours.crashes',
    'EngineBench': 'engine_bench',
    'EngineNode': 'engine_bench',
    'Machine': 'road.machines',
    'MachineBench': 'machine_bench',
    'OwnEngineConformance': 'suite',
    'Request': 'machine_bench',
    'Response': 'machine_bench',
    'Site': 'simulation.site',
    'find_driver': 'subjects',
    'run_cluster_conformance': 'suite',
}


def __getattr__(name: str) -> Any:
    # Imported on first use: the process that compares the bootstrap data of a driver needs
    # neither the engine nor the store, which would triple its start-up time.
    if name not in _HOMES:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    return getattr(importlib.import_module(f'{__name__}.{_HOMES[name]}'), name)
