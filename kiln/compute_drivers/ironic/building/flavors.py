"""Flavors and images as a request writes them; pure."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Self

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.exceptions import AmphoraComputeError, InvalidRequest

_TRAIT = re.compile('[A-Z0-9_]{1,255}')
_UUID = re.compile('[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}')
_DIGESTS = {'md5': 32, 'sha256': 64, 'sha512': 128}
_HEX = re.compile('[0-9a-fA-F]+')
_URLS = ('http://', 'https://', 'file://', 'oci://')
#: The fields of ``instance_info`` that say what is deployed.
IMAGE_FIELDS = ('image_source', 'image_os_hash_algo', 'image_os_hash_value', 'boot_iso')


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Flavor:
    """Kind of nodes: a resource class, and traits that a node must have."""

    resource_class: str
    traits: tuple[str, ...] = ()

    @classmethod
    def read(
        cls, asked: Asked, text: str, kind: type[AmphoraComputeError] = InvalidRequest
    ) -> Self:
        """Return the flavor of ``CLASS+TRAIT+TRAIT``.

        :raises AmphoraComputeError: it has another form; ``kind`` is its class.
        """
        resource_class, *traits = text.split('+')
        wrong = [trait for trait in traits if not _TRAIT.fullmatch(trait)]
        if not resource_class or len(resource_class) > 80:  # as in Ironic
            raise asked.error(
                kind, f'flavor {text!r} does not begin with a resource class of Ironic.'
            )
        if wrong:
            raise asked.error(
                kind,
                f'{wrong[0]!r} in flavor {text!r} is not a trait: traits have capital letters, '
                'digits and underscores.',
            )
        return cls(resource_class=resource_class, traits=tuple(sorted(set(traits))))

    def fits(self, node: dict[str, Any]) -> bool:
        """Return True if a node has the class and the traits."""
        return node.get('resource_class') == self.resource_class and set(self.traits) <= set(
            node.get('traits') or ()
        )

    def __str__(self) -> str:
        return '+'.join((self.resource_class, *self.traits))


def image_info(
    asked: Asked, text: str, kind: type[AmphoraComputeError] = InvalidRequest
) -> dict[str, str]:
    """Return the ``instance_info`` of an image: a Glance id, a URL with its digest, or an ISO.

    :raises AmphoraComputeError: it is something else; ``kind`` is its class.
    """
    if _UUID.fullmatch(text):
        return {'image_source': text}
    if not text.startswith(_URLS):
        raise asked.error(
            kind,
            f'image {text!r} is neither the id of an image in Glance nor a URL.',
        )
    url, mark, fragment = text.rpartition('#')
    if text.endswith('.iso'):
        return {'boot_iso': text}
    if url.endswith('.iso'):
        raise asked.error(
            kind, f'image {text!r} has a digest, and Ironic checks none of an ISO: leave it out.'
        )
    name, _, digest = fragment.partition('=')
    if not mark and text.startswith('oci://'):
        return {'image_source': text}
    if _DIGESTS.get(name) != len(digest) or not _HEX.fullmatch(digest):
        raise asked.error(
            kind,
            f'image {text!r} has no digest: append #sha256=DIGEST to its URL.',
        )
    return {
        'image_source': url,
        'image_os_hash_algo': name,
        'image_os_hash_value': digest.lower(),
    }
