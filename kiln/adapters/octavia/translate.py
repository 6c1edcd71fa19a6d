"""Translation between Octavia's amphorae and kiln's; pure."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import string
from collections.abc import Collection, Mapping
from typing import Any

from kiln.models import Amphora, Attachment, State, main_address

#: The characters and the length that a build key can have.
_BUILD_KEY = re.compile(r'[A-Za-z0-9][A-Za-z0-9._:-]{0,47}')
#: The width of Octavia's column for the id of an image.
_MAX_IMAGE_ID = 36
_BY_TAG = 'tag:'
_SIGNS = string.ascii_uppercase + string.digits

#: Mode and owner of the files of an amphora, which include a private key.
FILE_MODE, FILE_OWNER = 0o600, 'root'


def build_key(name: str) -> str:
    """Return the build key for a name: always the same key for the same name.

    Octavia derives the name from the amphora's id, so a flow that runs again
    gets the amphora that it built before.
    """
    if _BUILD_KEY.fullmatch(name):
        return name
    return f'octavia-{hashlib.sha256(name.encode()).hexdigest()[:32]}'


def random_name(name: str, length: int) -> str:
    """Return a name that does not reveal the purpose: always the same for the same name.

    A repeated build must request the same machine as before.
    """
    digest = hashlib.shake_256(name.encode()).digest(length - 1)
    return 'a' + ''.join(_SIGNS[byte % len(_SIGNS)] for byte in digest)


def files(config_drive_files: Mapping[str, Any] | None) -> dict[str, tuple[Any, int, str]]:
    """Return the files with the mode and owner that private keys need."""
    return {
        path: (content, FILE_MODE, FILE_OWNER)
        for path, content in (config_drive_files or {}).items()
    }


def image(tag: str | None, *, by_tag: bool) -> str | None:
    """Return the image to request from a backend."""
    if not tag:
        return None
    return f'{_BY_TAG}{tag}' if by_tag else tag


def image_id(amphora: Amphora) -> str | None:
    """Return the id of an amphora's image, if it fits into Octavia's column."""
    image = amphora.raw.get('image')
    # For an image that was requested by its tag, only Nova's answer has the id.
    found = image.get('id') if isinstance(image, Mapping) else amphora.image_id
    if found is None or found.startswith(_BY_TAG) or len(found) > _MAX_IMAGE_ID:
        return None
    return found


def status(state: State) -> str:
    """Return a state as Octavia compares it: ACTIVE, ERROR, or any other."""
    return state.value.upper()


def management_address(amphora: Amphora, networks: Collection[str]) -> str | None:
    """Return the address on the first of these networks, or any address without networks."""
    known = [address for address in amphora.addresses if address.network_id]
    if not networks or not known:
        # Some backends return no network ids; but all return addresses in the order of
        # the request, and Octavia requests the management network first.
        return amphora.address
    return main_address([address for address in known if address.network_id in networks])


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Interface:
    """An attachment with the names that Octavia's network drivers read."""

    port_id: str
    net_id: str | None
    fixed_ips: list[dict[str, str | None]]

    @classmethod
    def of(cls, attachment: Attachment) -> Interface:
        """Return an attachment with Octavia's names."""
        subnets = attachment.subnet_ids or (None,) * len(attachment.addresses)
        return cls(
            port_id=attachment.port_id,
            net_id=attachment.network_id,
            fixed_ips=[
                {'subnet_id': subnet, 'ip_address': address}
                for subnet, address in zip(subnets, attachment.addresses, strict=True)
            ],
        )
