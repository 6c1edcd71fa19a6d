"""Claims of servers that belong to nobody: two tags, written so that no claim is half seen.

Nova has no condition on a tag that is written. So each claim writes its key first, which makes
the server nobody's still, and reads what others have written since, before and after it writes
the owner: of two claims that cannot both succeed, at least one sees the other, and takes back
its own tags.
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
from collections.abc import Sequence
from typing import Any

from kiln.compute_drivers.authoring.claiming import is_claimed, key_in_use
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.nova import translate
from kiln.compute_drivers.nova.api.client import Services
from kiln.compute_drivers.nova.building.builds import Builds
from kiln.exceptions import AmphoraComputeError, BuildConflict, InvalidRequest

LOG = logging.getLogger(__name__)

#: Nova's limit for one server. At the limit it refuses even a tag that the server has.
_MAX_TAGS = 50


class Claims:
    """Writes the tags of claims."""

    def __init__(self, services: Services, builds: Builds) -> None:
        self._services = services
        self._builds = builds

    def claim(self, asked: Asked, owner: str) -> None:
        """Give a server that belongs to nobody the tags of a build key and an owner."""
        assert asked.build_key is not None
        key_tag, owner_tag = translate.KEY_TAG + asked.build_key, translate.OWNER_TAG + owner
        first = dataclasses.replace(asked, looking=True)
        # A build with the key must not look for a server of it meanwhile, and make one.
        with self._builds.turns.hold(asked.build_key):
            tags = self._tags(first, owner)
            missing = [tag for tag in (key_tag, owner_tag) if tag not in tags]
            if not missing:
                return
            self._check_key(first, owner)
            # Only a list without filters has the servers of a cell that is down.
            self._builds.check_cells(first)
            self._check_room(asked, len(tags), len(missing))
            self._write(asked, owner, missing)

    def _write(self, asked: Asked, owner: str, tags: Sequence[str]) -> None:
        written: list[str] = []
        try:
            for tag in tags:
                self._services.ask(asked, 'PUT', self._path(asked, tag))
                written.append(tag)
                self._tags(asked, owner)
                self._check_key(asked, owner)
        except (BuildConflict, InvalidRequest):
            self._take_back(asked, written)
            raise

    def _tags(self, asked: Asked, owner: str) -> set[str]:
        """Return the tags of the server.

        :raises InvalidRequest: it belongs to another owner, or has another key.
        """
        tags = self._read(asked)
        _check_server(asked, owner, tags)
        return tags

    def _read(self, asked: Asked) -> set[str]:
        answer = self._services.ask(asked, 'GET', f'/servers/{asked.amphora_id}')
        return set(answer['server'].get('tags') or ())

    def _check_key(self, asked: Asked, owner: str) -> None:
        """Raise if another server has the key in this site, or has it from another claim."""
        query = {'tags': f'{translate.KEY_TAG}{asked.build_key}'}
        listed = self._services.ask(asked, 'GET', '/servers/detail', query=query)
        for server in listed['servers']:
            if server['id'] != asked.amphora_id:
                _check_other(asked, owner, server)

    def _check_room(self, asked: Asked, has: int, needed: int) -> None:
        if has + needed > _MAX_TAGS:
            raise asked.error(
                InvalidRequest,
                f'it has {has} tags, Nova allows {_MAX_TAGS}, and the claim needs {needed} '
                f'more. Remove some of its tags first.',
            )

    def _take_back(self, asked: Asked, written: Sequence[str]) -> None:
        # The owner first: without a key, the server would be listed as one of this site.
        for tag in reversed(written):
            try:
                # Another site can have claimed it with the same key.
                if tag.startswith(translate.OWNER_TAG) or not _owners(self._read(asked)):
                    self._services.ask(asked, 'DELETE', self._path(asked, tag))
            except AmphoraComputeError as exc:
                if exc.http_status != 404:
                    LOG.warning('Tag %s stays on server %s: %s', tag, asked.amphora_id, exc)
                    return

    def _path(self, asked: Asked, tag: str) -> str:
        return f'/servers/{asked.amphora_id}/tags/{tag}'


def _check_server(asked: Asked, owner: str, tags: set[str]) -> None:
    """Raise unless the server with these tags can be claimed, or is claimed already."""
    owners = _owners(tags)
    keys = _values(tags, translate.KEY_TAG)
    # Several after a race of claims.
    for has_owner, has_key in itertools.product(owners or (None,), keys or (None,)):
        is_claimed(asked, owner, has_owner=has_owner, has_key=has_key)
    if stacks := _values(tags, translate.STACK_OWNER_TAG):
        raise asked.error(
            InvalidRequest,
            f'it is the server of a stack of site {stacks[0]!r}, by its tag '
            f'{translate.STACK_OWNER_TAG}{stacks[0]}. Remove that tag once no stack has it.',
        )
    if strange := [key for key in keys if key != asked.build_key]:
        raise asked.error(
            InvalidRequest,
            f'it has the tag {translate.KEY_TAG}{strange[0]} of another claim, which did not end. '
            f'Claim it with that key, or remove the tag.',
        )


def _check_other(asked: Asked, owner: str, server: dict[str, Any]) -> None:
    """Raise if another server that Nova lists has the key in this site, or can get it."""
    tags = set(server.get('tags') or ())
    # Nova on MySQL compares tags without regard to capitals.
    if asked.build_key not in _values(tags, translate.KEY_TAG):
        return
    owners = _owners(tags)
    if owner in owners:
        raise key_in_use(asked, server['id'])
    if not owners:
        raise asked.error(
            BuildConflict,
            f'server {server["id"]} has the tag {translate.KEY_TAG}{asked.build_key} of a claim '
            f'that did not end. Repeat that claim, remove the tag, or use another key.',
        )


def _owners(tags: set[str]) -> list[str]:
    return _values(tags, translate.OWNER_TAG)


def _values(tags: set[str], prefix: str) -> list[str]:
    return sorted(tag.removeprefix(prefix) for tag in tags if tag.startswith(prefix))
