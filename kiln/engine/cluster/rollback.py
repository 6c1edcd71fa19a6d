"""The way back of an operation that failed, if its user asked for it."""

from __future__ import annotations

from collections.abc import Iterable

from kiln.clusters.models import Cause, Operation, OperationKind, Step
from kiln.engine.nodes.transaction import ROLLBACK, Transaction

#: The operations that can roll back to the state before them.
_UNDOING = frozenset({OperationKind.UPDATE, OperationKind.RESIZE, OperationKind.UPGRADE})


def rollback_of(operation: Operation, steps: Iterable[Step]) -> Step | None:
    """Return the step that began the way back; None on the way there."""
    found = (step for step in steps if step.kind == ROLLBACK)
    return next(found, None) if operation.kind in _UNDOING else None


def leads_back(tx: Transaction, cause: Cause) -> bool:
    """Begin the way back of the operation under way, if it is to be rolled back; return that."""
    operation, former = tx.under_way, tx.cluster.former
    wished = operation.kind in _UNDOING and operation.rolls_back
    if not wished or former is None:
        return False
    tx.event('operation-rollback', f'{operation.kind.value} leads back: {cause.message}')
    # The way back can take as long as the way there.
    allowed_s = operation.deadline_at - operation.asked_at
    tx.roll_back(former, tx.now + allowed_s, cause)
    return True
