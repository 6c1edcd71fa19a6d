"""Contents of the config drive of a node, as the JSON from which Ironic makes it; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kiln.compute_drivers.authoring import user_data
from kiln.models import BuildRequest

_LONGEST_LABEL = 63


def config_drive(request: BuildRequest, amphora_id: str, *, zone: str | None) -> dict[str, Any]:
    """Return user data, metadata and keys; files are in the user data, for cloud-init to write.

    Ironic itself adds the addresses of the ports that are attached.
    """
    drive: dict[str, Any] = {'meta_data': _meta_data(request, amphora_id, zone)}
    content = user_data.compose(request.user_data, request.files)
    if content is not None:
        drive['user_data'] = user_data.textual(content).decode()
    return drive


def _meta_data(request: BuildRequest, amphora_id: str, zone: str | None) -> Mapping[str, Any]:
    found: dict[str, Any] = {
        'uuid': amphora_id,
        'name': request.name,
        'hostname': hostname(request.name),
        'meta': dict(request.metadata),
    }
    if request.keys:
        found['public_keys'] = {f'key-{at}': key for at, key in enumerate(request.keys)}
    if zone:
        found['availability_zone'] = zone
    return found


def hostname(name: str) -> str:
    """Return a host name made of the name of an amphora."""
    label = ''.join(c if c.isascii() and c.isalnum() else '-' for c in name).lower()
    return label.strip('-')[:_LONGEST_LABEL].rstrip('-') or 'amphora'
