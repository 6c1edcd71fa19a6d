"""HTTP client of Neutron: JSON, or one of kiln's errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keystoneauth1 import session

from kiln.clock import Clock
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.authoring.openstack_answers import unreadable
from kiln.compute_drivers.ironic.api import errors
from kiln.compute_drivers.ironic.api.service import Service

#: The credentials of an Ironic that has no catalogue.
_ALONE = frozenset({'http_basic', 'none'})


class Neutron:
    """Requests to one Neutron, for any number of threads."""

    def __init__(
        self, conf: Any, keystone: session.Session, *, region: str | None, clock: Clock
    ) -> None:
        self._http = Service(
            conf, keystone, name='network', version='/v2.0', region=region, clock=clock
        )
        self._clock = clock

    @property
    def project_id(self) -> str | None:
        """The project of the credentials, if they name one."""
        return self._http.project_id

    def exists(self, asked: Asked) -> bool:
        """Return True if the options or the catalogue have a Neutron."""
        return self._http.url(asked) is not None

    def ask(
        self,
        asked: Asked,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        revision: int | None = None,
    ) -> Any:
        """Send one request; return the JSON of the answer, empty if it has no body.

        With a ``revision`` only an object that still has that is changed: the answer for
        another one is 412.

        :raises AmphoraComputeError: the request got no answer, or an error.
        """
        more: dict[str, Any] = {'params': query} if query else {}
        if body is not None:
            more['json'] = body
        headers = {} if revision is None else {'If-Match': f'revision_number={revision}'}
        url = self._http.endpoint(asked) + path
        reply, content = self._http.send(asked, url, method, headers, **more)
        if reply.status >= 300:
            raise errors.refused(asked, reply, now=self._clock.time())
        if reply.body is None and content:
            raise unreadable(asked, reply)
        return reply.body or {}


def is_reachable(conf: Any) -> bool:
    """Return True if the options lead to a Neutron: by a catalogue, or by its URL."""
    return bool(conf.network_endpoint_override) or bool(conf.cloud) or conf.auth_type not in _ALONE
