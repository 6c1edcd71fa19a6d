"""Request body of a server create in Nova; pure."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Sequence
from typing import Any

from kiln.compute_drivers.authoring import user_data
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.authoring.openstack_networks import NO_NETWORK, split
from kiln.compute_drivers.nova.translate import FLAVOR, GROUP, IMAGE, KEY_TAG, OWNER_TAG, TYPE
from kiln.exceptions import InvalidBuildRequest, UnsupportedOperation, UserDataTooLarge
from kiln.models import BuildRequest

#: The newest microversion in which Nova itself puts files onto servers.
PERSONALITY = '2.56'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Content:
    """User data and files of one server, and how they are passed to Nova."""

    user_data: bytes | None
    # Needs the microversion PERSONALITY.
    personality: tuple[dict[str, str], ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """The resolved parts of one build, by the ids that Nova expects."""

    flavor_id: str
    image_id: str | None
    networks: tuple[str, ...]
    security_groups: tuple[str, ...]
    availability_zone: str | None
    key_name: str | None
    content: Content


def content_of(
    asked: Asked, request: BuildRequest, public_keys: Sequence[str], how: str
) -> Content:
    """Return user data that holds files and keys, or files as personality.

    :raises UserDataTooLarge: the files fit in neither.
    :raises InvalidBuildRequest: personality is required, and cannot set a mode or an owner.
    """
    modes = [file.path for file in request.files if (file.mode, file.owner) != (0o644, 'root')]
    if how != 'personality':
        whole = user_data.compose(request.user_data, request.files, public_keys)
        if whole is None or len(whole) <= user_data.MAX_BYTES:
            return Content(user_data=whole)
        if how == 'user_data' or modes or not request.files:
            raise too_large(asked, request, len(whole), modes if how == 'auto' else [])
    elif modes:
        raise asked.error(
            InvalidBuildRequest,
            f'file_injection = personality cannot set the mode or the owner of '
            f'{", ".join(modes)}.',
        )
    rest = user_data.compose(request.user_data, (), public_keys)
    if rest is not None and len(rest) > user_data.MAX_BYTES:
        raise too_large(asked, request, len(rest), [])
    return Content(
        user_data=rest,
        personality=tuple(
            {'path': file.path, 'contents': _base64(file.content)} for file in request.files
        ),
    )


def check_personality(asked: Asked, content: Content, largest: int) -> None:
    """Raise if Nova would refuse a file; its quota counts base64 characters."""
    for file in content.personality:
        # A negative limit means unlimited.
        if 0 <= largest < len(file['contents']):
            raise asked.error(
                UserDataTooLarge,
                f'the files do not fit in user data, and as personality {file["path"]} has '
                f'{len(file["contents"])} characters of base64, while this Nova allows '
                f'{largest}.',
            )


def too_large(
    asked: Asked,
    request: BuildRequest,
    size: int,
    modes: Sequence[str] = (),
    *,
    form: str = 'when compressed',
) -> UserDataTooLarge:
    """Return the error for user data of a form in which it would not fit."""
    given = [f'user data {len(request.user_data or b"")}']
    given += [f'{file.path} {len(file.content)}' for file in request.files]
    why = (
        f'user data, files and keys are {size} bytes {form}, and Nova allows '
        f'{user_data.MAX_BYTES} ({", ".join(given)}).'
    )
    if modes:
        why += f' Personality cannot set the mode or the owner of {", ".join(modes)}.'
    error = asked.error(UserDataTooLarge, why)
    assert isinstance(error, UserDataTooLarge)
    return error


def create_body(
    asked: Asked,
    request: BuildRequest,
    chosen: Chosen,
    conf: Any,
    *,
    ports: Sequence[str],
    networks: Sequence[str],
    version: str,
) -> dict[str, Any]:
    """Return the JSON that creates a server on these ports and further networks.

    ``conf`` has the options that apply to each server of a site.
    """
    content = chosen.content
    server: dict[str, Any] = {
        'name': request.name,
        'flavorRef': chosen.flavor_id,
        'tags': [OWNER_TAG + request.owner, KEY_TAG + request.build_key],
        'metadata': {**request.metadata, **reserved(request)},
        'networks': _interfaces(ports, networks),
    }
    if chosen.security_groups:
        server['security_groups'] = [{'name': group} for group in chosen.security_groups]
    if chosen.availability_zone:
        server['availability_zone'] = chosen.availability_zone
    if chosen.key_name:
        server['key_name'] = chosen.key_name
    if content.user_data is not None:
        server['user_data'] = _base64(content.user_data)
    if content.personality:
        server['personality'] = list(content.personality)
    if conf.config_drive or content.personality:
        server['config_drive'] = True
    if conf.hostname_domain:
        server['hostname'] = _hostname(asked, request.name, conf.hostname_domain, version)
    server |= _disk(asked, chosen.image_id, conf, version)
    hints = {'group': request.server_group_id}
    return {'server': server} | ({'os:scheduler_hints': hints} if hints['group'] else {})


def _interfaces(ports: Sequence[str], networks: Sequence[str]) -> list[dict[str, Any]] | str:
    if tuple(networks) == NO_NETWORK:
        return networks[0]
    on_networks = [
        {'uuid': network_id} | fixed_ip(address) for network_id, address in map(split, networks)
    ]
    return [{'port': port_id} for port_id in ports] + on_networks or 'auto'


def reserved(request: BuildRequest) -> dict[str, str]:
    """Return the metadata with which kiln describes the request itself."""
    said = {FLAVOR: request.flavor, IMAGE: request.image_id, GROUP: request.server_group_id}
    return {TYPE: request.amphora_type.value} | {key: v for key, v in said.items() if v}


def _disk(asked: Asked, image_id: str | None, conf: Any, version: str) -> dict[str, Any]:
    if not conf.boot_volume_size:
        return {'imageRef': image_id} if image_id else {}
    volume = {
        'boot_index': 0,
        'uuid': image_id,
        'source_type': 'image',
        'destination_type': 'volume',
        'volume_size': conf.boot_volume_size,
        'delete_on_termination': True,
    }
    if conf.boot_volume_type:
        _check_version(asked, 'boot_volume_type', version, 67)
        volume['volume_type'] = conf.boot_volume_type
    return {'block_device_mapping_v2': [volume]}


def _hostname(asked: Asked, name: str, domain: str, version: str) -> str:
    _check_version(asked, 'hostname_domain', version, 94)
    label = ''.join(c if c.isascii() and c.isalnum() else '-' for c in name)
    return f'{label.strip("-")[:63].rstrip("-") or "server"}.{domain}'


def _check_version(asked: Asked, option: str, version: str, minor: int) -> None:
    if not at_least(version, minor):
        raise asked.error(
            UnsupportedOperation,
            f'{option} needs microversion 2.{minor} of Nova; {version} is in use.',
        )


def fixed_ip(address: str | None) -> dict[str, str]:
    """Return the part of a body that requests one address."""
    return {'fixed_ip': address} if address else {}


def at_least(version: str, minor: int) -> bool:
    """Return True if a microversion is 2.minor or newer."""
    return int(version.partition('.')[2]) >= minor


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode('ascii')
