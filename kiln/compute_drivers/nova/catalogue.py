"""Cached look-ups of flavors, images, zones, networks, security groups and keys by name."""

from __future__ import annotations

import ipaddress
import re
import threading
import uuid
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any

from kiln.clock import Clock, current_deadline
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.nova.api.client import Services
from kiln.compute_drivers.nova.building.body import NO_NETWORK, PERSONALITY, split
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
#: How many names of what exists an error lists.
_NAMED = 20
#: How many names are requested for an error.
_LISTED = 100
_GROUP = 'security group'
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
        ids = {row['id']: row['id'] for row in rows}
        return {row['name']: row['id'] for row in rows} | ids

    def image_id(self, asked: Asked, image: str) -> str:
        """Return the id of an image given by id, name or tag."""
        if _is_uuid(image):
            return image
        found = self._remembered(('image', image), self._ttl_s, lambda: self._images(asked, image))
        if not found:
            self._drop(('image', image))
            raise _none(asked, 'active image', image, self._image_names(asked))
        if len(found) > 1 and not image.startswith(TAG):
            raise _ambiguous(asked, 'image', image, found)
        return str(found[0])

    def _images(self, asked: Asked, image: str) -> list[str]:
        query: dict[str, Any] = {'status': 'active', 'sort': 'created_at:desc', 'limit': _NAMED}
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
        query = {'status': 'active', 'limit': _LISTED}
        return self._listed('image', lambda: self._image_rows(asked, query))

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
            raise _none(asked, 'image', image_id, self._image_names(asked)) from exc
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

    def check_group_id(self, asked: Asked, group_id: str | None) -> None:
        """Raise if a server group is not given by an id; no request."""
        if group_id is not None and not _is_uuid(group_id):
            raise _invalid(
                asked,
                f'server group {group_id!r} was not found: give its id, as in '
                f"'openstack server group list'.",
            )

    def check_group(self, asked: Asked, group_id: str) -> None:
        """Raise unless a server group exists."""
        if not _PATH.fullmatch(group_id):
            raise _invalid(asked, f'server group {group_id!r} was not found.')
        path = f'/os-server-groups/{group_id}'
        self._remembered(
            ('group', group_id), self._ttl_s, lambda: self._services.ask(asked, 'GET', path)
        )

    def check_network(self, asked: Asked, network_id: str) -> None:
        """Raise ResourceNotFoundError unless Neutron has the network."""
        query = {'fields': 'id'}
        self._services.ask(asked, 'GET', f'/networks/{network_id}', service='network', query=query)

    def network_ids(self, asked: Asked, networks: Sequence[str]) -> tuple[str, ...]:
        """Return networks by their ids; each is given by name or by id.

        The requested address of ``NETWORK=ADDRESS`` stays behind the id.
        """
        if tuple(networks) == NO_NETWORK:
            return NO_NETWORK
        return tuple(self._network_id(asked, network) for network in networks)

    def _network_id(self, asked: Asked, network: str) -> str:
        named, address = split(network)
        found = self._neutron_id(asked, 'network', 'networks', named, {})
        return f'{found}={address}' if address else found

    def check_address(self, asked: Asked, network: str) -> None:
        """Raise if no subnet of a network has the requested address of ``ID=ADDRESS``.

        The subnets of some networks are visible to their owners alone; then nothing is checked.
        """
        network_id, text = split(network)
        if text is None:
            return
        query = {'network_id': network_id, 'fields': 'cidr'}
        answer = self._services.ask(asked, 'GET', '/subnets', service='network', query=query)
        cidrs = sorted(row['cidr'] for row in answer['subnets'])
        try:
            address = ipaddress.ip_address(text)
        except ValueError as exc:
            raise _invalid(asked, f'{text!r} is not an IP address.') from exc
        if cidrs and not any(address in ipaddress.ip_network(cidr) for cidr in cidrs):
            raise _invalid(
                asked, f'address {text} is in no subnet of the network; it has {", ".join(cidrs)}.'
            )

    def check_security_groups(self, asked: Asked, ids: Sequence[str]) -> None:
        """Raise if a security group does not exist, for a backend that checks no ids itself."""
        self.security_group_ids(asked, ids, checked=True)

    def security_group_rules(
        self, asked: Asked, ids: Sequence[str]
    ) -> Sequence[Mapping[str, Any]]:
        """Return all rules of security groups that the project may see; never cached."""
        query = {'security_group_id': list(ids)}
        answer = self._services.ask(
            asked, 'GET', '/security-group-rules', service='network', query=query
        )
        rules: Sequence[Mapping[str, Any]] = answer['security_group_rules']
        return rules

    def has_unguarded_network(self, asked: Asked) -> bool:
        """Return True if security groups have no effect on some network."""
        query = {'fields': 'port_security_enabled'}
        answer = self._services.ask(asked, 'GET', '/networks', service='network', query=query)
        return any(row.get('port_security_enabled') is False for row in answer['networks'])

    def current_security_group_ids(self, groups: Sequence[str]) -> tuple[str, ...]:
        """Return the ids of security groups as they are now: one can have been made again."""
        found: list[str] = []
        for group in groups:
            self._drop((_GROUP, group))
            found += self.security_group_ids(Asked.of(f'use {_GROUP}', group), [group])
        return tuple(found)

    def security_group_ids(
        self, asked: Asked, groups: Sequence[str], *, checked: bool = False
    ) -> tuple[str, ...]:
        """Return the ids of security groups given by name or by id."""
        # An administrator sees the groups of all projects.
        project_id = self._services.project_id
        scope = {'project_id': project_id} if project_id else {}
        return tuple(
            self._neutron_id(asked, _GROUP, 'security-groups', group, scope, checked=checked)
            for group in groups
        )

    def _neutron_id(
        self,
        asked: Asked,
        kind: str,
        path: str,
        named: str,
        scope: Mapping[str, str],
        *,
        checked: bool = False,
    ) -> str:
        by_id = _is_uuid(named)
        if by_id and asked.building and not checked:
            # Nova checks the id itself.
            return named

        def rows(**query: Any) -> list[dict[str, Any]]:
            answer = self._services.ask(
                asked, 'GET', f'/{path}', service='network', query={**query, **scope}
            )
            listed: list[dict[str, Any]] = answer[path.replace('-', '_')]
            return listed

        which = {'id' if by_id else 'name': named}
        ids = [row['id'] for row in self._remembered(
            (kind, named), self._ttl_s, lambda: rows(**which, fields='id'))]  # fmt: skip
        if len(ids) == 1:
            return str(ids[0])
        self._drop((kind, named))
        if ids:
            raise _ambiguous(asked, kind, named, ids)
        listed = self._listed(kind, lambda: rows(fields='name', limit=_LISTED))
        raise _none(asked, kind, named, listed)

    def public_key(self, asked: Asked, name: str) -> str:
        """Return a public key by the name of its key pair."""
        if not _PATH.fullmatch(name):
            raise _none(asked, 'key pair', name, self._key_names(asked))
        try:
            found = self._remembered(
                ('key', name),
                self._ttl_s,
                lambda: self._services.ask(asked, 'GET', f'/os-keypairs/{name}'),
            )
        except AmphoraComputeError as exc:
            if not _missing(exc):
                raise
            raise _none(asked, 'key pair', name, self._key_names(asked)) from exc
        return str(found['keypair']['public_key']).strip()

    def _key_names(self, asked: Asked) -> Sequence[str]:
        def rows() -> list[dict[str, Any]]:
            listed = self._services.ask(asked, 'GET', '/os-keypairs')['keypairs']
            return [row['keypair'] for row in listed]

        return self._listed('key pair', rows)

    def personality_size(self, asked: Asked) -> int:
        """Return how many characters of base64 Nova allows for a file."""
        limits = self._remembered(
            'limits',
            self._ttl_s,
            lambda: self._services.ask(asked, 'GET', '/limits', version=PERSONALITY),
        )
        return int(limits['limits']['absolute']['maxPersonalitySize'])

    def _listed(self, kind: str, rows: Callable[[], list[dict[str, Any]]]) -> Sequence[str]:
        """Return the names of what exists, for an error; empty if they cannot be read."""
        try:
            names: Sequence[str] = self._remembered(
                ('names', kind), _MISS_S, lambda: sorted({row.get('name') or '' for row in rows()})
            )
        except AmphoraComputeError:
            # The error is about something else.
            return ()
        return [name for name in names if name]

    def _drop(self, what: Hashable) -> None:
        with self._lock:
            self._known.pop(what, None)

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


def _ambiguous(asked: Asked, kind: str, name: str, ids: Sequence[str]) -> AmphoraComputeError:
    return _invalid(
        asked, f'{len(ids)} {kind}s are named {name!r}: {", ".join(ids)}. Use one of these ids.'
    )


def _none(
    asked: Asked, kind: str, name: str, known: Collection[str] | Mapping[str, str]
) -> AmphoraComputeError:
    return _invalid(asked, f'{kind} {name!r} was not found.{_told(known)}')


def _told(known: Collection[str] | Mapping[str, str]) -> str:
    """Return a sentence about what exists: its names, and not too many of them."""
    # A mapping has names and ids, to ids.
    ids = known if isinstance(known, Mapping) else {}
    named = {id_ for name, id_ in ids.items() if id_ != name}
    names = sorted({*known} - named, key=lambda one: (ids.get(one) == one, one))
    if not names:
        return ''
    more = f' and {len(names) - _NAMED} more' if len(names) > _NAMED else ''
    return f' Known: {", ".join(names[:_NAMED])}{more}.'
