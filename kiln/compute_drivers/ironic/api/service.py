"""HTTP requests to one service of OpenStack: what it answered, or one of kiln's errors.

keystoneauth has the tokens, the catalogue and the connections; all else is here, so that
no request, and none of its contents, is logged by anybody else.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from keystoneauth1 import exceptions as ksa
from keystoneauth1 import session

from kiln.clock import Clock
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.authoring.openstack_failures import no_entry, time_left, unanswered
from kiln.exceptions import ServiceUnavailable
from kiln.foreign.exchange import exchange
from kiln.foreign.http_adapter import MOST_BYTES
from kiln.foreign.waiting import waiting_for
from kiln.openstack.replies import SERVICES, Reply
from kiln.openstack.session import auth_headers

LOG = logging.getLogger(__name__)


class Service:
    """One service of a site, for any number of threads."""

    def __init__(
        self,
        conf: Any,
        keystone: session.Session,
        *,
        name: str,
        version: str,
        region: str | None,
        clock: Clock,
    ) -> None:
        """Take the type of the service in the catalogue, and the path of its version."""
        self._name, self._path = name, version
        self._session = keystone
        self._where = {'interface': conf.valid_interfaces, 'region_name': region}
        self._override: str | None = getattr(conf, f'{name}_endpoint_override')
        self._timeout_s, self._connect_timeout_s = conf.timeout, conf.connect_timeout
        self._clock = clock

    @property
    def project_id(self) -> str | None:
        """The project of the credentials, if they name one."""
        found: str | None = self._session.get_project_id()
        return found

    def endpoint(self, asked: Asked) -> str:
        """Return the URL of the service after getting a token; an error here means: not sent."""
        url = self.url(asked)
        if url is None:
            raise asked.error(
                ServiceUnavailable,
                f'the catalogue has no {SERVICES[self._name]}. Set '
                f'{self._name}_endpoint_override, or correct region_name or valid_interfaces.',
                retryable=False,
            )
        return url.rstrip('/').removesuffix(self._path) + self._path

    def url(self, asked: Asked) -> str | None:
        """Return the URL in the options or the catalogue, or None, after getting a token."""
        try:
            # All that Keystone answers until there is a token.
            with exchange(self._timeout_s, MOST_BYTES):
                auth_headers(self._session)
                found: str | None = self._override or self._session.get_endpoint(
                    service_type=self._name, **self._where
                )
        except ksa.EndpointNotFound:
            return None
        except ksa.ClientException as exc:
            raise no_entry(asked, exc) from exc
        return found or None

    def send(
        self, asked: Asked, url: str, method: str, headers: Mapping[str, str], **more: Any
    ) -> tuple[Reply, bytes]:
        """Send one request; return the answer, whatever its status, and its body."""
        timeout = time_left(asked, self._name, self._connect_timeout_s, self._timeout_s)
        started = self._clock.monotonic()
        try:
            # keystoneauth's own debug log would hold user data.
            # With all redirects, and a new token if one is needed.
            with exchange(max(timeout)), waiting_for(f'{SERVICES[self._name]} at {url}'):
                response = self._session.request(
                    url, method, raise_exc=False, log=False, timeout=timeout,
                    headers={'Accept': 'application/json', **headers}, **more,
                )  # fmt: skip
        except ksa.ClientException as exc:
            raise unanswered(asked, self._name, exc) from exc
        reply = Reply(
            service=self._name,
            status=response.status_code,
            headers=response.headers,
            body=_json(response),
        )
        took_ms = 1000 * (self._clock.monotonic() - started)
        LOG.debug(
            '%s %s %s: %s in %.0f ms (%s)', SERVICES[self._name].lower(),
            method, response.url, reply.status, took_ms, reply.request_id,
        )  # fmt: skip
        return reply, response.content.strip()


def _json(response: Any) -> Any:
    try:
        return response.json()
    except ValueError:
        return None
