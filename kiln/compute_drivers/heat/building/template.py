"""The stack of a build: its template, parameters and tags; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kiln.compute_drivers.authoring.openstack_networks import NO_NETWORK, split
from kiln.compute_drivers.heat.building.names import (
    SERVER_OWNER_TAG,
    SERVER_STACK_TAG,
    stack_tags,
)
from kiln.compute_drivers.nova.building.body import Chosen, reserved
from kiln.models import BuildRequest

#: The name of the server in each stack, and of the parameters that describe an amphora.
SERVER = 'server'
NAME, METADATA, ZONE, USER_DATA = 'name', 'metadata', 'availability_zone', 'user_data'

_VERSION = '2018-08-31'
_STACK_ID = {'list_join': ['', [SERVER_STACK_TAG, {'get_param': 'OS::stack_id'}]]}


def stack_body(request: BuildRequest, chosen: Chosen, conf: Any) -> dict[str, Any]:
    """Return the JSON that creates the stack of a build, without its name.

    ``conf`` has the options that apply to each server of a site.
    """
    values = _parameters(request, chosen)
    ports = _ports(chosen)
    resources = {SERVER: {'type': 'OS::Nova::Server', 'properties': _server(
        request, chosen, conf, values, ports)}}  # fmt: skip
    return {
        'template': {
            'heat_template_version': _VERSION,
            'description': f'Amphora of kiln at {request.owner}. Change it through kiln only.',
            'parameters': {name: _declared(name) for name in values},
            'resources': {**ports, **resources},
        },
        'parameters': values,
        'tags': ','.join(stack_tags(request.owner, request.build_key)),
        # What a build has left is kept until kiln deletes it: it has the reason.
        'disable_rollback': True,
    }


def _parameters(request: BuildRequest, chosen: Chosen) -> dict[str, Any]:
    """Return what describes the amphora as long as Nova has no server, and what is secret.

    As a parameter, metadata that looks like a function of a template is text.
    """
    values: dict[str, Any] = {
        NAME: request.name,
        METADATA: {**request.metadata, **reserved(request)},
    }
    if chosen.availability_zone:
        values[ZONE] = chosen.availability_zone
    if chosen.content.user_data is not None:
        values[USER_DATA] = chosen.content.user_data.decode()
    return values


def _declared(name: str) -> dict[str, Any]:
    if name == METADATA:
        return {'type': 'json'}
    return {'type': 'string', **({'hidden': True} if name == USER_DATA else {})}


def _ports(chosen: Chosen) -> dict[str, Any]:
    networks = () if chosen.networks == NO_NETWORK else chosen.networks
    return {
        f'port-{n}': {'type': 'OS::Neutron::Port', 'properties': _port(network, chosen)}
        for n, network in enumerate(networks, 1)
    }


def _port(network: str, chosen: Chosen) -> dict[str, Any]:
    network_id, address = split(network)
    port: dict[str, Any] = {'network': network_id}
    if address:
        port['fixed_ips'] = [{'ip_address': address}]
    if chosen.security_groups:
        port['security_groups'] = list(chosen.security_groups)
    return port


def _server(
    request: BuildRequest,
    chosen: Chosen,
    conf: Any,
    values: Mapping[str, Any],
    ports: Mapping[str, Any],
) -> dict[str, Any]:
    server: dict[str, Any] = {
        **{name: {'get_param': name} for name in values},
        'flavor': chosen.flavor_id,
        'image': chosen.image_id,
        'networks': _interfaces(request, chosen, ports),
        'tags': [SERVER_OWNER_TAG + request.owner, _STACK_ID],
        # Heat's own formats add scripts to user data, or drop it.
        'user_data_format': 'RAW',
    }
    if chosen.security_groups and not ports:
        server['security_groups'] = list(chosen.security_groups)
    if chosen.key_name:
        server['key_name'] = chosen.key_name
    if conf.config_drive:
        server['config_drive'] = True
    if request.server_group_id:
        server['scheduler_hints'] = {'group': request.server_group_id}
    return server


def _interfaces(
    request: BuildRequest, chosen: Chosen, ports: Mapping[str, Any]
) -> list[dict[str, Any]]:
    given = [{'port': port_id} for port_id in request.port_ids]
    made = [{'port': {'get_resource': name}} for name in ports]
    allocated = 'none' if chosen.networks == NO_NETWORK else 'auto'
    return [*given, *made] or [{'allocate_network': allocated}]
