"""Flavors, zones and images that builds can name: nodes of Ironic, and images of Glance."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.ironic import states, wanted
from kiln.compute_drivers.ironic.api.client import Services
from kiln.exceptions import (
    AmphoraComputeError,
    InsufficientCapacity,
    InvalidBuildRequest,
    InvalidRequest,
    ResourceNotFoundError,
)
from kiln.models import ImageFacts

_ID = re.compile(r'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}')
_FREE = {'provision_state': states.AVAILABLE, 'associated': 'false', 'maintenance': 'false'}
#: Fields of an image that are not properties which its owner set.
_PLAIN = frozenset({'id', 'name', 'file', 'schema', 'self', 'status', 'visibility', 'owner'})


class Catalogue:
    """Looks up what builds name."""

    def __init__(self, services: Services, *, zone_property: str | None) -> None:
        self._services = services
        self._zone_property = zone_property

    # ---- zones and flavors -------------------------------------------------

    def zone_of(self, node: Mapping[str, Any]) -> str | None:
        """Return the zone of a node; None if it has none."""
        if self._zone_property is None:
            return str(node.get('conductor_group') or '') or None
        properties = node.get('properties')
        value = properties.get(self._zone_property) if isinstance(properties, Mapping) else None
        return None if value in (None, '') else str(value)

    def zones(self, asked: Asked) -> Sequence[str]:
        """Return the zones of all nodes that are not in maintenance."""
        nodes = self._nodes(asked, maintenance='false')
        return sorted({zone for node in nodes if (zone := self.zone_of(node)) is not None})

    def candidates(self, asked: Asked, flavor: wanted.Flavor, zone: str) -> list[str]:
        """Return the free nodes of a zone that have a flavor, from which Ironic chooses.

        :raises InsufficientCapacity: the zone has none.
        """
        free = self._nodes(asked, resource_class=flavor.resource_class, **_FREE)
        found = [str(node['uuid']) for node in free if self.zone_of(node) == zone]
        if not found:
            raise self.no_node(asked, flavor, zone, None)
        return found

    def no_node(
        self, asked: Asked, flavor: wanted.Flavor, zone: str | None, said: str | None
    ) -> AmphoraComputeError:
        """Return the error for a build without a free node: wrong, or only too many."""
        if zone is not None and zone not in (zones := self.zones(asked)):
            known = ', '.join(zones) or 'none'
            return asked.error(
                InvalidBuildRequest, f'zone {zone!r} does not exist; the zones are {known}.'
            )
        if not self._has(asked, flavor):
            return asked.error(InvalidBuildRequest, f'no node has {flavor.words}.')
        place = f' in zone {zone!r}' if zone else ''
        more = f' Ironic says: {said.rstrip(".")}.' if said else ''
        return asked.error(
            InsufficientCapacity, f'no free node{place} has {flavor.words}.{more}', fault=said
        )

    def check_flavor(self, asked: Asked, name: str) -> None:
        """Raise unless a node has a flavor."""
        flavor = wanted.flavor_of(asked, name)
        if not self._has(asked, flavor):
            raise asked.error(InvalidRequest, f'no node has {flavor.words}.')

    def check_zone(self, asked: Asked, name: str) -> None:
        """Raise unless a node is in a zone."""
        if name not in (zones := self.zones(asked)):
            known = ', '.join(zones) or 'none'
            raise asked.error(InvalidRequest, f'it does not exist; the zones are {known}.')

    def _has(self, asked: Asked, flavor: wanted.Flavor) -> bool:
        traits = set(flavor.traits)
        return any(
            traits.issubset(node.get('traits') or ())
            for node in self._nodes(asked, resource_class=flavor.resource_class)
        )

    def _nodes(self, asked: Asked, **filters: str) -> Iterator[dict[str, Any]]:
        place = 'conductor_group' if self._zone_property is None else 'properties'
        fields = ('uuid', 'traits', place)
        return self._services.rows(asked, 'nodes', fields, **filters)

    # ---- images ------------------------------------------------------------

    def image(self, asked: Asked, name: str) -> wanted.Image:
        """Return the source of an image.

        :raises InvalidRequest: it does not exist.
        """
        if wanted.is_url(name):
            return wanted.image_at(asked, name)
        return wanted.Image(source=str(self._of_glance(asked, name)['id']))

    def image_facts(self, asked: Asked, name: str) -> ImageFacts:
        """Return the facts of an image; an image of a URL has no name but that."""
        if wanted.is_url(name):
            wanted.image_at(asked, name)
            return ImageFacts(id=name, name=name)
        found = self._of_glance(asked, name)
        properties = {
            str(key): value
            for key, value in found.items()
            if isinstance(value, str) and key not in _PLAIN and not key.startswith('os_')
        }
        return ImageFacts(
            id=str(found['id']), name=str(found.get('name') or ''), properties=properties
        )

    def _of_glance(self, asked: Asked, name: str) -> Mapping[str, Any]:
        kind = InvalidBuildRequest if asked.building else InvalidRequest
        if not self._services.offers(asked, 'image'):
            raise asked.error(
                kind, f'image {name!r} is not a URL, and this backend has no Glance.'
            )
        found = self._by_id(asked, name) if _ID.fullmatch(name) else self._by_name(asked, name)
        if len(found) != 1:
            which = 'several images have that name' if found else 'Glance has none'
            raise asked.error(kind, f'image {name!r} cannot be used: {which}.')
        if found[0].get('status') != 'active':
            raise asked.error(kind, f'image {name!r} is not active.')
        return found[0]

    def _by_id(self, asked: Asked, image_id: str) -> list[Mapping[str, Any]]:
        try:
            return [self._services.ask(asked, 'GET', f'/images/{image_id}', service='image')]
        except (InvalidBuildRequest, ResourceNotFoundError) as exc:
            if exc.http_status != 404:
                raise
            return []

    def _by_name(self, asked: Asked, name: str) -> list[Mapping[str, Any]]:
        answer = self._services.ask(
            asked, 'GET', '/images', service='image', query={'name': name, 'limit': 2}
        )
        return [one for one in answer.get('images') or () if one.get('name') == name]
