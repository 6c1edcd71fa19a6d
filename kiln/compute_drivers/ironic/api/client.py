"""HTTP client of Ironic: JSON, or one of kiln's errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from keystoneauth1 import session

from kiln.clock import Clock, current_deadline
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.authoring.openstack_answers import unreadable
from kiln.compute_drivers.ironic.api import errors
from kiln.compute_drivers.ironic.api.service import Service
from kiln.exceptions import (
    AmphoraComputeError,
    ConfigurationError,
    ServiceUnavailable,
    UnsupportedOperation,
)
from kiln.openstack.replies import Reply

#: The microversions that kiln's own test suites have passed with. The oldest has claims that
#: can be changed, config drives from JSON, and network data of nodes.
OLDEST, NEWEST = '1.69', '1.115'
#: The microversion from which on nodes have a history.
HISTORY = 78

_VERSION = 'X-OpenStack-Ironic-API-Version'
_LOWEST = 'X-OpenStack-Ironic-API-Minimum-Version'
_HIGHEST = 'X-OpenStack-Ironic-API-Maximum-Version'
#: Seconds between two attempts while another request holds a node.
_LOCKED_S = 0.25
#: Pages after which a list is given up: it repeats itself.
_MOST_PAGES = 10_000


class Ironic:
    """Requests to one Ironic, for any number of threads."""

    def __init__(
        self, conf: Any, keystone: session.Session, *, region: str | None, clock: Clock
    ) -> None:
        self._session = keystone
        self._http = Service(
            conf, keystone, name='baremetal', version='/v1', region=region, clock=clock
        )
        self._lock_wait_s = conf.lock_wait
        self._page_size = conf.page_size
        self._pinned: str | None = conf.microversion
        if self._pinned and not minor(OLDEST) <= minor(self._pinned) <= minor(NEWEST):
            raise ConfigurationError(
                f'Cannot use microversion {self._pinned}: it must be from {OLDEST} to {NEWEST}.'
            )
        self._clock = clock
        # By the address that has it: a new catalogue can name another one.
        self._versions: dict[str, str] = {}

    def close(self) -> None:
        self._session.session.close()

    def ask(
        self,
        asked: Asked,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
    ) -> Any:
        """Send one request; return the JSON of the answer, empty if it has no body.

        It is repeated for a while if another request holds the node.

        :raises AmphoraComputeError: the request got no answer, or an error.
        """
        base = self._http.endpoint(asked)
        headers = {_VERSION: self._version(asked, base)}
        more: dict[str, Any] = {'params': query} if query else {}
        if body is not None:
            more['json'] = body
        end = self._clock.monotonic() + self._lock_wait_s
        while True:
            reply, content = self._send(asked, base + path, method, headers, **more)
            if not errors.is_locked(reply) or self._clock.monotonic() >= end:
                break
            deadline = current_deadline()
            if deadline is not None and deadline.remaining_s() <= _LOCKED_S:
                break
            self._clock.sleep(_LOCKED_S)
        if reply.status >= 300:
            if reply.reason is None or reply.status == 406:
                # Another Ironic, or another version of it, might answer here by now.
                self._versions.pop(base, None)
            raise errors.refused(asked, reply, now=self._clock.time())
        if reply.body is None and content:
            raise unreadable(asked, reply)
        return reply.body or {}

    def pages(
        self, asked: Asked, path: str, key: str, query: Mapping[str, Any]
    ) -> Iterator[dict[str, Any]]:
        """Yield all rows of a list, page by page, each once."""
        marker: dict[str, Any] = {}
        for _ in range(_MOST_PAGES):
            given = {**query, 'limit': self._page_size, **marker}
            answer = self.ask(asked, 'GET', path, query=given)
            rows = answer.get(key) if isinstance(answer, Mapping) else None
            if not isinstance(rows, list):
                raise asked.error(
                    ServiceUnavailable, f'what answers there is not Ironic: it has no {key}.'
                )
            yield from rows
            # Ironic can allow fewer rows than requested, and shows that only by a link.
            if not rows or not answer.get('next'):
                return
            marker = {'marker': rows[-1]['uuid']}

    def version(self, asked: Asked) -> str:
        """Return the microversion of the requests."""
        return self._version(asked, self._http.endpoint(asked))

    def _send(self, *request: Any, **more: Any) -> tuple[Reply, bytes]:
        try:
            return self._http.send(*request, **more)
        except AmphoraComputeError:
            # Another Ironic can be there when there is one again.
            self._versions.clear()
            raise

    # ---- the version of the endpoint ------------------------------------------------

    def _version(self, asked: Asked, base: str) -> str:
        if self._pinned:
            return self._pinned
        # Two threads can negotiate at the same time: with a lock, one would wait.
        version = self._versions.get(base)
        if version is None:
            version = self._versions[base] = self._negotiated(asked, base)
        return version

    def _negotiated(self, asked: Asked, base: str) -> str:
        looking = Asked(
            verb=asked.verb, subject=asked.subject, amphora_id=asked.amphora_id,
            build_key=asked.build_key, resource_id=asked.resource_id, looking=True,
        )  # fmt: skip
        reply, _ = self._send(looking, base, 'GET', {})
        lowest, highest = reply.headers.get(_LOWEST), reply.headers.get(_HIGHEST)
        if reply.status >= 300:
            raise errors.refused(looking, reply, now=self._clock.time())
        if not lowest or not highest:
            raise looking.error(ServiceUnavailable, f'what answers at {base} is not Ironic.')
        if minor(highest) < minor(OLDEST) or minor(lowest) > minor(NEWEST):
            raise looking.error(
                UnsupportedOperation,
                f'Ironic at {base} has microversions {lowest} to {highest}; kiln needs one of '
                f'{OLDEST} to {NEWEST}.',
            )
        return min(highest, NEWEST, key=minor)


def minor(version: str) -> int:
    """Return the number behind the dot of a microversion."""
    try:
        return int(version.partition('.')[2])
    except ValueError:
        return 0
