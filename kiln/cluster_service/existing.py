"""Creations that go on with what exists in the engine of a driver's own."""

from __future__ import annotations

import dataclasses
import functools

from kiln.cluster_drivers.base import ClusterDriver
from kiln.cluster_drivers.calls import call_driver
from kiln.cluster_drivers.values import Context
from kiln.cluster_service.proposals import EXISTING, Proposal


def with_existing(
    proposal: Proposal, driver: ClusterDriver, context: Context, existing: str
) -> Proposal:
    """Return a creation that begins with what exists; the driver reads it, and changes nothing.

    :raises ClusterDriverError: it does not exist, or cannot become the cluster's.
    """
    cluster = proposal.cluster
    find = functools.partial(
        driver.find_existing, context=context, cluster=cluster, reference=existing
    )
    found = call_driver(driver.name, 'find_existing', find)
    return dataclasses.replace(
        proposal,
        cluster=dataclasses.replace(cluster, driver_state=found.driver_state),
        args={**proposal.args, EXISTING: existing},
        notices=(*proposal.notices, *found.facts),
    )
