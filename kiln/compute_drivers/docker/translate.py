"""An engine's containers translated to kiln's amphorae; pure."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kiln.compute_drivers.docker import names, states
from kiln.models import (
    Address,
    Amphora,
    AmphoraType,
    Attachment,
    ImageFacts,
    Resource,
    State,
)


def owner_of(answer: Mapping[str, Any]) -> str | None:
    """Return the owner site of a container; None if the container is not kiln's."""
    return names.labels_in(answer).get(names.OWNER)


def key_of(answer: Mapping[str, Any]) -> str | None:
    """Return the build key of a container."""
    return names.labels_in(answer).get(names.KEY)


def amphora_of(
    answer: Mapping[str, Any], condition: states.Condition, *, rebooting: bool
) -> Amphora:
    """Return a container, from a list or an inspect, as an amphora."""
    labels = names.labels_in(answer)
    life = states.life_of(condition)
    if rebooting:
        # Between its end and its restart a container must not count as failed.
        life = states.Life(state=State.ACTIVE, task=states.REBOOTING)
    return Amphora(
        id=answer['Id'],
        name=labels.get(names.NAME, ''),
        state=life.state,
        amphora_type=AmphoraType.CONTAINER,
        build_key=labels.get(names.KEY),
        owner=labels.get(names.OWNER),
        flavor=labels.get(names.FLAVOR),
        image_id=image_id(answer.get('ImageID') or answer.get('Image')),
        availability_zone=labels.get(names.ZONE),
        addresses=_addresses(answer),
        metadata=names.metadata_of(labels),
        created_at=created_at(answer.get('Created')),
        fault=life.fault,
        task_state=life.task,
        served=rebooting or condition.status != 'created',
        raw=_raw(answer),
    )


def as_built(answer: Mapping[str, Any]) -> Amphora:
    """Return a container with its image as the build named it; None if not recorded."""
    amphora = amphora_of(answer, states.told(answer), rebooting=False)
    return dataclasses.replace(amphora, image_id=names.labels_in(answer).get(names.IMAGE))


def _addresses(answer: Mapping[str, Any]) -> tuple[Address, ...]:
    hung = networks_of(answer)
    return tuple(
        Address(
            address=address,
            network_id=found.get('NetworkID') or name,
            port_id=port_of(found),
            mac=found.get('MacAddress') or None,
        )
        for name, found in sorted(hung.items())
        for address in (found.get('IPAddress'), found.get('GlobalIPv6Address'))
        if address
    )


def networks_of(answer: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Return the network connections of a container, by network name."""
    found: Mapping[str, Mapping[str, Any]] | None
    found = (answer.get('NetworkSettings') or {}).get('Networks')
    return {name: hung or {} for name, hung in (found or {}).items()}


def port_of(hung: Mapping[str, Any]) -> str | None:
    """Return what identifies a connection; Podman's connections have no id."""
    return hung.get('EndpointID') or hung.get('MacAddress') or None


def attachment_of(
    amphora_id: str, network_id: str, answer: Mapping[str, Any], full_id: str
) -> Attachment | None:
    """Return a container's connection to a network given by name or id; None if not connected."""
    for name, hung in networks_of(answer).items():
        if {network_id, full_id} & {name, hung.get('NetworkID')}:
            return Attachment(
                amphora_id=amphora_id,
                port_id=port_of(hung) or name,
                network_id=network_id,
                addresses=tuple(
                    address
                    for address in (hung.get('IPAddress'), hung.get('GlobalIPv6Address'))
                    if address
                ),
            )
    return None


def image_id(text: str | None) -> str | None:
    """Return an image id in the form that both engines accept."""
    if text and names.is_id(text):
        return f'sha256:{text}'
    return text or None


def image_of(answer: Mapping[str, Any], asked_for: str) -> ImageFacts:
    """Return the facts of an image for callers."""
    tags = answer.get('RepoTags') or []
    return ImageFacts(
        id=image_id(answer['Id']) or '',
        name=asked_for if asked_for in tags or not tags else tags[0],
        properties=MappingProxyType(dict(image_labels(answer))),
    )


def image_labels(answer: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the labels of an image."""
    return (answer.get('Config') or {}).get('Labels') or {}


def has_health(answer: Mapping[str, Any]) -> bool:
    """Return True if containers of an image have a health check."""
    config = answer.get('Config') or {}
    test = (config.get('Healthcheck') or answer.get('HealthCheck') or {}).get('Test')
    return bool(test) and test != ['NONE']


def volume_of(answer: Mapping[str, Any]) -> Resource:
    """Return a volume as a resource of a site."""
    labels = answer.get('Labels') or {}
    return Resource(
        kind='volume',
        id=answer['Name'],
        name=labels.get(names.KEY, ''),
        owner=labels.get(names.OWNER),
        created_at=created_at(answer.get('CreatedAt')),
    )


def network_of(answer: Mapping[str, Any]) -> Resource:
    """Return a network as a resource of a site."""
    return Resource(
        kind='network',
        id=answer['Id'],
        name=answer.get('Name') or '',
        owner=(answer.get('Labels') or {}).get(names.OWNER),
        created_at=created_at(answer.get('Created')),
    )


def created_at(moment: Any) -> float | None:
    """Return whole seconds since the epoch, which is the precision of lists."""
    if isinstance(moment, int | float):
        return float(int(moment))
    try:
        parsed = datetime.datetime.fromisoformat(str(moment))
    except ValueError:
        return None
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=datetime.UTC)
    return float(int(parsed.timestamp()))


def _raw(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the parts that are safe to show: no environment, and no probe output."""
    state = answer.get('State')
    if isinstance(state, Mapping):
        state = {key: value for key, value in state.items() if key not in _NOT_SHOWN}
    return MappingProxyType(
        {
            'Id': answer['Id'],
            'Name': answer.get('Name') or ' '.join(answer.get('Names') or ()),
            'State': state,
            'Status': answer.get('Status'),
            'Networks': {name: dict(hung) for name, hung in networks_of(answer).items()},
        }
    )


_NOT_SHOWN = frozenset({'Health', 'Healthcheck'})
