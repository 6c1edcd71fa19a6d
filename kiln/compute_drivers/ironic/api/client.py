"""HTTP client for Ironic, Neutron and Glance: JSON, or one of kiln's errors.

keystoneauth has the tokens, the catalogue and the connections.
"""

from __future__ import annotations

import dataclasses
import email.utils
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from keystoneauth1 import exceptions as ksa
from keystoneauth1.session import Session

from kiln.clock import Clock, current_deadline
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.authoring.openstack_failures import no_entry, unanswered
from kiln.compute_drivers.ironic.api import errors
from kiln.exceptions import (
    ConfigurationError,
    Outcome,
    ResourceNotFoundError,
    ServiceTimeout,
    ServiceUnavailable,
    UnsupportedOperation,
)
from kiln.foreign.exchange import exchange
from kiln.openstack.replies import SERVICES, Reply

LOG = logging.getLogger(__name__)

#: The API versions between which kiln chooses. 1.58 is the first that all its requests work with.
OLDEST, NEWEST = 58, 115
#: The first version with a history of each node.
HISTORY = 78
#: Smaller differences between two clocks are ignored.
_SKEW_S = 2.0
_VERSION = 'X-OpenStack-Ironic-API-Version'
_HIGHEST = 'X-OpenStack-Ironic-API-Maximum-Version'
_LOWEST = 'X-OpenStack-Ironic-API-Minimum-Version'
_PATHS = {'baremetal': '/v1', 'network': '/v2.0', 'image': '/v2'}


class Services:
    """Ironic, and the services beside it, with the credentials of one user."""

    def __init__(self, conf: Any, keystone: Session, *, region: str | None, clock: Clock) -> None:
        self._session = keystone
        self._where = {'interface': conf.valid_interfaces, 'region_name': region}
        self._overrides: Mapping[str, str | None] = {
            service: getattr(conf, f'{service}_endpoint_override') for service in _PATHS
        }
        self._timeout_s, self._connect_timeout_s = conf.timeout, conf.connect_timeout
        self._page_size = conf.page_size
        self._clock = clock
        self._minor: int | None = _pinned(conf.microversion)
        #: Seconds by which Ironic's clock is ahead of the clock here.
        self.ahead_s = 0.0

    def close(self) -> None:
        self._session.session.close()

    # ---- requests --------------------------------------------------------

    def ask(
        self,
        asked: Asked,
        method: str,
        path: str,
        *,
        service: str = 'baremetal',
        query: Mapping[str, Any] | None = None,
        body: Any = None,
    ) -> Any:
        """Send one request; return the JSON of the response, empty if it has no body.

        :raises AmphoraComputeError: the request got no response, or an error.
        """
        headers = {'Accept': 'application/json'}
        if service == 'baremetal':
            headers[_VERSION] = f'1.{self.minor(asked)}'
        url = self._endpoint(asked, service) + path
        more: dict[str, Any] = {'params': query} if query else {}
        if body is not None:
            more['json'] = body
        reply = self._send(asked, method, url, service, headers=headers, **more)
        if reply.status >= 300:
            raise errors.refused(asked, reply, now=self._clock.time())
        if reply.body is None and reply.status == 200 and method == 'GET':
            raise errors.unreadable(asked, reply)
        return reply.body or {}

    def rows(
        self, asked: Asked, what: str, fields: Sequence[str], **filters: str
    ) -> Iterator[dict[str, Any]]:
        """Yield all nodes, or all allocations, page by page, each once."""
        query: dict[str, Any] = {'limit': self._page_size, 'fields': ','.join(fields), **filters}
        looking = dataclasses.replace(asked, looking=True)
        seen: set[str] = set()
        while True:
            try:
                answer = self.ask(looking, 'GET', f'/{what}', query=query)
            except ResourceNotFoundError:
                # The last row of the page before is gone, so that Ironic cannot go on from it.
                if query.pop('marker', None) is None:
                    raise
                continue
            found = answer.get(what)
            rows = [row for row in found if isinstance(row, dict)] if found else []
            new = [row for row in rows if str(row.get('uuid')) not in seen]
            seen.update(str(row.get('uuid')) for row in new)
            yield from new
            # Ironic can allow fewer rows than requested, and shows that only by a link. A page
            # can have nothing new where the list was begun again.
            if not rows or not answer.get('next'):
                return
            if rows[-1].get('uuid') == query.get('marker'):
                raise asked.error(ServiceUnavailable, f'Ironic repeats a page of its {what}.')
            query['marker'] = rows[-1].get('uuid')

    def minor(self, asked: Asked) -> int:
        """Return the minor number of the API version in use.

        :raises UnsupportedOperation: Ironic and kiln have none in common.
        """
        if self._minor is None:
            self._minor = self._negotiated(asked)
        return self._minor

    def offers(self, asked: Asked, service: str) -> bool:
        """Return True if a service has an address, by option or in the catalogue."""
        return self._found(asked, service) is not None

    # ---- endpoints and versions ------------------------------------------

    def _endpoint(self, asked: Asked, service: str) -> str:
        """Return the URL of a service after getting a token; an error here means: not sent."""
        url = self._found(asked, service)
        if url is None:
            raise asked.error(
                ServiceUnavailable,
                f'the catalogue has no {SERVICES[service]} for the interfaces '
                f'{", ".join(self._where["interface"])}; set {service}_endpoint_override.',
                retryable=False,
            )
        base = url.rstrip('/')
        return base if base.endswith(_PATHS[service]) else base + _PATHS[service]

    def _found(self, asked: Asked, service: str) -> str | None:
        try:
            with exchange(self._timeout_s):
                # Without a token nothing is sent to the service.
                self._session.get_auth_headers()
                if override := self._overrides[service]:
                    return override
                found: str | None = self._session.get_endpoint(service_type=service, **self._where)
        except ksa.EndpointNotFound:
            return None
        except ksa.ClientException as exc:
            raise no_entry(asked, exc) from exc
        return found

    def _negotiated(self, asked: Asked) -> int:
        base = self._endpoint(asked, 'baremetal')
        reply = self._send(asked, 'GET', base, 'baremetal', headers={'Accept': 'application/json'})
        if reply.status >= 300 and _HIGHEST not in reply.headers:
            raise errors.refused(asked, reply, now=self._clock.time())
        highest, lowest = (_minor(reply.headers.get(name)) for name in (_HIGHEST, _LOWEST))
        if highest is None or lowest is None:
            raise asked.error(ServiceUnavailable, f'what answers at {base} is not Ironic.')
        if highest < OLDEST or lowest > NEWEST:
            raise asked.error(
                UnsupportedOperation,
                f'Ironic at {base} has API versions 1.{lowest} to 1.{highest}; kiln needs one '
                f'of 1.{OLDEST} to 1.{NEWEST}.',
            )
        return min(highest, NEWEST)

    # ---- one exchange ----------------------------------------------------

    def _send(self, asked: Asked, method: str, url: str, service: str, **more: Any) -> Reply:
        timeout = self._timeout(asked, service)
        try:
            # keystoneauth's own debug log would hold config drives.
            # With all redirects, and a new token if one is needed.
            with exchange(max(timeout)):
                response = self._session.request(
                    url, method, raise_exc=False, log=False, timeout=timeout, **more
                )
        except ksa.ClientException as exc:
            raise unanswered(asked, service, exc) from exc
        reply = Reply(
            service=service,
            status=response.status_code,
            headers=response.headers,
            body=_json(response),
        )
        LOG.debug('%s %s %s: %s (%s)', service, method, url, reply.status, reply.request_id)
        if service == 'baremetal':
            self._compare_clocks(reply)
        return reply

    def _compare_clocks(self, reply: Reply) -> None:
        try:
            theirs = email.utils.parsedate_to_datetime(reply.headers['date']).timestamp()
        except (KeyError, ValueError, OverflowError):
            return
        ahead_s = theirs - self._clock.time()
        # A response takes time to arrive, and its date has whole seconds.
        self.ahead_s = ahead_s if abs(ahead_s) > _SKEW_S else 0.0

    def _timeout(self, asked: Asked, service: str) -> tuple[float, float]:
        deadline = current_deadline()
        left_s = self._timeout_s if deadline is None else deadline.remaining_s()
        if left_s <= 0:
            raise asked.error(
                ServiceTimeout,
                f'no time was left for a request to {SERVICES[service]}.',
                outcome=Outcome.NOT_APPLIED,
            )
        return min(self._connect_timeout_s, left_s), min(self._timeout_s, left_s)


def _json(response: Any) -> Any:
    try:
        return response.json()
    except ValueError:
        return None


def _minor(version: str | None) -> int | None:
    major, _, minor = (version or '').partition('.')
    return int(minor) if major == '1' and minor.isdecimal() and len(minor) < 5 else None


def _pinned(version: str | None) -> int | None:
    minor = _minor(version)
    if minor is not None and not OLDEST <= minor <= NEWEST:
        raise ConfigurationError(
            f'Cannot use microversion {version}: it must be from 1.{OLDEST} to 1.{NEWEST}.'
        )
    return minor
