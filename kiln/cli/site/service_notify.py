"""Notification of systemd: when a service is ready, what it does, and that it still works."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import traceback
from collections.abc import Callable, Iterator, MutableMapping

from kiln.telemetry.frames import current_frames

LOG = logging.getLogger(__name__)

#: The service reports so often in each period of the watchdog.
_TIMES = 3
#: Seconds between two reports of its status where there is no watchdog.
_STATUS_S = 10.0


class Notifier:
    """Sends messages to systemd; sends none where systemd has not asked for them.

    The variables of systemd are taken out of the environment, so no child process has them.
    """

    def __init__(self, environment: MutableMapping[str, str] = os.environ) -> None:
        self._address = environment.pop('NOTIFY_SOCKET', '')
        period_us = environment.pop('WATCHDOG_USEC', '')
        pid = environment.pop('WATCHDOG_PID', '')
        mine = not pid or pid == str(os.getpid())
        #: Seconds after which systemd restarts a silent service; None without a watchdog.
        self.watchdog_s: float | None = None
        if mine and period_us.isdecimal() and int(period_us):
            self.watchdog_s = int(period_us) / 1e6
        self._stacks_logged = False

    def send(self, *lines: str) -> None:
        """Send a message, such as ``READY=1``; a failure is logged."""
        if not self._address:
            return
        # A name in the abstract namespace begins with a null byte.
        address = '\0' + self._address[1:] if self._address[0] == '@' else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
                # A supervisor that reads nothing must not stop the service.
                to.settimeout(1.0)
                to.connect(address)
                to.send('\n'.join(lines).encode())
        except OSError as exc:
            LOG.warning('Cannot notify systemd: %s', exc)

    @contextlib.contextmanager
    def running(self, status: Callable[[], str], wrong: Callable[[], str]) -> Iterator[None]:
        """Report that the service is ready, and its end when the block ends.

        In between the watchdog is fed as long as nothing is ``wrong``: otherwise systemd
        restarts the service.
        """
        if not self._address:
            yield
            return
        ended = threading.Event()
        pause_s = _STATUS_S if self.watchdog_s is None else self.watchdog_s / _TIMES
        self.send('READY=1', *self._report(status, wrong))

        def report() -> None:
            while not ended.wait(pause_s):
                self.send(*self._report(status, wrong))

        thread = threading.Thread(target=report, name='kiln-notify', daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            self.send('STOPPING=1', 'STATUS=Releasing its clusters')

    def _report(self, status: Callable[[], str], wrong: Callable[[], str]) -> list[str]:
        reason = wrong()
        lines = [f'STATUS={reason or status()}']
        if self.watchdog_s is not None:
            if not reason:
                self._stacks_logged = False
                lines.append('WATCHDOG=1')
            else:
                LOG.error('%s systemd restarts it, unless it goes on.', reason)
                if not self._stacks_logged:
                    self._stacks_logged = True
                    LOG.error('Its threads:%s', _stacks())
        return lines


def _stacks() -> str:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return ''.join(
        f'\n{names.get(ident, ident)}:\n{"".join(traceback.format_stack(frame)).rstrip()}'
        for ident, frame in current_frames().items()
    )
