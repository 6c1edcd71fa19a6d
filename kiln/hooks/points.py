"""Hook points of the cluster and node lifecycle, with their failure defaults."""

from __future__ import annotations

import enum

from kiln.clusters.models import OperationKind


class OnFailure(enum.StrEnum):
    """What happens when a call of a hook fails."""

    #: The operation or node of the point fails.
    FAIL = 'fail'
    #: The failure is reported, and the operation goes on.
    WARN = 'warn'
    #: The hook is called again; when its retries are used up, ``OnDeadline`` applies.
    RETRY = 'retry'


class OnDeadline(enum.StrEnum):
    """What happens when a hook has not succeeded by its deadline."""

    FAIL = 'fail'
    CONTINUE = 'continue'


class Point(enum.StrEnum):
    """When hooks are called."""

    #: The plan is accepted, and no node has been built.
    PRE_CREATE = 'pre_create'
    #: The first control node is ready; only the end of the creation waits for this point.
    POST_CONTROL_PLANE = 'post_control_plane'
    #: All groups are as desired.
    POST_CREATE = 'post_create'
    #: Nothing has changed; the kind of the operation says what will change.
    PRE_UPDATE = 'pre_update'
    POST_UPDATE = 'post_update'
    PRE_NODE_BUILD = 'pre_node_build'
    #: The driver reports the node ready; it counts as ready after this point.
    POST_NODE_READY = 'post_node_ready'
    #: Before a node is drained.
    PRE_NODE_DELETE = 'pre_node_delete'
    #: The node is drained; before its machine is deleted.
    PRE_NODE_TERMINATE = 'pre_node_terminate'
    #: Before any node is removed.
    PRE_DELETE = 'pre_delete'
    #: All resources are verified to be gone; the cluster can still be read.
    POST_DELETE = 'post_delete'

    @property
    def per_node(self) -> bool:
        """True if the point belongs to the lifecycle of a node instead of the cluster."""
        return '_node_' in self.value

    @property
    def before(self) -> bool:
        """True if the point precedes an action, which a failure prevents."""
        return self.value.startswith('pre_')

    @property
    def may_fail(self) -> bool:
        """True if a failure at the point can fail the operation or the node."""
        return self not in _NEVER_FAIL

    @property
    def partner(self) -> Point | None:
        """The point whose hooks undo this point when one of its hooks fails."""
        return _PARTNERS.get(self)

    @property
    def on_failure(self) -> OnFailure:
        """Default of ``on_failure`` at the point."""
        if self in _GOING:
            return OnFailure.RETRY
        return OnFailure.WARN if self in _WARNING else OnFailure.FAIL

    @property
    def on_deadline(self) -> OnDeadline:
        """Default of ``on_deadline`` at the point."""
        # A hook must not prevent the deletion of a cluster for ever.
        later = self in _GOING | _WARNING
        return OnDeadline.CONTINUE if later else OnDeadline.FAIL


_NEVER_FAIL = frozenset({Point.POST_CONTROL_PLANE, Point.POST_DELETE})
_WARNING = _NEVER_FAIL | {Point.POST_UPDATE}
_GOING = frozenset({Point.PRE_DELETE, Point.PRE_NODE_DELETE, Point.PRE_NODE_TERMINATE})
_PARTNERS = {
    Point.PRE_CREATE: Point.POST_CREATE,
    Point.PRE_UPDATE: Point.POST_UPDATE,
    Point.PRE_NODE_BUILD: Point.POST_NODE_READY,
    Point.PRE_DELETE: Point.POST_DELETE,
}

_BEFORE = {
    OperationKind.CREATE: Point.PRE_CREATE,
    OperationKind.DELETE: Point.PRE_DELETE,
    OperationKind.ADOPT: None,
    OperationKind.CHECK: None,
}


def before(kind: OperationKind) -> Point | None:
    """Return the point before an operation; None for an operation that changes nothing."""
    return _BEFORE.get(kind, Point.PRE_UPDATE)


def after(kind: OperationKind) -> Point | None:
    """Return the point after an operation; None for an operation that changes nothing."""
    first = before(kind)
    return first.partner if first else None
