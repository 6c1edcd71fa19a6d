"""Octavia's words for amphorae and ours; pure."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import string
from collections.abc import Collection, Mapping
from typing import Any

from kiln.models import Amphora, Attachment, State

#: A build key may have so many characters, of these.
_BUILD_KEY = re.compile(r'[A-Za-z0-9][A-Za-z0-9._:-]{0,47}')
#: Octavia's column for the id of an image.
_MAX_IMAGE_ID = 36
_BY_TAG = 'tag:'
_SIGNS = string.ascii_uppercase + string.digits

#: Who may read the files of an amphora: a server's key is among them.
FILE_MODE, FILE_OWNER = 0o600, 'root'


def build_key(name: str) -> str:
    """Return the key of the build that has a name: the same for the same name.

    Octavia makes the name from the amphora's id, so that a flow that runs
    once more asks for the amphora that it built before.
    """
    if _BUILD_KEY.fullmatch(name):
        return name
    return f'octavia-{hashlib.sha256(name.encode()).hexdigest()[:32]}'


def random_name(name: str, length: int) -> str:
    """Return a name that tells nobody what the instance is for: the same for the same name.

    A build that is repeated must ask for the machine that it asked for before.
    """
    digest = hashlib.shake_256(name.encode()).digest(length - 1)
    return 'a' + ''.join(_SIGNS[byte % len(_SIGNS)] for byte in digest)


def files(config_drive_files: Mapping[str, Any] | None) -> dict[str, tuple[Any, int, str]]:
    """Return the files with the mode that keys must have, whoever writes them."""
    return {
        path: (content, FILE_MODE, FILE_OWNER)
        for path, content in (config_drive_files or {}).items()
    }


def image(tag: str | None, *, by_tag: bool) -> str | None:
    """Return what to ask a backend for."""
    if not tag:
        return None
    return f'{_BY_TAG}{tag}' if by_tag else tag


def image_id(amphora: Amphora) -> str | None:
    """Return the id of an amphora's image, if it is one that Octavia can keep."""
    image = amphora.raw.get('image')
    # One that was asked for by its tag has an id that only Nova's answer tells.
    found = image.get('id') if isinstance(image, Mapping) else amphora.image_id
    if found is None or found.startswith(_BY_TAG) or len(found) > _MAX_IMAGE_ID:
        return None
    return found


def status(state: State) -> str:
    """Return a state in the words that Octavia looks for: ACTIVE, ERROR, any other."""
    return state.value.upper()


def management_address(amphora: Amphora, networks: Collection[str]) -> str | None:
    """Return the address on the first network of these, or on any where none is named."""
    known = [address for address in amphora.addresses if address.network_id]
    if not networks or not known:
        # Not every backend says which network is whose id; but all have them in
        # the order they were asked for, and Octavia asks for this one first.
        return next((address.address for address in amphora.addresses), None)
    return next((address.address for address in known if address.network_id in networks), None)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Interface:
    """An attachment with the names that Octavia's network drivers read."""

    port_id: str
    net_id: str | None
    fixed_ips: list[dict[str, str | None]]

    @classmethod
    def of(cls, attachment: Attachment) -> Interface:
        """Return the same, in Octavia's words."""
        subnets = attachment.subnet_ids or (None,) * len(attachment.addresses)
        return cls(
            port_id=attachment.port_id,
            net_id=attachment.network_id,
            fixed_ips=[
                {'subnet_id': subnet, 'ip_address': address}
                for subnet, address in zip(subnets, attachment.addresses, strict=True)
            ],
        )
