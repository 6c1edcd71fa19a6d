"""The servers of a stack that exists, by group: what a cluster of nodes can take over."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from kiln.cluster_drivers.heat.adoption import check_free, find_stack
from kiln.clusters.exceptions import ClusterDriverError
from kiln.plugins.extras import importing


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class StackServers:
    """A stack, and the ids of its servers by group."""

    name: str
    id: str
    #: As Heat writes it.
    state: str
    groups: Mapping[str, Sequence[str]]


def servers_of(document: str, reference: str) -> StackServers:
    """Return the servers of a stack and its nested ones; changes nothing.

    A group is a resource of the stack that has servers, such as a resource group; servers of the
    stack itself are grouped by their names without numbers. Also of a stack that has failed.

    :param document: the credentials of its project, as in the secret of a cluster.
    :param reference: the name or the id of the stack.
    :raises ClusterDriverError: the stack does not exist, has no servers, is that of a cluster,
        or Heat is at work on it.
    """
    with importing('Cannot reach Heat', ClusterDriverError):
        from kiln.cluster_drivers.heat.connections import Connections
    client = Connections().client(document)
    row = find_stack(client, reference)
    check_free(row)
    groups: dict[str, list[str]] = {}
    for server in client.servers(row.name, row.id):
        groups.setdefault(server.group, []).append(server.id)
    if not groups:
        raise ClusterDriverError(
            f'Cannot take over stack {row.name}: it has no servers.',
            "'openstack stack resource list -n 5 STACK' shows what it has.",
        )
    return StackServers(name=row.name, id=row.id, state=row.state, groups=groups)
