"""The status of a cluster in one word, computed from its newest operation and its nodes."""

from __future__ import annotations

import enum

from kiln.clusters.models import OperationState


class ClusterStatus(enum.StrEnum):
    """The status of a cluster; never stored."""

    READY = 'ready'
    DEGRADED = 'degraded'
    FAILED = 'failed'
    QUEUED = 'queued'
    RUNNING = 'running'
    WAITING = 'waiting'
    PAUSED = 'paused'


def status_of(newest: OperationState | None, *, paused: bool, whole: bool) -> ClusterStatus:
    """Return the status of a cluster.

    :param newest: the state of its newest operation.
    :param whole: True if all its nodes are ready and its driver has found no problem.
    """
    if newest is not None and not newest.ended:
        return ClusterStatus.PAUSED if paused else ClusterStatus(newest.value)
    if newest is OperationState.FAILED:
        return ClusterStatus.FAILED
    return ClusterStatus.READY if whole else ClusterStatus.DEGRADED
