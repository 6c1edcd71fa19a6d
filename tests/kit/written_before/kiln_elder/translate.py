"""From kiln's values to the words of Elder and back; pure, tested by tables."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from kiln.models import Address, Amphora, AmphoraType, BuildRequest, State

# What kiln must find again lives on the machine itself, as tags: no file and no
# database of the driver's own would survive the controller.
OWNER_TAG = 'kiln:owner'
BUILD_KEY_TAG = 'kiln:build-key'

#: Each word of the backend; one that is not here is State.UNKNOWN, never "gone".
STATES = {
    'ordered': State.PENDING,
    'starting': State.BUILDING,
    'running': State.ACTIVE,
    'paused': State.SUSPENDED,
    'off': State.STOPPED,
    'failed': State.ERROR,
    'stopping': State.DELETING,
    'removed': State.DELETED,
}


def to_order(request: BuildRequest) -> dict[str, Any]:
    """Return the body of a create call."""
    return {
        'label': request.name,
        # A repeat with the same token gives the first machine, not a second.
        'token': f'{request.owner}/{request.build_key}',
        'size': request.flavor,
        'image': request.image_id,
        'zone': request.availability_zone,
        'nets': list(request.network_ids),
        'ports': list(request.port_ids),
        'firewalls': list(request.sec_groups),
        'ssh_keys': list(request.keys),
        'tags': {
            **request.metadata,
            OWNER_TAG: request.owner,
            BUILD_KEY_TAG: request.build_key,
        },
        'user_data': base64.b64encode(request.user_data or b'').decode(),
        'files': [
            {
                'path': file.path,
                'mode': f'{file.mode:04o}',
                'owner': file.owner,
                'content': base64.b64encode(file.content).decode(),
            }
            for file in request.files
        ],
    }


def to_amphora(machine: Mapping[str, Any]) -> Amphora:
    """Return what the backend says of a machine, in kiln's words."""
    tags = machine['tags']
    return Amphora(
        id=machine['ref'],
        name=machine['label'],
        state=STATES.get(machine['phase'], State.UNKNOWN),
        amphora_type=AmphoraType.VM,
        build_key=tags.get(BUILD_KEY_TAG),
        owner=tags.get(OWNER_TAG),
        flavor=machine['size'],
        image_id=machine['image'],
        availability_zone=machine['zone'],
        addresses=tuple(
            Address(address=link['ip'], network_id=link['net']) for link in machine['links']
        ),
        metadata={key: value for key, value in tags.items() if not key.startswith('kiln:')},
        # The reason of a failure, in the backend's own words, if it has one.
        fault=machine.get('problem'),
        raw=machine,
    )
