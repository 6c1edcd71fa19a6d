"""Volumes and networks that carry a site's label."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.docker import names, translate
from kiln.compute_drivers.docker.api.client import Engine, Session
from kiln.compute_drivers.docker.api.errors import Trouble, trouble_in
from kiln.exceptions import (
    AmphoraComputeError,
    InstanceStateConflict,
    InvalidRequest,
    PermissionDenied,
    ResourceNotFoundError,
)
from kiln.models import Resource

#: The methods that inspect and remove a resource of each kind.
_METHODS: Mapping[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    'volume': (Session.inspect_volume, Session.remove_volume),
    'network': (Session.inspect_network, Session.remove_network),
}
_NO_VOLUME = 'no such volume'


def owned(engine: Engine, owner: str) -> list[Resource]:
    """Return an owner's unused volumes, and its networks; used volumes go with a container."""
    asked = Asked(verb='list', subject=f'the resources of {owner}')
    label = f'{names.OWNER}={owner}'
    unused = {'label': [label], 'dangling': ['true']}
    volumes = engine.ask(asked, Session.volumes, filters=unused)
    networks = engine.ask(asked, Session.networks, filters={'label': [label]})
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
    :raises InstanceStateConflict: a container uses it.
    """
    asked = Asked.of(f'delete {resource.kind}', resource.id)
    if resource.kind not in _METHODS or not names.is_network(resource.id):
        raise asked.error(InvalidRequest, 'only volumes and networks are resources here.')
    inspect, remove = _METHODS[resource.kind]
    try:
        found = engine.ask(asked, inspect, resource.id)
        if names.OWNER not in (found.get('Labels') or {}):
            raise asked.error(PermissionDenied, 'it carries no label of kiln.')
        engine.ask(asked, remove, resource.id)
    except ResourceNotFoundError:
        return
    except AmphoraComputeError as exc:
        if _NO_VOLUME in (exc.fault or '').lower():
            return
        if trouble_in(exc.fault) is Trouble.IN_USE:
            raise asked.error(
                InstanceStateConflict, 'a container uses it.', fault=exc.fault
            ) from exc
        raise
