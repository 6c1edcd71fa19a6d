"""Client of Heat: the requests that its drivers need, as JSON or one of the errors.

keystoneauth has the tokens, the catalogue and the connections. Answers are bounded in
bytes, depth and time by the transport.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from keystoneauth1 import adapter
from keystoneauth1 import exceptions as ksa

from kiln.cluster_drivers.heat.errors import HeatUnavailable, refused, unavailable
from kiln.cluster_drivers.heat.mappings import Definition
from kiln.cluster_drivers.heat.secret_masking import hidden_sent
from kiln.clusters.exceptions import ClusterDriverError
from kiln.exceptions import ConfigurationError
from kiln.foreign.connection_failures import IN_TIME, causes_of, one_line, reason
from kiln.foreign.exchange import exchange
from kiln.openstack.heat.requests import (
    DEPTH,
    PAGE,
    SERVICE,
    StackRequests,
    listed,
    part,
    stack_path,
    time_limit,
)
from kiln.openstack.heat.rows import Preview, Server, StackRow, servers
from kiln.openstack.replies import Reply
from kiln.openstack.session import open_session

LOG = logging.getLogger(__name__)


class HeatClient(StackRequests):
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
        #: The region of the requests; empty if the credentials name none.
        self.region = region or ''
        self.page = page
        #: Seconds after which a request without an answer is given up.
        self.limit_s: float = settings.timeout
        self._adapter = adapter.Adapter(
            session,
            service_type=SERVICE,
            interface=settings.valid_interfaces,
            region_name=region,
            endpoint_override=settings.orchestration_endpoint_override,
        )

    def close(self) -> None:
        self._session.session.close()

    def project_id(self) -> str:
        """Return the id of the project of the credentials; empty if they name none."""
        try:
            with exchange(self.limit_s):
                return self._session.get_project_id() or ''
        except ksa.ClientException as exc:
            raise _unanswered('find the project of the credentials', exc) from exc

    def outputs(self, name: str, id_: str) -> Mapping[str, Any]:
        """Return the outputs of a stack by name; Heat computes them for this request."""
        rows = self.shown(name, id_, 'the outputs', outputs=True).get('outputs')
        return {
            str(one.get('output_key')): one.get('output_value')
            for one in (rows if isinstance(rows, list) else ())
            if isinstance(one, Mapping)
        }

    def resources(self, name: str, id_: str) -> Sequence[Mapping[str, Any]]:
        """Return the resources of a stack and its nested ones, as Heat has them.

        :raises HeatUnavailable: the answer has none, not even an empty list.
        """
        action, path = f'read the resources of stack {name}', f'{stack_path(name, id_)}/resources'
        found = self.ask(action, 'GET', path, query={'nested_depth': DEPTH})
        if not isinstance(found.get('resources'), list):
            # To a caller that asks what would be lost, it must not read as nothing.
            raise unavailable(action, 'the answer has no resources')
        return listed(found, 'resources')

    def servers(self, name: str, id_: str) -> Sequence[Server]:
        """Return the servers of a stack and its nested ones."""
        return servers(self.resources(name, id_))

    def template(self, name: str, id_: str) -> Mapping[str, Any]:
        """Return the template of a stack."""
        return self._part_of(name, id_, 'template')

    def files(self, name: str, id_: str) -> Mapping[str, str]:
        """Return the files of a stack by their names, nested templates among them."""
        return {key: str(text) for key, text in self._part_of(name, id_, 'files').items()}

    def environment(self, name: str, id_: str) -> Mapping[str, Any]:
        """Return the environment of a stack."""
        return self._part_of(name, id_, 'environment')

    def _part_of(self, name: str, id_: str, what: str) -> Mapping[str, Any]:
        path = f'{stack_path(name, id_)}/{what}'
        return self.ask(f'read the {what} of stack {name}', 'GET', path)

    # ---- changes; Heat accepts them, and works later ----------------------------------

    def rewrite(
        self,
        row: StackRow,
        template: Mapping[str, Any],
        files: Mapping[str, str],
        timeout_s: float,
    ) -> None:
        """Give a stack another template; its parameters and other files stay as they are."""
        self.ask(
            f'update stack {row.name}', 'PATCH', stack_path(row.name, row.id),
            body={**_rewriting(row, template, files), **time_limit(timeout_s)},
        )  # fmt: skip

    def preview_rewriting(
        self, row: StackRow, template: Mapping[str, Any], files: Mapping[str, str]
    ) -> Preview:
        """Return what another template would do; nothing is done."""
        found = self.ask(
            f'preview stack {row.name}', 'PATCH', f'{stack_path(row.name, row.id)}/preview',
            query={'show_nested': 'true'}, body=_rewriting(row, template, files),
        )  # fmt: skip
        return Preview.read(part(found, 'resource_changes'))

    def create(
        self, name: str, definition: Definition, tags: Sequence[str], timeout_s: float
    ) -> StackRow:
        """Create a stack; return it.

        :raises StackExists: a stack has the name.
        """
        id_ = self.post(name, _body(definition, tags), timeout_s)
        return StackRow(id=id_, name=name, action='CREATE', status='IN_PROGRESS', tags=tuple(tags))

    def update(
        self,
        name: str,
        id_: str,
        definition: Definition,
        tags: Sequence[str],
        timeout_s: float,
    ) -> None:
        """Bring a stack to a definition, and to no part of its former one."""
        # A PATCH would keep parameters and files of the former definition.
        body = {**_body(definition, tags), **time_limit(timeout_s)}
        self.ask(f'update stack {name}', 'PUT', stack_path(name, id_), body=body)

    def preview(self, name: str, id_: str, definition: Definition, tags: Sequence[str]) -> Preview:
        """Return what an update would do; nothing is done."""
        found = self.ask(
            f'preview stack {name}', 'PUT', f'{stack_path(name, id_)}/preview',
            query={'show_nested': 'true'}, body=_body(definition, tags),
        )  # fmt: skip
        return Preview.read(part(found, 'resource_changes'))

    # ---- requests --------------------------------------------------------------------

    def ask(
        self,
        action: str,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Mapping[str, Any]:
        try:
            # keystoneauth's own debug log would hold secrets of the parameters.
            # With all redirects, and a new token if the last one has ended.
            with exchange(self.limit_s):
                response = self._adapter.request(
                    path,
                    method,
                    raise_exc=False,
                    log=False,
                    headers=_ACCEPT,
                    params=query,
                    json=body,
                )
        except ksa.ClientException as exc:
            raise _unanswered(action, exc) from exc
        answer = _json(response)
        reply = Reply(
            service=SERVICE,
            status=response.status_code,
            headers=response.headers,
            body=answer,
            hide=hidden_sent,
        )
        LOG.debug('heat %s %s: %s (%s)', method, path, reply.status, reply.request_id)
        if reply.status >= 300:
            raise refused(action, reply)
        if response.content.strip() and not isinstance(answer, Mapping) and reply.status != 202:
            raise unavailable(action, 'what answers there is not Heat')
        return answer if isinstance(answer, Mapping) else {}


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


def _rewriting(
    row: StackRow, template: Mapping[str, Any], files: Mapping[str, str]
) -> dict[str, Any]:
    # Heat drops the tags of an update without any.
    tags = {'tags': ','.join(row.tags)} if row.tags else {}
    return {'template': template, 'files': files, 'disable_rollback': True, **tags}


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
