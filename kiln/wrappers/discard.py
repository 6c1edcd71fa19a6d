"""Removes what a failed build left, or may yet leave, in the backend."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from kiln.clock import Deadline
from kiln.compute_drivers.calls import Call
from kiln.exceptions import InstanceNotFoundError, OperationTimeout
from kiln.models import Amphora, State
from kiln.wrappers.operation import Operation, OperationState, Priority

if TYPE_CHECKING:
    from kiln.wrappers.executor import ExecutorDriver

LOG = logging.getLogger(__name__)


class Discard:
    """Looks for a build by its key, deletes it, and looks again until it is gone.

    Goes through outages: each step that fails is taken again later. A request
    whose answer was lost may still be on its way, so where the id was never
    known the last look comes after a grace.
    """

    def __init__(self, executor: ExecutorDriver, build_key: str, amphora_id: str | None) -> None:
        settings = executor.settings
        self._executor = executor
        self._key = build_key
        self._amphora_id = amphora_id
        self._looks_left = 1 if amphora_id is not None else 2
        self._attempt = 0
        self.operation: Operation[None] = Operation(
            'discard',
            backend=executor.name,
            subject=build_key,
            deadline=Deadline.after(settings.cleanup_timeout_s, executor.clock),
            clock=executor.clock,
            build_key=build_key,
            priority=Priority.HIGH,
        )
        self.operation.amphora_id = amphora_id

    def start(self) -> None:
        """Begin."""
        self.operation.state = OperationState.RUNNING
        if self._amphora_id is not None:
            self._delete(self._amphora_id)
        else:
            self._look()

    def give_up(self, why: str) -> None:
        """End without knowing that all is gone, and say so once."""
        error = OperationTimeout(
            f'Cannot make sure that nothing of build {self._key} is left on '
            f'{self._executor.name!r} (id {self._amphora_id or "unknown"}): {why}. '
            f'The orphan sweep will find it.',
            build_key=self._key,
            amphora_id=self._amphora_id,
            backend=self._executor.name,
        )
        if self.operation.fail(error):
            LOG.error('%s', error)

    def _look(self) -> None:
        self._ask(Call.FIND_BUILD, self._key, self._looked)

    def _looked(self, found: Amphora | None) -> None:
        if found is None or found.state is State.DELETED:
            self._absent()
        elif found.state is State.DELETING:
            self._later(self._look)
        else:
            self._amphora_id = self.operation.amphora_id = found.id
            self._delete(found.id)

    def _delete(self, amphora_id: str) -> None:
        self._ask(Call.DELETE, amphora_id, lambda _: self._look())

    def _absent(self) -> None:
        self._looks_left -= 1
        if self._looks_left > 0:
            grace_s = self._executor.settings.cleanup_grace_s
            self._executor.scheduler.call_later(grace_s, self._look)
        else:
            self.operation.resolve(None)

    def _ask(self, call: Call, subject: str, then: Any) -> None:
        deadline = self.operation.deadline
        if self.operation.done():
            return
        if deadline is not None and deadline.passed:
            self.give_up('its time is over')
            return
        asked = self._executor.submit_anyway(call, subject)

        def answered(asked: Operation[Any]) -> None:
            error = asked.exception()
            if error is None or isinstance(error, InstanceNotFoundError):
                then(None if error else asked.result())
                return
            self.operation.note('failed', str(error))
            self._later(lambda: self._ask(call, subject, then))

        asked.add_done_callback(answered)

    def _later(self, step: Any) -> None:
        self._attempt += 1
        settings = self._executor.settings
        pause_s = min(settings.max_delay_s, settings.first_delay_s * 2 ** min(self._attempt, 20))
        self._executor.scheduler.call_later(pause_s, step)
