"""Port checks of a plan: which nodes must let which others in; pure."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Sequence


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class GuardedGroup:
    """A group of nodes with what guards its machines."""

    name: str
    backend: str
    sec_groups: tuple[str, ...]
    #: Ports that each of its nodes must open to all other nodes.
    ports: tuple[str, ...]
    count: int
    #: True if new nodes are planned.
    grows: bool


def port_checks(groups: Sequence[GuardedGroup]) -> Iterator[tuple[GuardedGroup, tuple[str, ...]]]:
    """Yield each group with the security groups of nodes that it must let in, if one is new.

    What one backend calls its groups means nothing to another, so nodes of two backends are
    not compared. A node needs no port for itself.
    """
    counts: collections.Counter[tuple[str, tuple[str, ...]]] = collections.Counter()
    for group in groups:
        counts[group.backend, group.sec_groups] += group.count
    growing = {(group.backend, group.sec_groups) for group in groups if group.grows}
    for group in groups:
        if not (group.ports and group.count):
            continue
        for peers, count in counts.items():
            backend, names = peers
            others = count - (names == group.sec_groups)
            if backend == group.backend and others > 0 and (group.grows or peers in growing):
                yield group, names
