"""Names and ids of nodes; none is ever reused."""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Container

from kiln.clusters.models import Node

#: Without vowels a suffix is never a word; 0, 1, 3 and l are easily misread.
_LETTERS = 'bcdfghjkmnpqrstvwxz2456789'
_SUFFIX = 5
#: The longest label of a host name.
_LONGEST = 63
_LONGEST_GROUP = 20


def build_key(node: Node) -> str:
    """Return the build key of an attempt, which finds its machine after a crash."""
    return build_key_of(node.id, node.attempt)


def build_key_of(node_id: str, attempt: int) -> str:
    """Return the same for a node that is not written so far."""
    return f'{node_id}.{attempt}'


def machine_id(node: Node) -> str:
    """Return the id of the machine of a node that has one."""
    assert node.compute_id is not None
    return node.compute_id


class Naming:
    """Generates ids and names; a seeded source of randomness makes them repeatable."""

    def __init__(self, source: random.Random | None = None) -> None:
        self._source = source or random.SystemRandom()

    def new_id(self) -> str:
        """Return an id that no other node has."""
        return str(uuid.UUID(int=self._source.getrandbits(128), version=4))

    def new_name(self, cluster: str, group: str, taken: Container[str]) -> str:
        """Return ``<cluster>-<group>-<suffix>``, a valid host name of at most 63 characters.

        :param taken: every name that the cluster ever had.
        """
        short = _label(group, _LONGEST_GROUP)
        owner = _label(cluster, _LONGEST - _SUFFIX - len(short) - 2)
        while True:
            suffix = ''.join(self._source.choices(_LETTERS, k=_SUFFIX))
            name = f'{owner}-{short}-{suffix}'
            if name not in taken:
                return name


def _label(text: str, longest: int) -> str:
    cleaned = re.sub('[^a-z0-9]+', '-', text.lower()).strip('-')
    return cleaned[:longest].strip('-') or 'x'
