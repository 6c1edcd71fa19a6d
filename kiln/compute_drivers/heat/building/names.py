"""Names and tags of stacks and servers, by which an amphora is found again; pure."""

from __future__ import annotations

import hashlib
import re

from kiln.compute_drivers.nova.translate import KEY_TAG, OWNER_TAG, STACK_OWNER_TAG
from kiln.openstack.heat.rows import StackRow

#: Tags of servers. They differ from those of the Nova driver, which would take a server in the
#: same project for an amphora of its own. Nova has them once Heat has seen the server run.
SERVER_OWNER_TAG = STACK_OWNER_TAG
SERVER_STACK_TAG = 'kiln-stack:'

_DIGITS = 24
_MOST_OF_KEY = 48


def stack_name(owner: str, build_key: str) -> str:
    """Return the name of the stack of a build.

    It follows from the build alone, and a project has a name once: a build that is repeated
    after a crash meets the stack of the first. Heat on MySQL ignores capitals, hence the digest.
    """
    digest = hashlib.sha256(f'{owner}\0{build_key}'.encode()).hexdigest()[:_DIGITS]
    plain = re.sub(r'[^A-Za-z0-9_.-]', '-', build_key)[:_MOST_OF_KEY]
    return f'kiln-{owner}-{plain}-{digest}'


def stack_tags(owner: str, build_key: str) -> tuple[str, str]:
    """Return the tags of the stack of a build."""
    return OWNER_TAG + owner, KEY_TAG + build_key


def key_of(row: StackRow) -> str | None:
    """Return the build key of a stack; None for a stack that no build has made."""
    return _tagged(row, KEY_TAG)


def owner_of(row: StackRow) -> str | None:
    """Return the site that a stack belongs to."""
    return _tagged(row, OWNER_TAG)


def _tagged(row: StackRow, prefix: str) -> str | None:
    return next((tag.removeprefix(prefix) for tag in row.tags if tag.startswith(prefix)), None)
