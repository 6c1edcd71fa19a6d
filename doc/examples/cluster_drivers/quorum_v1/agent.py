"""Requests to the agent that runs on each member.

The token of a member protects its agent: nobody but kiln and the member has it. A real
agent also encrypts what is sent; swarm_debian_v1 shows how, with certificates.
"""

from __future__ import annotations

import http.client
import json
from typing import Any

from kiln.cluster_drivers.readiness import within_deadline
from kiln.cluster_drivers.values import Context, join_token
from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.models import Cluster, Node

from . import members
from .template_def import QuorumTemplateDefinition

#: The limit of one request, so that a dead member does not delay the others.
_LIMIT_S = 2.0


class Agent:
    """The agent of one member; each request can be repeated."""

    def __init__(self, context: Context, cluster: Cluster, node: Node) -> None:
        self.node = node
        self._token = join_token(context, node)
        self._port = QuorumTemplateDefinition().get_params(context, cluster, node)['port']

    def get(self, path: str) -> Any:
        """Return what the agent reports."""
        return self._request('GET', path)

    def put(self, path: str, content: object) -> Any:
        """Tell the agent what is to be; return what it reports about that."""
        return self._request('PUT', path, json.dumps(content))

    def _request(self, method: str, path: str, body: str | None = None) -> Any:
        name = self.node.name
        if not self.node.address:
            raise ClusterDriverError(f'Member {name} has no address so far.', retryable=True)
        line = http.client.HTTPConnection(
            self.node.address, self._port, timeout=within_deadline(_LIMIT_S)
        )
        try:
            line.request(method, path, body, {'Authorization': f'Bearer {self._token}'})
            response = line.getresponse()
            answer = json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as exc:
            raise ClusterDriverError(
                f'Member {name} does not answer: {exc}.',
                'Check that the network lets kiln reach it.',
                retryable=True,
            ) from exc
        finally:
            line.close()
        if response.status != http.client.OK:
            raise ClusterDriverError(
                f'Member {name} refuses {method} {path}: {response.reason}.', retryable=True
            )
        return answer


def answering(context: Context, cluster: Cluster) -> Agent:
    """Return the agent of the oldest member that answers: the oldest can be dead.

    :raises ClusterDriverError: none answers.
    """
    reason = 'none is ready'
    for node in members.ready(context):
        agent = Agent(context, cluster, node)
        try:
            agent.get('/member')
        except ClusterDriverError as exc:
            reason = exc.reason
        else:
            return agent
    raise ClusterDriverError(f'No member answers: {reason}', retryable=True)
