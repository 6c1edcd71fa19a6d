"""The points of a cluster's life at which hooks are called, and what holds at each."""

from __future__ import annotations

import enum

from kiln.cluster_models import OperationKind


class OnFailure(enum.StrEnum):
    """What a failure of a hook leads to."""

    #: What the point is before or after fails.
    FAIL = 'fail'
    #: It is told, and all goes on.
    WARN = 'warn'
    #: It is called again; once its retries are used up, ``OnDeadline`` decides.
    RETRY = 'retry'


class OnDeadline(enum.StrEnum):
    """What becomes of a point by whose deadline a hook has not succeeded."""

    FAIL = 'fail'
    CONTINUE = 'continue'


class Point(enum.StrEnum):
    """When hooks are called."""

    #: The plan is accepted, and nothing is built.
    PRE_CREATE = 'pre_create'
    #: The first control node is ready; nothing waits for it but the end of the creation.
    POST_CONTROL_PLANE = 'post_control_plane'
    #: All groups are as wanted.
    POST_CREATE = 'post_create'
    #: Nothing has changed yet; the operation's kind says what will.
    PRE_UPDATE = 'pre_update'
    POST_UPDATE = 'post_update'
    PRE_NODE_BUILD = 'pre_node_build'
    #: The driver says that the node is ready; it counts as ready after this.
    POST_NODE_READY = 'post_node_ready'
    #: Before a node is drained.
    PRE_NODE_DELETE = 'pre_node_delete'
    #: It is drained; before its machine is taken away.
    PRE_NODE_TERMINATE = 'pre_node_terminate'
    #: Before any node goes.
    PRE_DELETE = 'pre_delete'
    #: It is proven that nothing is left; the cluster can still be read.
    POST_DELETE = 'post_delete'

    @property
    def per_node(self) -> bool:
        """Whether it is a point of each node's life, and not of the cluster's."""
        return '_node_' in self.value

    @property
    def before(self) -> bool:
        """Whether something follows that a failure keeps from being done."""
        return self.value.startswith('pre_')

    @property
    def may_fail(self) -> bool:
        """Whether a failure there can be one of the operation or of the node."""
        return self not in _NEVER_FAIL

    @property
    def partner(self) -> Point | None:
        """The point at which is undone what was done here, should one of the hooks fail."""
        return _PARTNERS.get(self)

    @property
    def on_failure(self) -> OnFailure:
        """What a failure leads to if the hook does not say."""
        if self in _GOING:
            return OnFailure.RETRY
        return OnFailure.WARN if self in _WARNING else OnFailure.FAIL

    @property
    def on_deadline(self) -> OnDeadline:
        """What its deadline leads to if the hook does not say."""
        # A hook must not make a cluster immortal.
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

_LOOKING = frozenset({OperationKind.ADOPT, OperationKind.CHECK})


def before(kind: OperationKind) -> Point | None:
    """Return the point before an operation; None for one that changes nothing."""
    if kind in _LOOKING:
        return None
    return _OWN_BEFORE.get(kind, Point.PRE_UPDATE)


def after(kind: OperationKind) -> Point | None:
    """Return the point after an operation; None for one that changes nothing."""
    first = before(kind)
    return first.partner if first else None


_OWN_BEFORE = {
    OperationKind.CREATE: Point.PRE_CREATE,
    OperationKind.DELETE: Point.PRE_DELETE,
}
