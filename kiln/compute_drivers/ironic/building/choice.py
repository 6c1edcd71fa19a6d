"""Resolution of a build request: what its names, and the defaults, stand for."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.authoring.openstack_networks import (
    NO_NETWORK,
    Networks,
    check_networks,
)
from kiln.compute_drivers.ironic import translate
from kiln.compute_drivers.ironic.building.flavors import Flavor, image_info
from kiln.exceptions import InvalidBuildRequest
from kiln.models import BuildRequest

#: The most characters of ``extra`` that a database of Ironic is sure to hold.
_MOST_FACTS = 60_000


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """The resolved parts of one build."""

    flavor: Flavor
    source: str | None
    image: Mapping[str, str]
    zone: str | None
    #: By their ids, each with ``=ADDRESS`` if one was requested.
    networks: tuple[str, ...] = ()
    port_ids: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    @property
    def connected(self) -> bool:
        """True if the node gets ports."""
        return bool(self.networks or self.port_ids)


def choose(asked: Asked, request: BuildRequest, conf: Any) -> Wanted:
    """Resolve what a request says of the machine itself."""
    text, image = request.flavor or conf.flavor, request.image_id or conf.image
    if text is None:
        raise asked.error(InvalidBuildRequest, 'it has no flavor, and the backend no default.')
    if image is None:
        raise asked.error(InvalidBuildRequest, 'it has no image, and the backend no default.')
    for key in request.keys:
        if ' ' not in key:
            raise asked.error(
                InvalidBuildRequest, 'Ironic keeps no key pairs: give whole public keys.'
            )
    return Wanted(
        flavor=Flavor.read(asked, text, InvalidBuildRequest),
        source=image,
        image=image_info(asked, image, InvalidBuildRequest),
        zone=request.availability_zone or conf.availability_zone,
    )


def connected(
    asked: Asked, request: BuildRequest, conf: Any, networks: Networks, wanted: Wanted
) -> Wanted:
    """Return the parts of a build with its networks, ports and security groups."""
    named = request.network_ids or (() if request.port_ids else tuple(conf.networks))
    check_networks(asked, named, request.port_ids)
    named = () if named == NO_NETWORK else named
    if request.sec_groups and not named:
        raise asked.error(
            InvalidBuildRequest,
            'security groups are for ports that are made on networks, and it has no network.',
        )
    groups = (request.sec_groups or tuple(conf.security_groups)) if named else ()
    return dataclasses.replace(
        wanted,
        networks=networks.ids(asked, named),
        port_ids=request.port_ids,
        groups=networks.group_ids(asked, groups),
    )


def nics_of(wanted: Wanted, made: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what a new claim keeps of its ports: those it is given, then those made for it."""
    nics: dict[str, Any] = {port_id: {'at': at} for at, port_id in enumerate(wanted.port_ids)}
    for at, port in enumerate(made, len(nics)):
        nics[port['id']] = translate.nic_of(port, at)
    return nics


def facts_of(asked: Asked, request: BuildRequest, wanted: Wanted) -> dict[str, Any]:
    """Return what a claim keeps of its build."""
    facts = {
        'owner': request.owner,
        'build_key': request.build_key,
        'name': request.name,
        'flavor': request.flavor,
        'image': request.image_id,
        'source': wanted.source,
        'zone': wanted.zone,
        'metadata': dict(request.metadata),
    }
    if (size := len(json.dumps(facts))) > _MOST_FACTS:
        raise asked.error(
            InvalidBuildRequest,
            f'its metadata has {size} characters as JSON, and Ironic keeps {_MOST_FACTS}.',
        )
    return facts


def instance_info(
    request: BuildRequest, wanted: Wanted, node: Mapping[str, Any], conf: Any
) -> Sequence[Mapping[str, Any]]:
    """Return the patch with the image and the name of an instance."""
    info: dict[str, Any] = {**wanted.image, 'display_name': request.name}
    if size := conf.root_size or _disk_of(node):
        info['root_gb'] = size
    # Each by itself: an allocation has put its traits there.
    return [
        {'op': 'add', 'path': f'/instance_info/{name}', 'value': value}
        for name, value in info.items()
    ]


def _disk_of(node: Mapping[str, Any]) -> int | None:
    try:
        size = int((node.get('properties') or {}).get('local_gb') or 0)
    except (TypeError, ValueError):
        return None
    return size - 1 if size > 1 else None
