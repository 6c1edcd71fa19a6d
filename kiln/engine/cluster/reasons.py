"""Causes of an operation that waits or failed, the outermost reason first."""

from __future__ import annotations

from collections.abc import Sequence

from kiln.clusters.models import Cause, Operation
from kiln.engine.nodes.node_table import NodeTable


def why_waiting(table: NodeTable, holds: Sequence[str]) -> Cause | None:
    """Return why nothing is under way; None if unknown."""
    inner = next((node.cause for node in table.restless() if node.cause), None)
    if not holds:
        return inner
    return Cause(code='held', message=f'{"; ".join(holds)}.', because=inner)


def why_late(
    operation: Operation,
    cluster: str,
    left: str,
    *,
    because: Cause | None = None,
    undone: Cause | None = None,
) -> Cause:
    """Return the cause of an operation that missed its deadline.

    :param left: what is still to be done.
    :param because: why it was not done; None uses the last cause of the operation.
    :param undone: why it was being rolled back, if it was.
    """
    kind = operation.kind.value
    what = kind if undone is None else f'undo the {kind} of'
    return Cause(
        code='deadline',
        message=f'Cannot {what} cluster {cluster} by its deadline: {left}.',
        hint="See the cause; then 'kiln cluster retry' continues from what exists.",
        because=undone or because or operation.cause,
    )


def why_undone(operation: Operation, cluster: str, undone: Cause) -> Cause:
    """Return the cause of an operation that was rolled back."""
    message = f'Cannot {operation.kind.value} cluster {cluster}: it was rolled back.'
    return Cause(code='rolled_back', message=message, because=undone)
