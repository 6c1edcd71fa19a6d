"""Resolution of a build request: the ids that the names in it, and the defaults, stand for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.authoring.openstack_networks import check_networks
from kiln.compute_drivers.nova.building import body
from kiln.compute_drivers.nova.catalogue import Catalogue
from kiln.exceptions import InvalidBuildRequest
from kiln.models import BuildRequest

#: Returns user data with files and public keys.
Compose = Callable[[Asked, BuildRequest, Sequence[str]], body.Content]


def choose(
    asked: Asked,
    request: BuildRequest,
    conf: Any,
    catalogue: Catalogue,
    *,
    content: Compose,
    imageless: bool = False,
) -> body.Chosen:
    """Resolve all names of a request; raise an error before anything is created.

    ``imageless`` means that a server can boot without an image of its own.
    """
    flavor, image = request.flavor or conf.flavor, request.image_id or conf.image
    if flavor is None:
        raise asked.error(InvalidBuildRequest, 'it has no flavor, and the backend no default.')
    if image is None and not imageless:
        raise asked.error(InvalidBuildRequest, 'it has no image, and the backend no default.')
    keys = request.keys or tuple(conf.keypairs)
    # A public key begins with its type and a space; names of key pairs have no space.
    named = [key for key in keys if ' ' not in key]
    written = [key for key in keys if ' ' in key]
    public_keys = [catalogue.public_key(asked, name) for name in named[1:]] + written
    catalogue.check_group_id(asked, request.server_group_id)
    flavor_id = catalogue.flavor_id(asked, flavor)
    image_id = None if image is None else catalogue.image_id(asked, image)
    made = content(asked, request, public_keys)
    if made.personality:
        body.check_personality(asked, made, catalogue.personality_size(asked))
    networks = request.network_ids or (() if request.port_ids else tuple(conf.networks))
    check_networks(asked, networks, request.port_ids)
    sec_groups = request.sec_groups or tuple(conf.security_groups)
    return body.Chosen(
        flavor_id=flavor_id,
        image_id=image_id,
        networks=catalogue.networks.ids(asked, networks),
        security_groups=catalogue.networks.group_ids(asked, sec_groups),
        availability_zone=request.availability_zone or conf.availability_zone,
        key_name=named[0] if named else None,
        content=made,
    )
