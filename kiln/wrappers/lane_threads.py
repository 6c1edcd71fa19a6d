"""The threads of the lanes: futurist's pool, which the interpreter's exit does not join."""

from __future__ import annotations

import futurist
from futurist import _thread


class LaneThreads(futurist.ThreadPoolExecutor):
    """A pool of futurist whose threads have names, and are nobody's to wait for at exit.

    futurist joins its threads when the interpreter exits, and has no switch for
    that: a call that hangs would hang the exit too. Where futurist makes a thread it
    also notes it for the join; so this makes its own, unnoted (decision 35).
    """

    def __init__(self, name: str, size: int) -> None:
        super().__init__(max_workers=size)
        self._name = name

    def _add_thread(self) -> None:
        worker = _thread.ThreadWorker(self, self._work_queue)
        worker.name = f'{self._name}-lane-{len(self._workers) + 1}'
        self._workers.append(worker)
        worker.start()
