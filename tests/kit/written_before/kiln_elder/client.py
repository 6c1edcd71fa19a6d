"""A STAND-IN for Elder: a cloud in memory, so that the tests pass as generated.

Replace it by your backend's client library, or by a thin session around its
API; nothing else imports that library. What the driver needs of it:

* safe to call from many threads at once;
* a timeout on every call, so that no thread of kiln is lost;
* errors that tell apart "it said no", "it was never reached", "it was reached,
  but the answer was lost";
* no retries of its own: kiln retries what is safe to retry.
"""

from __future__ import annotations

import copy
import itertools
import threading
from collections.abc import Mapping
from typing import Any


class ClientError(Exception):
    """Root of what this client raises."""


class RefusedError(ClientError):
    """The backend answered no."""

    def __init__(self, status: int, reason: str, retry_after: float | None = None) -> None:
        super().__init__(f'{status} {reason}')
        self.status = status
        self.reason = reason
        self.retry_after = retry_after


class UnreachableError(ClientError):
    """The backend was never reached: nothing can have happened there."""


class AnswerLostError(ClientError):
    """The request left, no answer came: anything may have happened there."""


class Client:
    """Speaks to one Elder."""

    def __init__(self, *, endpoint: str, token: str | None, timeout: float) -> None:
        self.endpoint = endpoint
        self._token = token
        self._timeout = timeout
        self._machines: dict[str, dict[str, Any]] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def create(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Make a machine, or return the one made for the same token."""
        with self._lock:
            for machine in self._machines.values():
                if machine['token'] == order['token']:
                    return copy.deepcopy(machine)
            number = next(self._numbers)
            # Nothing runs here, so ports, firewalls, keys, user data and files are dropped.
            # A backend takes each of them, or the driver names it in refused_options.
            machine = {
                'ref': f'machine-{number}',
                'label': order['label'],
                'token': order['token'],
                'phase': 'running',
                'size': order['size'],
                'image': order['image'],
                'zone': order['zone'],
                'tags': dict(order['tags']),
                'links': [
                    {'net': net, 'ip': f'192.0.2.{number % 254 + 1}'} for net in order['nets']
                ],
            }
            self._machines[f'machine-{number}'] = machine
            return copy.deepcopy(machine)

    def show(self, ref: str) -> dict[str, Any]:
        """Return a machine."""
        with self._lock:
            return copy.deepcopy(self._machine(ref))

    def search(self, tags: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return the machines that carry all of these tags."""
        with self._lock:
            return [
                copy.deepcopy(machine)
                for machine in self._machines.values()
                if tags.items() <= machine['tags'].items()
            ]

    def destroy(self, ref: str) -> None:
        """Remove a machine."""
        with self._lock:
            self._machine(ref)
            del self._machines[ref]

    def close(self) -> None:
        """Give back the connections."""

    def _machine(self, ref: str) -> dict[str, Any]:
        if ref not in self._machines:
            raise RefusedError(404, f'no machine {ref}')
        return self._machines[ref]
