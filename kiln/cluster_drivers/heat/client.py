"""Client of Heat: the requests that its drivers need, as JSON or one of the errors.

keystoneauth has the tokens, the catalogue and the connections. Answers are bounded in
bytes, depth and time by the transport.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from keystoneauth1 import adapter
from keystoneauth1 import exceptions as ksa

from kiln.cluster_drivers.heat.errors import HeatUnavailable, refused, unavailable
from kiln.cluster_drivers.heat.mappings import Definition
from kiln.cluster_drivers.heat.rows import Failure, Preview, StackRow, failures
from kiln.clusters.exceptions import ClusterDriverError
from kiln.exceptions import ConfigurationError
from kiln.foreign.connection_failures import IN_TIME, causes_of, one_line, reason
from kiln.foreign.exchange import exchange
from kiln.openstack.replies import Reply
from kiln.openstack.session import open_session

LOG = logging.getLogger(__name__)

_SERVICE = 'orchestration'
#: Stacks that a list has at a time.
PAGE = 500
#: Pages after which a list is given up: Heat repeats itself.
_MOST_PAGES = 100
#: How deep nested stacks are searched; Heat allows 5.
_DEPTH = 5


class HeatClient:
    """Requests to Heat with the credentials of one project; for any number of threads."""

    def __init__(self, settings: Any, *, page: int = PAGE) -> None:
        """Take options as :mod:`~kiln.cluster_drivers.heat.settings` reads them; no request.

        :raises ClusterDriverError: the credentials are incomplete, or cannot be used.
        """
        try:
            session, region = open_session(settings)
        except ConfigurationError as exc:
            raise ClusterDriverError(f'The credentials for Heat cannot be used: {exc}') from exc
        self._session = session
        self._page = page
        self._limit_s = settings.timeout
        self._adapter = adapter.Adapter(
            session,
            service_type=_SERVICE,
            interface=settings.valid_interfaces,
            region_name=region,
            endpoint_override=settings.orchestration_endpoint_override,
        )

    def close(self) -> None:
        self._session.session.close()

    # ---- reads ---------------------------------------------------------------------

    def stacks(self, **filters: str) -> Iterator[StackRow]:
        """Yield the stacks that have a tag or a name, page by page."""
        marker: dict[str, Any] = {}
        for _ in range(_MOST_PAGES):
            query = {**filters, 'limit': self._page, **marker}
            rows = _rows(self._ask('list stacks', 'GET', '/stacks', params=query), 'stacks')
            yield from map(StackRow.read, rows)
            if len(rows) < self._page:
                return
            marker = {'marker': rows[-1].get('id')}

    def named(self, name: str) -> StackRow | None:
        """Return the stack of a name that is not deleted; None without one."""
        return next((row for row in self.stacks(name=name) if row.name == name), None)

    def outputs(self, name: str, id_: str) -> Mapping[str, Any]:
        """Return the outputs of a stack by name; Heat computes them for this request."""
        found = self._ask(f'read the outputs of stack {name}', 'GET', _path(name, id_))
        rows = _part(found, 'stack').get('outputs')
        return {
            str(one.get('output_key')): one.get('output_value')
            for one in (rows if isinstance(rows, list) else ())
            if isinstance(one, Mapping)
        }

    def failures(self, name: str, id_: str) -> Sequence[Failure]:
        """Return the resources of a stack and its nested ones that failed."""
        found = self._ask(
            f'read the resources of stack {name}', 'GET', f'{_path(name, id_)}/resources',
            params={'nested_depth': _DEPTH, 'status': 'FAILED'},
        )  # fmt: skip
        return failures(_rows(found, 'resources'))

    def newest_event(self, name: str, id_: str) -> str:
        """Return the id of the newest event of a stack and its nested ones; empty without one."""
        found = self._ask(
            f'read the events of stack {name}', 'GET', f'{_path(name, id_)}/events',
            params={'nested_depth': _DEPTH, 'limit': 1, 'sort_dir': 'desc'},
        )  # fmt: skip
        return next((str(one.get('id', '')) for one in _rows(found, 'events')), '')

    # ---- changes; Heat accepts them, and works later ----------------------------------

    def create(
        self, name: str, definition: Definition, tags: Sequence[str], timeout_s: float
    ) -> StackRow:
        """Create a stack; return it.

        :raises StackExists: a stack has the name.
        """
        body = {**_body(definition, tags), 'stack_name': name, 'timeout_mins': _minutes(timeout_s)}
        found = self._ask(f'create stack {name}', 'POST', '/stacks', json=body)
        id_ = str(_part(found, 'stack').get('id', ''))
        return StackRow(id=id_, name=name, action='CREATE', status='IN_PROGRESS', tags=tuple(tags))

    def update(self, name: str, id_: str, definition: Definition, tags: Sequence[str]) -> None:
        """Bring a stack to a definition, and to no part of its former one."""
        # A PATCH would keep parameters and files of the former definition.
        self._ask(f'update stack {name}', 'PUT', _path(name, id_), json=_body(definition, tags))

    def preview(self, name: str, id_: str, definition: Definition, tags: Sequence[str]) -> Preview:
        """Return what an update would do; nothing is done."""
        found = self._ask(
            f'preview stack {name}', 'PUT', f'{_path(name, id_)}/preview',
            params={'show_nested': 'true'}, json=_body(definition, tags),
        )  # fmt: skip
        return Preview.read(_part(found, 'resource_changes'))

    def delete(self, name: str, id_: str) -> None:
        """Delete a stack, whatever it does now; can be repeated.

        :raises StackNotFound: Heat does not have it.
        """
        self._ask(f'delete stack {name}', 'DELETE', _path(name, id_))

    # ---- requests --------------------------------------------------------------------

    def _ask(self, action: str, method: str, path: str, **more: Any) -> Mapping[str, Any]:
        try:
            # keystoneauth's own debug log would hold secrets of the parameters.
            # With all redirects, and a new token if the last one has ended.
            with exchange(self._limit_s):
                response = self._adapter.request(
                    path, method, raise_exc=False, log=False, headers=_ACCEPT, **more
                )
        except ksa.ClientException as exc:
            raise _unanswered(action, exc) from exc
        body = _json(response)
        reply = Reply(
            service=_SERVICE, status=response.status_code, headers=response.headers, body=body
        )
        LOG.debug('heat %s %s: %s (%s)', method, path, reply.status, reply.request_id)
        if reply.status >= 300:
            raise refused(action, reply)
        if response.content.strip() and not isinstance(body, Mapping) and reply.status != 202:
            raise unavailable(action, 'what answers there is not Heat')
        return body if isinstance(body, Mapping) else {}


_ACCEPT = {'Accept': 'application/json'}


def _unanswered(action: str, exc: ksa.ClientException) -> ClusterDriverError:
    if isinstance(exc, ksa.HttpError):
        body = None if exc.response is None else _json(exc.response)
        reply = Reply(service='identity', status=exc.http_status, headers={}, body=body)
        return refused(action, reply)
    if isinstance(exc, ksa.EndpointNotFound):
        return HeatUnavailable(f'Cannot {action}: the catalogue has no Heat.', retryable=False)
    if not isinstance(exc, ksa.ConnectionError | ksa.DiscoveryFailure):
        return unavailable(action, f'Keystone gave no token ({one_line(exc)})')
    causes = tuple(causes_of(exc))
    slow = any(isinstance(cause, IN_TIME) for cause in causes)
    return unavailable(action, reason(causes, slow=slow) or one_line(exc))


def _json(response: Any) -> Any:
    try:
        return response.json()
    except ValueError:
        return None


def _body(definition: Definition, tags: Sequence[str]) -> dict[str, Any]:
    return {
        'template': definition.template,
        'files': definition.files,
        'parameters': definition.params,
        # Heat drops the tags of an update without any.
        'tags': ','.join(tags),
        # kiln brings a cluster back itself, and shows that before.
        'disable_rollback': True,
    }


def _minutes(seconds: float) -> int:
    return max(1, -int(-seconds // 60))


def _path(name: str, id_: str) -> str:
    return f'/stacks/{name}/{id_}'


def _part(found: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    part = found.get(key)
    return part if isinstance(part, Mapping) else {}


def _rows(found: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    rows = found.get(key)
    return [one for one in (rows if isinstance(rows, list) else ()) if isinstance(one, Mapping)]
