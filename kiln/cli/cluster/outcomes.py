"""Exit status of an operation that has ended."""

from __future__ import annotations

from collections.abc import Iterator

from kiln.cli.exit_codes import ExitCode, code_for
from kiln.clusters.models import Cause, Operation, OperationState
from kiln.exceptions import KilnError


class OperationEnded(KilnError):
    """An operation failed, was rolled back or was cancelled."""

    code = 'operation_ended'
    remedy = "'kiln why CLUSTER' explains it."

    def __init__(self, cluster: str, operation: Operation) -> None:
        text = f'{cluster}: {operation.kind.value} {operation.state.value.replace("_", " ")}'
        said = [cause.message.rstrip('.') for cause in _chain(operation.cause)]
        # The outermost cause is kiln's own message, the innermost that of the provider.
        super().__init__(': '.join([text, *dict.fromkeys((*said[:1], *said[-1:]))]))
        self.operation = operation

    @property
    def exit_code(self) -> ExitCode:
        """The exit status of the cause nearest to the provider."""
        if self.operation.state is OperationState.CANCELLED:
            return ExitCode.INTERRUPTED
        found = ExitCode.UNFORESEEN
        for cause in _chain(self.operation.cause):
            late = cause.code == 'deadline'
            found = ExitCode.UNAVAILABLE if late else code_for(cause.code, found)
        return found


def _chain(cause: Cause | None) -> Iterator[Cause]:
    while cause is not None:
        yield cause
        cause = cause.because


def ended_badly(operation: Operation) -> bool:
    """Return True if the operation has not succeeded."""
    return operation.state is not OperationState.SUCCEEDED
