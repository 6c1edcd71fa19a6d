"""Services that Nova calls itself: a look at them can tell why Nova does not do its work."""

from __future__ import annotations

import threading
from collections.abc import Callable

from keystoneauth1 import exceptions as ksa
from keystoneauth1 import session

from kiln.clock import Clock, current_deadline
from kiln.foreign.connection_failures import IN_TIME, causes_of, one_line, reason
from kiln.foreign.exchange import exchange, left_s
from kiln.openstack.replies import SERVICES

#: Without them Nova builds nothing.
_NEEDED = ('network', 'image')
#: Seconds that a look at one of them takes at most: told with a silence, which is after 3 s.
_LOOK_S = 0.9
#: Seconds for which a look holds, for all calls of a backend.
_FRESH_S = 5.0


class Behind:
    """The services behind Nova; for any number of threads."""

    def __init__(
        self, keystone: session.Session, root_of: Callable[[str], str | None], clock: Clock
    ) -> None:
        """Take a function that returns the URL of a service without its version."""
        self._session = keystone
        self._root_of = root_of
        self._clock = clock
        self._lock = threading.Lock()
        self._looked_at = float('-inf')
        self._found = ''

    def look(self) -> str:
        """Return a sentence for each service that does not answer; empty if all do."""
        with self._lock:
            if self._clock.monotonic() - self._looked_at >= _FRESH_S:
                if not _has_time():
                    return ''
                self._found = ' '.join(filter(None, map(self._look_at, _NEEDED)))
                self._looked_at = self._clock.monotonic()
            return self._found

    def _look_at(self, service: str) -> str:
        # Not known without a token.
        root = None
        try:
            with exchange(_LOOK_S):
                root = self._root_of(service)
                if root is None:
                    return ''
                answer = self._session.get(
                    root, authenticated=False, raise_exc=False, log=False, timeout=_LOOK_S
                )
        except ksa.ConnectionError as exc:
            return '' if root is None else _unreached(f'{SERVICES[service]} at {root}', exc)
        # What answers nonsense answers; and without a token Keystone is what is told.
        except ksa.ClientException:
            return ''
        if answer.status_code < 500:
            return ''
        return f'{SERVICES[service]} at {root} answers {answer.status_code}.'


def _has_time() -> bool:
    """Return False if the call ends so soon that a service would be silent for lack of time."""
    needed_s = len(_NEEDED) * _LOOK_S
    deadline = current_deadline()
    if deadline is not None and deadline.remaining_s() < needed_s:
        return False
    try:
        left = left_s()
    except TimeoutError:
        return False
    return left is None or left >= needed_s


def _unreached(named: str, exc: ksa.ConnectionError) -> str:
    causes = tuple(causes_of(exc))
    said = reason(causes, slow=False)
    if said is None and any(isinstance(cause, IN_TIME) for cause in causes):
        return f'{named} does not answer either.'
    return f'{named} cannot be reached: {said or one_line(exc)}.'
