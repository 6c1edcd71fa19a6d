"""Verbs of this driver: ``kiln x swarm_debian_v1 VERB CLUSTER``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kiln.clock import SYSTEM_CLOCK
from kiln.cluster_drivers.parameters import Parameter, ParameterType
from kiln.cluster_drivers.values import Context
from kiln.cluster_drivers.verbs import Verb
from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.models import Cluster

from . import rules
from .docker_context import write_context
from .line import PORT
from .values import Role
from .view import authority_of, view_of

#: An engine cannot revoke a certificate, so none lives long.
_LONGEST_DAYS = 90


def nodes(context: Context, cluster: Cluster, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the nodes of the swarm, and a warning if its quorum is at risk."""
    with view_of(context, cluster).manager() as manager:
        peers = manager.peers()
    shown: dict[str, Any] = {
        peer.hostname: f'{peer.role}, {"ready" if peer.ready else "down"}, {peer.availability}'
        + (', leader' if peer.leader else '')
        for peer in sorted(peers, key=lambda one: (one.role, one.hostname))
    }
    warning = rules.lost_quorum(peers)
    return {**shown, 'warning': warning} if warning else shown


def services(
    context: Context, cluster: Cluster, arguments: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return each service with the number of its running tasks."""
    with view_of(context, cluster).manager() as manager:
        found, tasks = manager.services(), manager.tasks()
    return {
        one['Spec']['Name']: sum(task.service_id == one['ID'] and task.running for task in tasks)
        for one in found
    }


def tokens(context: Context, cluster: Cluster, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Rotate the join tokens, which invalidates all old ones; kiln uses each token once."""
    with view_of(context, cluster).manager() as manager:
        for role in Role:
            manager.rotate_token(manager.swarm(), role)
    return {'rotated': [role.value for role in Role]}


def certificates(
    context: Context, cluster: Cluster, arguments: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Start to renew the swarm certificate of each node; services continue."""
    with view_of(context, cluster).manager() as manager:
        manager.rotate_authority(manager.swarm())
    return {'rotating': 'the authority of the swarm'}


def docker_context(
    context: Context, cluster: Cluster, arguments: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Write a new certificate for a person, and a Docker context that uses it."""
    view = view_of(context, cluster)
    hosts = [node.host for node in view.managers if node.host]
    if not hosts:
        raise ClusterDriverError(f'Cluster {cluster.name} has no manager with an address.')
    papers = authority_of(context, cluster).for_person(
        arguments['name'], SYSTEM_CLOCK.time(), arguments['days']
    )
    # Not that of the cluster: whatever a worker signs, people trust managers alone.
    trusted = b''.join(view.papers(node).certificate for node in view.managers)
    endpoint = f'tcp://{hosts[0]}:{PORT}'
    folder = Path(arguments['to']).expanduser().absolute()
    file = write_context(folder, cluster.name, endpoint, trusted, papers)
    return {
        'endpoint': endpoint,
        'folder': str(folder),
        'import': f'docker context import {cluster.name} {file}',
        'use': f'docker --context {cluster.name} node ls',
    }


def recover(context: Context, cluster: Cluster, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Continue with one manager after a permanent loss of quorum.

    Changes that only the other managers have are lost, too.
    """
    view = view_of(context, cluster)
    named = [node for node in view.managers if arguments['node'] in (node.name, node.id)]
    if not named:
        raise ClusterDriverError(
            f'Cluster {cluster.name} has no manager {arguments["node"]}.',
            f'It has {", ".join(node.name for node in view.managers) or "none"}.',
        )
    if view.works():
        raise ClusterDriverError(
            f'The managers of {cluster.name} have a quorum: there is nothing to recover.',
            'Replace single nodes instead.',
        )
    with view.engine(named[0]) as engine:
        engine.found(force_new=bool(engine.info().peer_id))
    return {'manager': named[0].name}


verbs = {
    'nodes': Verb(run=nodes, help='Show the nodes of the swarm.'),
    'services': Verb(run=services, help='Show services with the number of their running tasks.'),
    'tokens': Verb(run=tokens, help='Rotate the join tokens, which invalidates all old ones.'),
    'certificates': Verb(run=certificates, help='Renew the certificates within the swarm.'),
    'context': Verb(
        run=docker_context,
        help='Write a certificate and a Docker context.',
        parameters=(
            Parameter(name='to', required=True, help='Folder to write to; created if missing.'),
            Parameter(name='name', default='user', help='Name of the person in the certificate.'),
            Parameter(
                name='days', type=ParameterType.INTEGER, default=30, minimum=1,
                maximum=_LONGEST_DAYS, help='Days for which the certificate is valid.',
            ),
        ),
    ),
    'recover': Verb(
        run=recover,
        help='Continue with one manager after a permanent loss of quorum.',
        parameters=(Parameter(name='node', required=True, help='Manager to continue with.'),),
    ),
}  # fmt: skip
