"""Volumes and networks that carry a site's label."""

from __future__ import annotations

from typing import Any

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.docker import names, translate
from kiln.compute_drivers.docker.api.client import Engine
from kiln.compute_drivers.docker.api.errors import Trouble, trouble_in
from kiln.exceptions import (
    AmphoraComputeError,
    DeleteFailed,
    InvalidRequest,
    PermissionDenied,
    ResourceNotFoundError,
)
from kiln.models import Resource

VOLUME, NETWORK = 'volume', 'network'
_NO_VOLUME = 'no such volume'


def owned(engine: Engine, owner: str) -> list[Resource]:
    """Return an owner's unused volumes, and its networks; used volumes go with a container."""
    asked = Asked(verb='list', subject=f'the resources of {owner}')
    label = f'{names.OWNER}={owner}'
    unused = {'label': [label], 'dangling': ['true']}
    wanted = {'label': [label]}
    volumes = engine.ask(asked, lambda session: session.volumes(filters=unused))
    networks = engine.ask(asked, lambda session: session.networks(filters=wanted))
    found = [
        *map(translate.volume_of, volumes.get('Volumes') or ()),
        *map(translate.network_of, networks),
    ]
    # Podman combines filters with "or", so the owner is checked again.
    return [resource for resource in found if resource.owner == owner]


def delete(engine: Engine, resource: Resource) -> None:
    """Delete a volume or a network that carries a label of kiln.

    :raises InvalidRequest: the resource is neither a volume nor a network.
    :raises PermissionDenied: the resource carries no label of kiln.
    :raises DeleteFailed: a container uses it.
    """
    asked = Asked(verb=f'delete {resource.kind}', subject=resource.id, resource_id=resource.id)
    if resource.kind not in (VOLUME, NETWORK) or not names.is_network(resource.id):
        raise asked.error(InvalidRequest, 'only volumes and networks are resources here.')
    try:
        found = engine.ask(asked, lambda session: _inspected(session, resource))
        if names.OWNER not in (found.get('Labels') or {}):
            raise asked.error(PermissionDenied, 'it carries no label of kiln.')
        engine.ask(asked, lambda session: _remove(session, resource))
    except ResourceNotFoundError:
        return
    except AmphoraComputeError as exc:
        if _NO_VOLUME in (exc.fault or '').lower():
            return
        if trouble_in(exc.fault) is Trouble.IN_USE:
            raise asked.error(DeleteFailed, 'a container uses it.', fault=exc.fault) from exc
        raise


def _inspected(session: Any, resource: Resource) -> Any:
    if resource.kind == VOLUME:
        return session.inspect_volume(resource.id)
    return session.inspect_network(resource.id)


def _remove(session: Any, resource: Resource) -> None:
    if resource.kind == VOLUME:
        session.remove_volume(resource.id)
    else:
        session.remove_network(resource.id)
