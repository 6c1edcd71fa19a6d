"""How kiln's names, keys and labels look in an engine; pure."""

from __future__ import annotations

import hashlib
import re
import urllib.parse
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kiln.models import BuildRequest

OWNER, KEY, NAME = 'kiln.owner', 'kiln.key', 'kiln.name'
FLAVOR, ZONE = 'kiln.flavor', 'kiln.zone'
#: The image in the words of the build; the engine itself tells only an id.
IMAGE = 'kiln.image-asked-for'
#: On a container that needs more than to be started, so that who finds one half
#: made knows that it is not enough to start it.
UNFINISHED = 'kiln.unfinished'
#: On a container with a health check; Podman's lists say nothing of its outcome.
HEALTH = 'kiln.health'
#: Before each key of a caller's metadata.
METADATA = 'kiln.meta.'
#: On an image: what it runs first, where it reads its seed, and its volumes.
INIT, SEED, VOLUMES = 'kiln.init', 'kiln.seed', 'kiln.volumes'
#: On an image that was imported: the digest of what it was made of.
CONTENT = 'kiln.content'

_ID = re.compile(r'[0-9a-f]{64}')
_NETWORK = re.compile(r'[A-Za-z0-9][\w.-]*', re.ASCII)
_IMAGE = re.compile(r'[A-Za-z0-9][\w./:@-]*', re.ASCII)
_NO_HOST = re.compile(r'[^a-z0-9]+')
_DIGITS = 12
_LONGEST_HOST = 63
# Podman takes a label for KEY=VALUE.
_PLAIN = ' !#$&()*+,/:;<>?@[]^`{|}~'


def container_name(owner: str, build_key: str) -> str:
    """Return the one name that containers of a build can have.

    An engine gives each name once, so that no two requests for a build can make
    two containers. The digest keeps sites, and keys that differ in signs which
    names cannot have, apart.
    """
    digest = hashlib.sha256(f'{owner}/{build_key}'.encode()).hexdigest()[:_DIGITS]
    return f'{build_key.replace(":", "-")}-{digest}'


def host_name(name: str) -> str:
    """Return a name as a host may have it."""
    return _NO_HOST.sub('-', name.lower()).strip('-')[:_LONGEST_HOST].rstrip('-') or 'node'


def labels_of(
    request: BuildRequest, *, zone: str, unfinished: bool, health: bool
) -> dict[str, str]:
    """Return what a container is to tell of its build."""
    labels = {
        OWNER: request.owner,
        KEY: request.build_key,
        NAME: request.name,
        ZONE: zone,
        **{METADATA + _quoted(key): value for key, value in request.metadata.items()},
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
        urllib.parse.unquote(label.removeprefix(METADATA)): value
        for label, value in labels.items()
        if label.startswith(METADATA)
    }
    return MappingProxyType(found)


def _quoted(key: str) -> str:
    return urllib.parse.quote(key, safe=_PLAIN)


def is_id(text: str) -> bool:
    """Tell whether a text is the id of a container, and not a name or a beginning.

    What is not is never sent to the engine: it would find containers that are not kiln's.
    """
    return _ID.fullmatch(text) is not None


def is_network(text: str) -> bool:
    """Tell whether a text can be the id or the name of a network."""
    return _NETWORK.fullmatch(text) is not None


def is_image(text: str) -> bool:
    """Tell whether a text can be the id or the name of an image."""
    return _IMAGE.fullmatch(text) is not None and '..' not in text


def labels_in(answer: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the labels of a container, from a list or from an answer about it alone."""
    labels: Mapping[str, str] | None = answer.get('Labels')
    if labels is None:
        labels = (answer.get('Config') or {}).get('Labels')
    return labels or {}
