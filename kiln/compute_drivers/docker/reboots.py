"""Soft and hard reboots, without anybody waiting for a container to end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from kiln.exceptions import KilnError

LOG = logging.getLogger(__name__)


class Reboots:
    """The reboots that this process has under way.

    An engine answers a request to restart when the container runs again, after it
    has waited for it to end. So each is asked for by a thread of its own; until the
    answer, a container that has ended is not taken for one that failed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: set[str] = set()

    def __contains__(self, container_id: str) -> bool:
        return container_id in self._under_way

    def begin(self, container_id: str, restart: Callable[[], None]) -> None:
        """Have a container restarted; return at once. One under way is enough."""
        with self._lock:
            if container_id in self._under_way:
                return
            self._under_way.add(container_id)
        threading.Thread(
            target=self._run,
            args=(container_id, restart),
            name=f'reboot-{container_id[:12]}',
            daemon=True,
        ).start()

    def _run(self, container_id: str, restart: Callable[[], None]) -> None:
        try:
            restart()
        except KilnError as exc:
            # Nobody waits for it; its state says how it went.
            LOG.warning('Reboot of %s failed: %s', container_id[:12], exc)
        finally:
            with self._lock:
                self._under_way.discard(container_id)
