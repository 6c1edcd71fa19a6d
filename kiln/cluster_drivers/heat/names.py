"""Names and tags of stacks, by which the stack of a cluster is found again; pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from typing import Any

from kiln.clusters.models import Cluster

#: The longest name, with which a handle still fits, and the longest tag that Heat takes.
LONGEST_NAME = 200
LONGEST_TAG = 80

_OWNER = 'kiln'
_WANTED = 'kiln:wanted='
_DIGITS = 16
_WORD = re.compile(r'[A-Za-z0-9_.-]+')


def stack_name(site: str, cluster_id: str) -> str:
    """Return the name of a cluster's stack.

    It follows from the cluster alone: a creation that is repeated after a crash meets the
    stack of the first one.
    """
    return fitting(f'{_OWNER}-{site}-{cluster_id}', LONGEST_NAME)


def site_tag(site: str) -> str:
    """Return the tag that all stacks of a site have."""
    return _tag(f'kiln:site={site}')


def tags(site: str, cluster: Cluster, wanted: str) -> list[str]:
    """Return the tags of a cluster's stack; the last one is the mark of what is wanted."""
    return [_OWNER, *sorted(_owner_tags(site, cluster)), f'{_WANTED}{wanted}']


def belongs(tags: Collection[str], site: str, cluster: Cluster) -> bool:
    """Return True if a stack with some tags is that of a cluster."""
    return _owner_tags(site, cluster) <= set(tags)


def owner_of(tags: Collection[str]) -> str:
    """Return the cluster and site of a stack by its tags, for people; empty without any."""
    known = dict(tag.split('=', 1) for tag in tags if tag.startswith('kiln:') and '=' in tag)
    cluster, site = known.get('kiln:cluster'), known.get('kiln:site')
    return f'cluster {cluster} of site {site}' if cluster or site else ''


def wanted_mark(cluster: Cluster, *content: Mapping[str, Any] | str) -> str:
    """Return the mark of a change: what the stack becomes, and for which generation.

    Heat keeps a tag only if it has accepted the request that brought it. So the mark in a
    list shows whether the last request was accepted, without another request.
    """
    whole = hashlib.sha256(repr((cluster.generation, content)).encode())
    return f'{cluster.generation}-{whole.hexdigest()[:_DIGITS]}'


def mark_of(tags: Collection[str]) -> str:
    """Return the mark among some tags; empty without one."""
    found = [tag.removeprefix(_WANTED) for tag in tags if tag.startswith(_WANTED)]
    return found[0] if found else ''


def fitting(text: str, longest: int) -> str:
    """Return a text as a name: the same text if it can be one, else with a digest of it."""
    if len(text) <= longest and _WORD.fullmatch(text):
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
    plain = re.sub(r'[^A-Za-z0-9_.-]', '-', text)
    return f'{plain[: longest - _DIGITS - 1]}-{digest}'


def _owner_tags(site: str, cluster: Cluster) -> set[str]:
    return {site_tag(site), _tag(f'kiln:cluster={cluster.id}')}


def _tag(text: str) -> str:
    # Heat allows any character but a comma, up to a length.
    if len(text) <= LONGEST_TAG and ',' not in text:
        return text
    name, _, value = text.partition('=')
    return f'{name}={fitting(value, LONGEST_TAG - len(name) - 1)}'
