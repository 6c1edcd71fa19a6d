"""Neutron ports as build locks: at most one of two create requests gets the port.

Nova has no idempotency token for a create. But a port is attached to only one
server, Neutron shows the server at once, and a create whose port is gone can no
longer end in a running server.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.nova.api.client import Services
from kiln.compute_drivers.nova.translate import OWNER_TAG, seconds_of
from kiln.exceptions import AmphoraComputeError
from kiln.models import Resource

LOG = logging.getLogger(__name__)

_NAME = 'kiln-'
PORT = 'port'


class PortLocks:
    """Creates, finds and deletes the lock ports of builds."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def take(
        self,
        asked: Asked,
        owner: str,
        network_id: str,
        *,
        address: str | None,
        security_group_ids: Sequence[str],
        again: bool,
    ) -> str:
        """Return the port of a build; with ``again`` the build might already have one."""
        port: dict[str, Any] = {
            'network_id': network_id,
            'name': f'{_NAME}{asked.build_key}',
            # Neutron accepts tags only on an existing port, and finds them no faster.
            'description': OWNER_TAG + owner,
        }
        if address:
            port['fixed_ips'] = [{'ip_address': address}]
        if security_group_ids:
            port['security_groups'] = list(security_group_ids)
        made: str = self._ask(asked, 'POST', '', body={'port': port})['port']['id']
        if not again:
            return made
        # Created before the list is read: of two concurrent callers, at least one
        # then sees both ports.
        ports = self._of_build(asked, owner, asked.build_key)
        ports.sort(key=lambda one: (not one['device_id'], one.get('created_at') or '', one['id']))
        kept = ports[0]['id'] if ports else made
        for other in ports[1:]:
            if not other['device_id']:
                self.drop(asked, other['id'])
        return str(kept)

    def holder(self, asked: Asked, port_id: str) -> str | None:
        """Return the id of the server that has the port, or None."""
        answer = self._ask(asked, 'GET', f'/{port_id}', query={'fields': 'device_id'})
        return answer['port']['device_id'] or None

    def is_gone(self, asked: Asked, port_id: str) -> bool:
        """Return True if the port certainly no longer exists."""
        try:
            self._ask(asked, 'GET', f'/{port_id}', query={'fields': 'id'})
        except AmphoraComputeError as exc:
            return exc.http_status == 404 and not exc.retryable
        return False

    def of_server(self, asked: Asked, owner: str, server_id: str) -> list[str]:
        """Return the ids of the ports that kiln created for a server."""
        query = {'device_id': server_id, 'description': OWNER_TAG + owner, 'fields': 'id'}
        return [port['id'] for port in self._ask(asked, 'GET', '', query=query)['ports']]

    def of_build(self, asked: Asked, owner: str, build_key: str, server_id: str) -> list[str]:
        """Return the ids of the ports of a build that this server or no server has."""
        ports = self._of_build(asked, owner, build_key)
        return [port['id'] for port in ports if port['device_id'] in ('', server_id)]

    def drop_build(self, asked: Asked, owner: str) -> None:
        """Delete the unused ports of a build: a create that still arrives cannot run then."""
        for port in self._of_build(asked, owner, asked.build_key):
            if not port['device_id']:
                self.drop(asked, port['id'])

    def drop(self, asked: Asked, port_id: str) -> None:
        """Delete a port if that is possible now; if not, the orphan sweep finds it."""
        try:
            self.delete(asked, port_id)
        except AmphoraComputeError as exc:
            LOG.warning('Port %s of build %s was not deleted: %s', port_id, asked.build_key, exc)

    def delete(self, asked: Asked, port_id: str) -> None:
        """Delete a port; one already gone is a success."""
        try:
            self._ask(asked, 'DELETE', f'/{port_id}')
        except AmphoraComputeError as exc:
            if not exc.http_status == 404 or exc.retryable:
                raise

    def resources(self, asked: Asked, owner: str) -> Iterator[Resource]:
        """Yield the ports of a site."""
        for port in self._found(asked, {'description': OWNER_TAG + owner}):
            yield Resource(
                kind=PORT,
                id=port['id'],
                name=port['name'],
                owner=owner,
                amphora_id=port['device_id'] or None,
                created_at=seconds_of(port.get('created_at')),
            )

    def _of_build(self, asked: Asked, owner: str, build_key: str | None) -> list[dict[str, Any]]:
        return self._found(
            asked, {'name': f'{_NAME}{build_key}', 'description': OWNER_TAG + owner}
        )

    def _found(self, asked: Asked, query: dict[str, str]) -> list[dict[str, Any]]:
        """Return the ports with facts; Neutron on MySQL ignores capitals in its filters."""
        ports = self._ask(asked, 'GET', '', query=query)['ports']
        return [
            one for one in ports if all(one.get(key, query[key]) == query[key] for key in query)
        ]

    def _ask(self, asked: Asked, method: str, path: str, **more: Any) -> Any:
        return self._services.ask(asked, method, f'/ports{path}', service='network', **more)


class KeyedLock:
    """A lock for each key that a thread holds or waits for."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held: dict[str, tuple[threading.Lock, list[None]]] = {}

    @contextlib.contextmanager
    def hold(self, key: str) -> Iterator[None]:
        """Admit one thread at a time for a key."""
        with self._guard:
            lock, users = self._held.setdefault(key, (threading.Lock(), []))
            users.append(None)
        try:
            with lock:
                yield
        finally:
            with self._guard:
                users.pop()
                if not users:
                    del self._held[key]
