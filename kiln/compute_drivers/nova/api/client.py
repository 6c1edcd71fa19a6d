"""HTTP client for Nova, Neutron, Glance and further services: JSON, or one of kiln's errors.

Requests to Nova go through novaclient, over one keystoneauth session for all
services; novaclient's resource objects are not used, since kiln has its own.
"""

from __future__ import annotations

import email.utils
import logging
import re
import threading
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from keystoneauth1 import adapter, discover, session
from keystoneauth1 import exceptions as ksa
from novaclient import api_versions
from novaclient.client import SessionClient

from kiln.clock import Clock
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.authoring.openstack_answers import unreadable
from kiln.compute_drivers.authoring.openstack_failures import no_entry, time_left, unanswered
from kiln.compute_drivers.nova.api import errors
from kiln.compute_drivers.nova.api.behind import Behind
from kiln.compute_drivers.nova.api.paging import PageSize
from kiln.exceptions import (
    AmphoraComputeError,
    ConfigurationError,
    ServiceTimeout,
    ServiceUnavailable,
    UnsupportedOperation,
)
from kiln.foreign.exchange import exchange
from kiln.foreign.http_adapter import MOST_BYTES
from kiln.foreign.waiting import waiting_for
from kiln.openstack.replies import SERVICES, Reply
from kiln.openstack.session import auth_headers

LOG = logging.getLogger(__name__)

#: The microversions that kiln's own test suites have passed with.
OLDEST, NEWEST = '2.52', '2.96'
#: Seconds between two reads of the catalogue after a service could not be reached.
_REFRESH_S = 30.0
#: Smaller differences between two clocks are ignored.
_SKEW_S = 2.0

_PREFIXES = {'network': '/v2.0', 'image': '/v2'}
_VERSION_SUFFIX = re.compile(r'/v2(\.\d+)?/*$')


class Services:
    """Nova, Neutron, Glance and further services with the credentials of one project."""

    def __init__(
        self,
        conf: Any,
        keystone: session.Session,
        *,
        region: str | None,
        clock: Clock,
        further: Collection[str] = (),
    ) -> None:
        self._session = keystone
        self._where = {'interface': conf.valid_interfaces, 'region_name': region}
        self._overrides: Mapping[str, str | None] = {
            service: getattr(conf, f'{service}_endpoint_override')
            for service in ('compute', *_PREFIXES, *further)
        }
        self._timeout_s, self._connect_timeout_s = conf.timeout, conf.connect_timeout
        self._pinned: str | None = conf.microversion
        pinned = self._pinned
        if pinned and not _minor(OLDEST) <= _minor(pinned) <= _minor(NEWEST):
            raise ConfigurationError(
                f'Cannot use microversion {pinned}: it must be from {OLDEST} to {NEWEST}.'
            )
        self._clock = clock
        self._lock = threading.Lock()
        # The endpoints of one token: a new token can come with another catalogue.
        self._endpoints: tuple[str, dict[str, str]] = ('', {})
        self._versions: dict[str, str] = {}
        self._clients: dict[str, adapter.LegacyJsonAdapter] = {}
        self._refreshed_at = float('-inf')
        self._behind = Behind(keystone, self._root, clock)
        #: Seconds by which Nova's clock is ahead of the clock here.
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
        service: str = 'compute',
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        version: str | None = None,
    ) -> Any:
        """Send one request; return the JSON of the response, empty if it has no body.

        :raises AmphoraComputeError: the request got no response, or an error.
        """
        base = self._endpoint(asked, service)
        client = self._client(asked, service, base, version)
        more: dict[str, Any] = {'params': query} if query else {}
        if body is not None:
            more['body'] = body
        timeout = time_left(asked, service, self._connect_timeout_s, self._timeout_s)
        started = self._clock.monotonic()
        look = self._behind.look if service == 'compute' else None
        try:
            # keystoneauth's own debug log would hold user data and console output.
            # With all redirects, and a new token if one is needed.
            with exchange(max(timeout)), waiting_for(f'{SERVICES[service]} at {base}', look):
                response, found = client.request(
                    base + path, method, raise_exc=False, log=False, timeout=timeout, **more
                )
        except ksa.ClientException as exc:
            self._refresh()
            error = unanswered(asked, service, exc)
            late = look is not None and isinstance(error, ServiceTimeout)
            raise (self._explained(error) if late else error) from exc
        took_ms = 1000 * (self._clock.monotonic() - started)
        reply = Reply(
            service=service, status=response.status_code, headers=response.headers, body=found
        )
        sent = f'{service} {method} {response.url}'
        LOG.debug('%s: %s in %.0f ms (%s)', sent, reply.status, took_ms, reply.request_id)
        if service == 'compute':
            self._compare_clocks(reply)
        if reply.status >= 300:
            error = self._refused(asked, reply)
            raise self._explained(error) if look and reply.status >= 500 else error
        if found is None and response.content:
            raise unreadable(asked, reply)
        return found or {}

    def pages(
        self, asked: Asked, path: str, key: str, query: Mapping[str, Any], size: PageSize
    ) -> Iterator[dict[str, Any]]:
        """Yield all rows of a Nova list, page by page, each once.

        The page after the last full page is requested too: Nova can allow fewer
        rows than requested, and shows that only by a link. A server that gets its
        host meanwhile moves down the list, past the marker; while it moves, Nova
        counts two rows and returns one, so that a page is short without being the
        last: a longer one is requested instead. Rows without a status do not show that:
        a caller that misses a server must request it by id.
        """
        marker: dict[str, Any] = {}
        more = 0
        seen: set[str] = set()
        while True:
            started, limit = self._clock.monotonic(), size.rows + more
            try:
                answer = self.ask(asked, 'GET', path, query={**query, 'limit': limit, **marker})
            # A proxy in front of a slow service reports it as unavailable.
            except (ServiceTimeout, ServiceUnavailable):
                size.lost()
                raise
            rows = answer.get(key) or []
            size.came(len(rows), self._clock.monotonic() - started)
            for row in rows:
                if row['id'] not in seen:
                    seen.add(row['id'])
                    yield row
            still = [row for row in rows if row.get('status') != 'BUILD']
            moving = len(rows) - len(still)
            if rows and (answer.get(f'{key}_links') or len(rows) >= limit):
                # A server that moves can be a marker that Nova does not find, or fails on.
                marker, more = {'marker': (still or rows)[-1]['id']}, 0
            elif moving and len(rows) + moving >= limit:
                # So many that the next one cannot be short for this reason.
                more = 2 * (len(rows) + moving) - size.rows
            else:
                return

    def page_size(self, largest: int) -> PageSize:
        """Return an adaptive page size for a list that is requested repeatedly."""
        return PageSize(largest, self._timeout_s)

    def version(self, asked: Asked) -> str:
        """Return the microversion of the requests to Nova."""
        return self._version(asked, self._endpoint(asked, 'compute'))

    @property
    def project_id(self) -> str | None:
        """The project of the credentials, if they name one."""
        found: str | None = self._session.get_project_id()
        return found

    # ---- endpoints and versions ------------------------------------------

    def _endpoint(self, asked: Asked, service: str) -> str:
        """Return the URL of a service after getting a token; an error here means: not sent."""
        try:
            # All that Keystone answers until there is a token.
            with exchange(self._timeout_s, MOST_BYTES):
                headers = auth_headers(self._session)
            token = headers.get('X-Auth-Token') or headers.get('Authorization', '')
            known, urls = self._endpoints
            if known != token:
                urls = {}
                self._endpoints = (token, urls)
            if service not in urls:
                urls[service] = self._look_up(asked, service)
            return urls[service]
        except ksa.ClientException as exc:
            raise no_entry(asked, exc) from exc

    def _look_up(self, asked: Asked, service: str) -> str:
        try:
            url = self._overrides[service] or self._session.get_endpoint(
                service_type=service, **self._where
            )
        except ksa.EndpointNotFound:
            url = None
        if not url:
            region = self._where['region_name']
            where = f' in region {region!r}' if region else ''
            raise asked.error(
                ServiceUnavailable,
                f'the catalogue has no {SERVICES[service]}{where} for the interfaces '
                f'{", ".join(self._where["interface"])}. Correct region_name or valid_interfaces.',
                retryable=False,
            )
        url = url.rstrip('/')
        if service in _PREFIXES:
            url = _VERSION_SUFFIX.sub('', url) + _PREFIXES[service]
        return str(url)

    def _root(self, service: str) -> str | None:
        """Return the URL of a service without its version; None if it is not known."""
        url = self._overrides[service] or self._session.get_endpoint(
            service_type=service, **self._where
        )
        return _VERSION_SUFFIX.sub('', url.rstrip('/')) + '/' if url else None

    def _client(
        self, asked: Asked, service: str, base: str, version: str | None
    ) -> adapter.LegacyJsonAdapter:
        if service == 'compute':
            version = version or self._version(asked, base)
        name = version or service
        client = self._clients.get(name)
        if client is None:
            if version is None:
                client = adapter.LegacyJsonAdapter(self._session, service_type=service)
            else:
                client = SessionClient(
                    session=self._session,
                    service_type=service,
                    api_version=api_versions.APIVersion(version),
                )
            self._clients[name] = client
        return client

    def _version(self, asked: Asked, base: str) -> str:
        if self._pinned:
            return self._pinned
        # Two threads can negotiate at the same time: with a lock, one would wait.
        version = self._versions.get(base)
        if version is None:
            version = self._versions[base] = self._negotiated(asked, base)
        return version

    def _negotiated(self, asked: Asked, base: str) -> str:
        try:
            with exchange(self._timeout_s), waiting_for(f'Nova at {base}'):
                found = discover.Discover(self._session, base).version_data()
        except ksa.DiscoveryFailure as exc:
            self._refresh()
            raise asked.error(
                ServiceUnavailable, f'what answers at {base} does not list its versions.'
            ) from exc
        except ksa.ClientException as exc:
            self._refresh()
            raise unanswered(asked, 'compute', exc, sent=False) from exc
        # An unversioned URL lists several versions; only one of them has microversions.
        spoken = [version for version in found if version['max_microversion']]
        if not spoken:
            raise asked.error(ServiceUnavailable, f'what answers at {base} is not Nova.')
        lowest, highest = spoken[-1]['min_microversion'], spoken[-1]['max_microversion']
        if highest < (2, _minor(OLDEST)) or lowest > (2, _minor(NEWEST)):
            raise asked.error(
                UnsupportedOperation,
                f'Nova at {base} has microversions {_dotted(lowest)} to {_dotted(highest)}; '
                f'kiln needs one of {OLDEST} to {NEWEST}.',
            )
        return _dotted(min(highest, (2, _minor(NEWEST))))

    def _compare_clocks(self, reply: Reply) -> None:
        """Update the clock difference from the Date of a response; ignore small skew."""
        date = reply.headers.get('date')
        if date is None:
            return
        try:
            theirs = email.utils.parsedate_to_datetime(date).timestamp()
        except ValueError:
            return
        ahead_s = theirs - self._clock.time()
        # A response takes time to arrive, and its date has whole seconds.
        self.ahead_s = ahead_s if abs(ahead_s) > _SKEW_S else 0.0

    # ---- failures --------------------------------------------------------

    def _refused(self, asked: Asked, reply: Reply) -> AmphoraComputeError:
        if reply.reason is None and reply.status in (404, 502, 503):
            self._refresh()
        return errors.refused(asked, reply, now=self._clock.time())

    def _explained(self, error: AmphoraComputeError) -> AmphoraComputeError:
        """Add to an error of Nova which service behind it does not answer."""
        if why := self._behind.look():
            error.args = (f'{error} {why}', *error.args[1:])
        return error

    def _refresh(self) -> None:
        """Make the next request fetch the catalogue again: the service might have moved."""
        now = self._clock.monotonic()
        with self._lock:
            if now - self._refreshed_at < _REFRESH_S:
                return
            self._refreshed_at = now
            self._versions.clear()
        self._session.invalidate()


def _minor(version: str) -> int:
    return int(version.partition('.')[2])


def _dotted(version: tuple[Any, ...]) -> str:
    return '.'.join(map(str, version))
