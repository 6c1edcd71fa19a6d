"""Cached look-ups of flavors, images, zones, networks, security groups and keys by name."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from kiln.clock import Clock
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.authoring.openstack_names import (
    LISTED,
    MISS_S,
    NAMED,
    Remembered,
    ambiguous,
    invalid,
    is_missing,
    is_uuid,
    not_found,
)
from kiln.compute_drivers.authoring.openstack_networks import Networks
from kiln.compute_drivers.nova.api.client import Services
from kiln.compute_drivers.nova.building.body import PERSONALITY
from kiln.exceptions import AmphoraComputeError, ResourceNotFoundError
from kiln.models import ImageFacts

#: The prefix of an image that is given by tag: the newest active image with that tag.
TAG = 'tag:'
#: Glance's own fields of an image, beside the properties that its owner set.
_NO_PROPERTIES = frozenset({
    'id', 'name', 'status', 'visibility', 'checksum', 'owner', 'created_at', 'updated_at',
    'file', 'self', 'schema', 'container_format', 'disk_format', 'direct_url', 'os_hash_algo',
    'os_hash_value', 'stores',
})  # fmt: skip
# The characters that Nova allows in the id of a flavor and the name of a key pair;
# others could lead to another path of its API.
_PATH = re.compile(r'\w[\w .@-]*')


class Catalogue:
    """Flavors, images, zones, networks, security groups and keys of one project."""

    def __init__(
        self, services: Services, clock: Clock, *, ttl_s: float, image_owner: str | None
    ) -> None:
        self._services = services
        self._image_owner = image_owner
        self._flavor_page = services.page_size(1000)
        self._remembered = Remembered(clock, ttl_s=ttl_s)
        #: Networks and security groups.
        self.networks = Networks(
            functools.partial(services.ask, service='network'),
            self._remembered,
            lambda: services.project_id,
        )

    def forget(self) -> None:
        """Drop everything cached; the next use looks it up again."""
        self._remembered.forget()

    def flavor_id(self, asked: Asked, flavor: str) -> str:
        """Return the id of a flavor given by name or by id."""
        if asked.building and is_uuid(flavor):
            # Nova checks the id itself, also that of a private flavor.
            return flavor
        for oldest_s in (None, MISS_S):
            flavors = self._remembered.get(
                'flavors', lambda: self._flavors(asked), oldest_s=oldest_s
            )
            if flavor in flavors:
                return str(flavors[flavor])
        if not _PATH.fullmatch(flavor):
            raise not_found(asked, 'flavor', flavor, flavors)
        try:
            # A private flavor is missing from lists, but can be used.
            found = self._services.ask(asked, 'GET', f'/flavors/{flavor}')
        except AmphoraComputeError as exc:
            if not is_missing(exc):
                raise
            raise not_found(asked, 'flavor', flavor, flavors) from exc
        return str(found['flavor']['id'])

    def _flavors(self, asked: Asked) -> dict[str, str]:
        rows = list(self._services.pages(asked, '/flavors', 'flavors', {}, self._flavor_page))
        # An id takes precedence over an equal name.
        ids = {row['id']: row['id'] for row in rows}
        return {row['name']: row['id'] for row in rows} | ids

    def image_id(self, asked: Asked, image: str) -> str:
        """Return the id of an image given by id, name or tag."""
        if is_uuid(image):
            return image
        found = self._remembered.get(('image', image), lambda: self._images(asked, image))
        if not found:
            self._remembered.drop(('image', image))
            raise not_found(asked, 'active image', image, self._image_names(asked))
        if len(found) > 1 and not image.startswith(TAG):
            raise ambiguous(asked, 'image', image, found)
        return str(found[0])

    def _images(self, asked: Asked, image: str) -> list[str]:
        query: dict[str, Any] = {'status': 'active', 'sort': 'created_at:desc', 'limit': NAMED}
        if image.startswith(TAG):
            query['tag'] = image.removeprefix(TAG)
        else:
            query['name'] = image
        return [row['id'] for row in self._image_rows(asked, query)]

    def _image_rows(self, asked: Asked, query: dict[str, Any]) -> list[dict[str, Any]]:
        if self._image_owner:
            query['owner'] = self._image_owner
        answer = self._services.ask(asked, 'GET', '/images', service='image', query=query)
        rows: list[dict[str, Any]] = answer['images']
        return rows

    def _image_names(self, asked: Asked) -> Sequence[str]:
        query = {'status': 'active', 'limit': LISTED}
        return self._remembered.names('image', lambda: self._image_rows(asked, query))

    def check_image(self, asked: Asked, image: str) -> None:
        """Raise unless builds may use an image."""
        if not is_uuid(image):
            self.image_id(asked, image)
            return
        self._image(asked, image)

    def image_facts(self, asked: Asked, image: str) -> ImageFacts:
        """Return name and properties of an image; raise unless builds may use it."""
        found = self._image(asked, self.image_id(asked, image))
        said = {
            name: value
            for name, value in found.items()
            if isinstance(value, str) and name not in _NO_PROPERTIES
        }
        return ImageFacts(id=found['id'], name=found.get('name') or '', properties=said)

    def _image(self, asked: Asked, image_id: str) -> Mapping[str, Any]:
        try:
            found: Mapping[str, Any] = self._services.ask(
                asked, 'GET', f'/images/{image_id}', service='image'
            )
        except ResourceNotFoundError as exc:
            raise not_found(asked, 'image', image_id, self._image_names(asked)) from exc
        if found['status'] != 'active':
            raise invalid(asked, f'image {image_id} is {found["status"]}, not active.')
        return found

    def check_zone(self, asked: Asked, zone: str) -> None:
        """Raise unless an availability zone exists and is available."""
        zones = self.zones(asked)
        if zone not in zones:
            raise not_found(asked, 'available zone', zone, zones)

    def zones(self, asked: Asked) -> list[str]:
        """Return the names of the availability zones that are available."""
        zones: list[str] = self._remembered.get(
            'zones', lambda: self._zones(asked), oldest_s=MISS_S
        )
        return zones

    def _zones(self, asked: Asked) -> list[str]:
        answer = self._services.ask(asked, 'GET', '/os-availability-zone')
        rows = answer['availabilityZoneInfo']
        return sorted(row['zoneName'] for row in rows if row['zoneState']['available'])

    def check_group_id(self, asked: Asked, group_id: str | None) -> None:
        """Raise if a server group is not given by an id; no request."""
        if group_id is not None and not is_uuid(group_id):
            raise invalid(
                asked,
                f'server group {group_id!r} was not found: give its id, as in '
                f"'openstack server group list'.",
            )

    def check_group(self, asked: Asked, group_id: str) -> None:
        """Raise unless a server group exists."""
        if not _PATH.fullmatch(group_id):
            raise invalid(asked, f'server group {group_id!r} was not found.')
        path = f'/os-server-groups/{group_id}'
        self._remembered.get(('group', group_id), lambda: self._services.ask(asked, 'GET', path))

    def public_key(self, asked: Asked, name: str) -> str:
        """Return a public key by the name of its key pair."""
        if not _PATH.fullmatch(name):
            raise not_found(asked, 'key pair', name, self._key_names(asked))
        try:
            found = self._remembered.get(
                ('key', name), lambda: self._services.ask(asked, 'GET', f'/os-keypairs/{name}')
            )
        except AmphoraComputeError as exc:
            if not is_missing(exc):
                raise
            raise not_found(asked, 'key pair', name, self._key_names(asked)) from exc
        return str(found['keypair']['public_key']).strip()

    def _key_names(self, asked: Asked) -> Sequence[str]:
        def rows() -> list[dict[str, Any]]:
            listed = self._services.ask(asked, 'GET', '/os-keypairs')['keypairs']
            return [row['keypair'] for row in listed]

        return self._remembered.names('key pair', rows)

    def personality_size(self, asked: Asked) -> int:
        """Return how many characters of base64 Nova allows for a file."""
        limits = self._remembered.get(
            'limits', lambda: self._services.ask(asked, 'GET', '/limits', version=PERSONALITY)
        )
        return int(limits['limits']['absolute']['maxPersonalitySize'])
