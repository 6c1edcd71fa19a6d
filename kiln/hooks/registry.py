"""Hook registry of a site, and the threads that call its hooks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kiln.clock import SYSTEM_CLOCK, Clock
from kiln.clusters.models import Cluster, OperationKind
from kiln.fairness.threads import FairThreads
from kiln.hooks.callers.watchdog import Watchdog
from kiln.hooks.hook import Executable, Hook, Plugin, Target, Webhook
from kiln.hooks.invocation import Call
from kiln.hooks.replies import Answer

LOG = logging.getLogger(__name__)


class Hooks:
    """All hooks of a site, and a few threads that call them.

    The threads are started with the first call.
    """

    def __init__(
        self,
        hooks: Iterable[Hook] = (),
        *,
        max_calls: int = 16,
        max_disk_mib: int = 256,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._hooks = tuple(hooks)
        self._max_disk_mib = max_disk_mib
        self._clock = clock
        self._watchdog = Watchdog()
        # A quarter of the threads is left to other clusters.
        each = max(1, max_calls * 3 // 4)
        self._threads = FairThreads(max_calls, each=each, name='kiln-hooks')

    def __iter__(self) -> Iterator[Hook]:
        return iter(self._hooks)

    def of(self, cluster: Cluster, kind: OperationKind) -> Sequence[Hook]:
        """Return the hooks called for an operation on a cluster, at any point."""
        return [
            hook
            for hook in self._hooks
            if hook.is_for(cluster=cluster.name, driver=cluster.pin.name, kind=kind)
        ]

    def begin(
        self,
        cluster_id: str,
        call: Call,
        occasion: Mapping[str, Any],
        tell: Callable[[Answer], None],
    ) -> None:
        """Make a call in another thread, which passes the answer to ``tell``; return at once."""
        self._threads.run(cluster_id, lambda: tell(self.call(call, occasion)))

    def call(self, call: Call, occasion: Mapping[str, Any]) -> Answer:
        """Make a call and return its answer, within the timeout of the hook."""
        hook = call.hook
        try:
            answer = self._answer(hook.target, call.document(occasion), hook.timeout_s)
        # The caller must get an answer even after a defect.
        except Exception as exc:
            LOG.exception('Hook %s (%s) could not be called', hook, call.invocation)
            answer = Answer.failed(f'it could not be called: {exc}')
        reply = answer.reply
        LOG.info('Hook %s (%s) answered %s: %s', hook, call.invocation, reply, answer.message)
        return answer

    def _answer(self, target: Target, document: Mapping[str, Any], timeout_s: float) -> Answer:
        # Imported when needed: a site might use one kind of target only.
        match target:
            case Executable():
                from kiln.hooks.callers.executables import call_executable

                return call_executable(
                    target, document, timeout_s, max_disk_mib=self._max_disk_mib
                )
            case Webhook():
                from kiln.hooks.callers.webhooks import call_webhook

                return call_webhook(self._watchdog, target, document, timeout_s, clock=self._clock)
            case Plugin():
                from kiln.hooks.callers.plugins import call_plugin

                return call_plugin(self._watchdog, target, document, timeout_s)

    def close(self) -> None:
        """Stop making calls; running calls end by themselves. Safe to repeat."""
        self._threads.close()
