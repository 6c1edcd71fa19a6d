"""Flavors and images in the words of builds, and what Ironic gets for a deployment; pure."""

from __future__ import annotations

import dataclasses
import re
import urllib.parse
from collections.abc import Mapping
from typing import Any

from kiln.compute_drivers.authoring import user_data
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.ironic.claims import Claim
from kiln.exceptions import InvalidBuildRequest, InvalidRequest
from kiln.models import BuildRequest

_TRAIT = re.compile(r'[A-Z][A-Z0-9_]{0,254}')
_SCHEMES = frozenset({'http', 'https', 'file', 'oci'})
_HEX = re.compile(r'[0-9a-fA-F]{32,128}')


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Flavor:
    """Nodes that a build can have: a resource class, and traits."""

    resource_class: str
    traits: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The flavor in an error."""
        with_traits = f' and the traits {", ".join(self.traits)}' if self.traits else ''
        return f'the resource class {self.resource_class}{with_traits}'


def flavor_of(asked: Asked, name: str) -> Flavor:
    """Return the flavor of ``CLASS+TRAIT+TRAIT``.

    :raises InvalidRequest: it is not such a text.
    """
    resource_class, *traits = name.split('+')
    wrong = [trait for trait in traits if not _TRAIT.fullmatch(trait)]
    if not resource_class or len(resource_class) > 80 or wrong:
        raise asked.error(
            _wrong(asked),
            f'flavor {name!r} is not a resource class, followed by +TRAIT for each trait in '
            f'capitals.',
        )
    return Flavor(resource_class=resource_class, traits=tuple(dict.fromkeys(traits)))


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """Source of an image as Ironic takes it."""

    source: str
    #: Fields of ``instance_info`` with which Ironic checks the image.
    checks: Mapping[str, str] = dataclasses.field(default_factory=dict)


def is_url(image: str) -> bool:
    """Return True if an image is named by its address, and not by a name of Glance."""
    return urllib.parse.urlsplit(image).scheme.lower() in _SCHEMES and '://' in image


def image_at(asked: Asked, image: str) -> Image:
    """Return the image of a URL, with the checksum in its fragment.

    :raises InvalidRequest: the fragment is not a checksum.
    """
    source, _, fragment = image.partition('#')
    if not fragment:
        return Image(source=source)
    kind, _, value = fragment.partition('=')
    if kind in ('sha256', 'sha512') and _HEX.fullmatch(value):
        return Image(
            source=source, checks={'image_os_hash_algo': kind, 'image_os_hash_value': value}
        )
    if kind == 'checksums' and is_url(value):
        return Image(source=source, checks={'image_checksum': value})
    raise asked.error(
        _wrong(asked),
        f'the part of image {source} after "#" must be sha256=DIGEST, sha512=DIGEST or '
        f'checksums=URL.',
    )


def instance_info(
    claim: Claim, image: Image, flavor: Flavor, root_gb: int | None
) -> list[dict[str, Any]]:
    """Return the change of a node that says what is deployed on it."""
    facts: dict[str, Any] = {
        'image_source': image.source,
        **image.checks,
        'display_name': claim.text('name'),
        # Ironic checks them again when it deploys.
        'traits': list(flavor.traits),
    }
    if root_gb is not None:
        facts |= {'root_gb': root_gb, 'image_type': 'partition'}
    return [
        {'op': 'add', 'path': f'/instance_info/{name}', 'value': value}
        for name, value in facts.items()
    ]


def config_drive(asked: Asked, request: BuildRequest, claim: Claim) -> dict[str, Any]:
    """Return the parts of the config drive, of which Ironic makes a file system.

    :raises InvalidBuildRequest: the user data cannot be passed.
    """
    try:
        text = user_data.compose_text(request.user_data, request.files)
    except UnicodeDecodeError:
        raise asked.error(
            InvalidBuildRequest,
            'its user data is a message with parts that are not encoded. Encode each part as '
            'base64.',
        ) from None
    meta_data: dict[str, Any] = {
        'uuid': claim.uuid,
        'name': request.name,
        'hostname': host_name(request.name),
        'meta': dict(request.metadata),
    }
    if request.keys:
        meta_data['public_keys'] = {f'key-{nth}': key for nth, key in enumerate(request.keys)}
    if zone := claim.text('zone') or claim.text('node_zone'):
        meta_data['availability_zone'] = zone
    return {'meta_data': meta_data} | ({} if text is None else {'user_data': text})


def host_name(name: str) -> str:
    """Return a name that a machine can have, for a name of any characters."""
    label = ''.join(c if c.isascii() and c.isalnum() else '-' for c in name.lower())
    return label.strip('-')[:63].rstrip('-') or 'node'


def _wrong(asked: Asked) -> type[InvalidRequest]:
    return InvalidBuildRequest if asked.building else InvalidRequest
