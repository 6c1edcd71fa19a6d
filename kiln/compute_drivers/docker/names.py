"""kiln's names, build keys and labels on an engine's containers; pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, unquote

from kiln.models import BuildRequest

OWNER, KEY, NAME = 'kiln.owner', 'kiln.key', 'kiln.name'
FLAVOR, ZONE = 'kiln.flavor', 'kiln.zone'
#: The image as the build named it; the engine itself reports only an id.
IMAGE = 'kiln.image-asked-for'
#: On a container that needs files or networks before it starts: a half-made one must
#: not just be started.
UNFINISHED = 'kiln.unfinished'
#: On a container with a health check; Podman's lists omit the health.
HEALTH = 'kiln.health'
#: Prefix of the keys of a caller's metadata.
METADATA = 'kiln.meta.'
#: On an image: its init system, its seed, and the paths of its volumes.
INIT, SEED, VOLUMES = 'kiln.init', 'kiln.seed', 'kiln.volumes'
#: On an imported image: the digest of its sources.
CONTENT = 'kiln.content'

_ID = re.compile(r'[0-9a-f]{64}')
_NETWORK = re.compile(r'[A-Za-z0-9][\w.-]*', re.ASCII)
_IMAGE = re.compile(r'[A-Za-z0-9][\w./:@-]*', re.ASCII)
_NO_HOST = re.compile(r'[^a-z0-9]+')
_DIGITS = 12
_LONGEST_HOST = 63
# Podman splits a label at "=", so "=" is quoted in keys.
_PLAIN = ' !#$&()*+,/:;<>?@[]^`{|}~'


def container_name(owner: str, build_key: str) -> str:
    """Return the only name that the container of a build can have.

    An engine gives each name only once, so two requests for a build cannot make two
    containers. The digest separates sites, and keys that differ only in characters
    that names cannot contain.
    """
    digest = hashlib.sha256(f'{owner}/{build_key}'.encode()).hexdigest()[:_DIGITS]
    return f'{build_key.replace(":", "-")}-{digest}'


def host_name(name: str) -> str:
    """Return a name reduced to a valid host name."""
    return _NO_HOST.sub('-', name.lower()).strip('-')[:_LONGEST_HOST].rstrip('-') or 'node'


def labels_of(
    request: BuildRequest, *, zone: str, unfinished: bool, health: bool
) -> dict[str, str]:
    """Return the labels that record the build on its container."""
    labels = {
        OWNER: request.owner,
        KEY: request.build_key,
        NAME: request.name,
        ZONE: zone,
        **{METADATA + quote(key, safe=_PLAIN): text for key, text in request.metadata.items()},
    }
    if request.flavor:
        labels[FLAVOR] = request.flavor
    if request.image_id:
        labels[IMAGE] = request.image_id
    if unfinished:
        labels[UNFINISHED] = 'yes'
    if health:
        labels[HEALTH] = 'yes'
    return labels


def metadata_of(labels: Mapping[str, str]) -> Mapping[str, str]:
    """Return the caller's metadata on a container."""
    found = {
        unquote(label.removeprefix(METADATA)): value
        for label, value in labels.items()
        if label.startswith(METADATA)
    }
    return MappingProxyType(found)


def is_id(text: str) -> bool:
    """Return True if a text is a container's full id, not a name or a prefix.

    Anything else is never sent to the engine, as it could match foreign containers.
    """
    return _ID.fullmatch(text) is not None


def is_network(text: str) -> bool:
    """Return True if a text can be the id or the name of a network."""
    return _NETWORK.fullmatch(text) is not None


def is_image(text: str) -> bool:
    """Return True if a text can be the id or the name of an image."""
    return _IMAGE.fullmatch(text) is not None and '..' not in text


def labels_in(answer: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the labels of a container, from a list or an inspect."""
    labels: Mapping[str, str] | None = answer.get('Labels')
    if labels is None:
        labels = (answer.get('Config') or {}).get('Labels')
    return labels or {}
