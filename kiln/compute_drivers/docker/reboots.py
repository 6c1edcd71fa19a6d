"""Soft and hard reboots in the background."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from kiln.exceptions import KilnError

LOG = logging.getLogger(__name__)


class Reboots:
    """The reboots that are running in this process.

    An engine answers a restart only when the container runs again, so each reboot has
    its own thread. Until the answer, a container that has ended does not count as failed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: set[str] = set()

    def __contains__(self, container_id: str) -> bool:
        return container_id in self._under_way

    def begin(self, container_id: str, restart: Callable[[], None]) -> None:
        """Start a reboot and return at once; does nothing if one is running."""
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
            # No caller waits for the reboot; the state shows the result.
            LOG.warning('Reboot of %s failed: %s', container_id[:12], exc)
        finally:
            with self._lock:
                self._under_way.discard(container_id)
