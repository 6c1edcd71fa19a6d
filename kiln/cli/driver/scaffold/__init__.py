"""Skeletons of new drivers, and forks of cluster drivers."""

from __future__ import annotations

from kiln.cli.driver.scaffold.skeletons import (
    Form,
    fork_cluster_driver,
    fork_templates,
    new_cluster_driver,
    new_compute_driver,
)

__all__ = [
    'Form',
    'fork_cluster_driver',
    'fork_templates',
    'new_cluster_driver',
    'new_compute_driver',
]
