"""Why an operation waits, or ended as it did: causes for people, the outermost reason first."""

from __future__ import annotations

from collections.abc import Sequence

from kiln.cluster_models import Cause, Operation
from kiln.engine.roster import Roster


def why_waiting(roster: Roster, holds: Sequence[str]) -> Cause | None:
    """Return why nothing is under way; None if nobody knows."""
    inner = next((node.cause for node in roster.restless() if node.cause), None)
    if not holds:
        return inner
    return Cause(code='held', message=f'{"; ".join(holds)}.', because=inner)


def why_late(
    operation: Operation,
    cluster: str,
    roster: Roster,
    holds: Sequence[str],
    undone: Cause | None,
) -> Cause:
    """Return why an operation has failed that is not done by its deadline.

    :param undone: why it was on its way back, if it was.
    """
    kind, late = operation.kind.value, len(list(roster.restless()))
    what = kind if undone is None else f'undo the {kind} of'
    return Cause(
        code='deadline',
        message=f'Cannot {what} cluster {cluster} by its deadline: {late} of {len(roster)} nodes '
        f'are not what they are to be.',
        hint='See the cause, then repeat it: it goes on from what there is.',
        because=undone or why_waiting(roster, holds) or operation.cause,
    )


def why_undone(operation: Operation, cluster: str, undone: Cause) -> Cause:
    """Return why a cluster is as it was before an operation."""
    message = f'Cannot {operation.kind.value} cluster {cluster}: it is as it was before.'
    return Cause(code='rolled_back', message=message, because=undone)
