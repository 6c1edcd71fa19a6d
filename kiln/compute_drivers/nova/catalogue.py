"""Cached look-ups of flavors, images, zones, security groups and keys by name."""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from kiln.clock import Clock, current_deadline
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.nova.api.client import Services
from kiln.compute_drivers.nova.building.body import PERSONALITY
from kiln.exceptions import (
    AmphoraComputeError,
    InvalidBuildRequest,
    InvalidRequest,
    ResourceNotFoundError,
)
from kiln.models import ImageFacts

#: The prefix of an image that is given by tag: the newest active image with that tag.
TAG = 'tag:'
#: Seconds between two look-ups of an unknown name.
_MISS_S = 5.0
_NAMED = 20
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
    """Flavors, images, zones, security groups and keys of one project."""

    def __init__(
        self, services: Services, clock: Clock, *, ttl_s: float, image_owner: str | None
    ) -> None:
        self._services = services
        self._clock = clock
        self._ttl_s = ttl_s
        self._image_owner = image_owner
        self._flavor_page = services.page_size(1000)
        self._lock = threading.Lock()
        self._known: dict[Hashable, tuple[float, Any]] = {}
        # The look-ups under way, with the event to set when each is finished.
        self._asking: dict[Hashable, threading.Event] = {}

    def forget(self) -> None:
        """Drop everything cached; the next use looks it up again."""
        with self._lock:
            self._known.clear()

    def flavor_id(self, asked: Asked, flavor: str) -> str:
        """Return the id of a flavor given by name or by id."""
        if asked.building and _is_uuid(flavor):
            # Nova checks the id itself, also that of a private flavor.
            return flavor
        for oldest_s in (self._ttl_s, _MISS_S):
            flavors = self._remembered('flavors', oldest_s, lambda: self._flavors(asked))
            if flavor in flavors:
                return str(flavors[flavor])
        if not _PATH.fullmatch(flavor):
            raise _none(asked, 'flavor', flavor, flavors)
        try:
            # A private flavor is missing from lists, but can be used.
            found = self._services.ask(asked, 'GET', f'/flavors/{flavor}')
        except AmphoraComputeError as exc:
            if not _missing(exc):
                raise
            raise _none(asked, 'flavor', flavor, flavors) from exc
        return str(found['flavor']['id'])

    def _flavors(self, asked: Asked) -> dict[str, str]:
        rows = list(self._services.pages(asked, '/flavors', 'flavors', {}, self._flavor_page))
        # An id takes precedence over an equal name.
        return {row['name']: row['id'] for row in rows} | {row['id']: row['id'] for row in rows}

    def image_id(self, asked: Asked, image: str) -> str:
        """Return the id of an image given by id, name or tag."""
        if _is_uuid(image):
            return image
        found = self._remembered(('image', image), self._ttl_s, lambda: self._images(asked, image))
        if not found:
            with self._lock:
                self._known.pop(('image', image), None)
            raise _none(asked, 'active image', image, ())
        if len(found) > 1 and not image.startswith(TAG):
            raise _invalid(asked, f'{len(found)} images are named {image!r}: {", ".join(found)}.')
        return str(found[0])

    def _images(self, asked: Asked, image: str) -> list[str]:
        query: dict[str, Any] = {'status': 'active', 'sort': 'created_at:desc', 'limit': _NAMED}
        if image.startswith(TAG):
            query['tag'] = image.removeprefix(TAG)
        else:
            query['name'] = image
        if self._image_owner:
            query['owner'] = self._image_owner
        answer = self._services.ask(asked, 'GET', '/images', service='image', query=query)
        return [row['id'] for row in answer['images']]

    def check_image(self, asked: Asked, image: str) -> None:
        """Raise unless builds may use an image."""
        if not _is_uuid(image):
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
            raise _none(asked, 'image', image_id, ()) from exc
        if found['status'] != 'active':
            raise _invalid(asked, f'image {image_id} is {found["status"]}, not active.')
        return found

    def check_zone(self, asked: Asked, zone: str) -> None:
        """Raise unless an availability zone exists and is available."""
        zones = self.zones(asked)
        if zone not in zones:
            raise _none(asked, 'available zone', zone, zones)

    def zones(self, asked: Asked) -> list[str]:
        """Return the names of the availability zones that are available."""
        zones: list[str] = self._remembered('zones', _MISS_S, lambda: self._zones(asked))
        return zones

    def _zones(self, asked: Asked) -> list[str]:
        answer = self._services.ask(asked, 'GET', '/os-availability-zone')
        rows = answer['availabilityZoneInfo']
        return sorted(row['zoneName'] for row in rows if row['zoneState']['available'])

    def check_network(self, asked: Asked, network_id: str) -> None:
        """Raise ResourceNotFoundError unless Neutron has the network."""
        query = {'fields': 'id'}
        self._services.ask(asked, 'GET', f'/networks/{network_id}', service='network', query=query)

    def security_group_ids(self, asked: Asked, groups: Sequence[str]) -> list[str]:
        """Return the ids of security groups given by name or by id."""
        return [self._security_group_id(asked, group) for group in groups]

    def _security_group_id(self, asked: Asked, group: str) -> str:
        if _is_uuid(group):
            return group
        query = {'name': group, 'fields': 'id'}
        if project_id := self._services.project_id:
            query['project_id'] = project_id
        found = self._remembered(
            ('security group', group),
            self._ttl_s,
            lambda: self._services.ask(
                asked, 'GET', '/security-groups', service='network', query=query
            )['security_groups'],
        )
        if len(found) != 1:
            self.forget()
            raise _invalid(asked, f'{len(found) or "no"} security groups are named {group!r}.')
        return str(found[0]['id'])

    def public_key(self, asked: Asked, name: str) -> str:
        """Return a public key by the name of its key pair."""
        if not _PATH.fullmatch(name):
            raise _none(asked, 'key pair', name, ())
        try:
            found = self._remembered(
                ('key', name),
                self._ttl_s,
                lambda: self._services.ask(asked, 'GET', f'/os-keypairs/{name}'),
            )
        except AmphoraComputeError as exc:
            if not _missing(exc):
                raise
            raise _none(asked, 'key pair', name, ()) from exc
        return str(found['keypair']['public_key']).strip()

    def personality_size(self, asked: Asked) -> int:
        """Return how many characters of base64 Nova allows for a file."""
        limits = self._remembered(
            'limits',
            self._ttl_s,
            lambda: self._services.ask(asked, 'GET', '/limits', version=PERSONALITY),
        )
        return int(limits['limits']['absolute']['maxPersonalitySize'])

    def _remembered(self, what: Hashable, oldest_s: float, look: Callable[[], Any]) -> Any:
        answered = threading.Event()
        other = self._asking.setdefault(what, answered)
        if other is not answered:
            # Only one of many concurrent builds sends the request; if it fails, each does.
            deadline = current_deadline()
            other.wait(None if deadline is None else max(0.0, deadline.remaining_s()))
        try:
            return self._fresh(what, oldest_s, look)
        finally:
            if other is answered:
                del self._asking[what]
                answered.set()

    def _fresh(self, what: Hashable, oldest_s: float, look: Callable[[], Any]) -> Any:
        now = self._clock.monotonic()
        with self._lock:
            at, value = self._known.get(what, (0.0, None))
        if value is None or now - at >= oldest_s:
            value = look()
            with self._lock:
                self._known[what] = (now, value)
        return value


def _missing(exc: AmphoraComputeError) -> bool:
    # The error for a 404 that is not the service's own is retryable.
    return exc.http_status == 404 and not exc.retryable


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


def _invalid(asked: Asked, why: str) -> AmphoraComputeError:
    return asked.error(InvalidBuildRequest if asked.building else InvalidRequest, why)


def _none(
    asked: Asked, kind: str, name: str, there_are: Sequence[str] | Any
) -> AmphoraComputeError:
    names = sorted(there_are)
    known = f' Known: {", ".join(names[:_NAMED])}.' if names else ''
    return _invalid(asked, f'{kind} {name!r} was not found.{known}')
