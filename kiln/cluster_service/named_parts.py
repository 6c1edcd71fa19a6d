"""Nodes and groups of a cluster, by the words of a request; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kiln.clusters.exceptions import ClusterError, ClusterNotFound
from kiln.clusters.models import Cluster, Node
from kiln.clusters.spec import NodeGroupSpec


def named_nodes(cluster: Cluster, nodes: Sequence[Node], words: Iterable[str]) -> list[Node]:
    """Return the nodes with the given names or ids, each once; ids are tried first."""
    by_word = {node.name: node for node in nodes} | {node.id: node for node in nodes}
    asked = list(words)
    if unknown := [word for word in asked if word not in by_word]:
        raise ClusterNotFound(f'Cluster {cluster.name!r} has no node {", ".join(unknown)}.')
    return list({by_word[word].id: by_word[word] for word in asked}.values())


def group_of(cluster: Cluster, name: str | None, removed: Sequence[Node]) -> NodeGroupSpec:
    """Return the requested group: the named one, or that of the nodes."""
    names = {node.group for node in removed} | ({name} if name else set())
    if not names and len(cluster.spec.groups) == 1:
        return cluster.spec.groups[0]
    if len(names) != 1:
        groups = ', '.join(sorted(names)) or ', '.join(one.name for one in cluster.spec.groups)
        raise ClusterError(
            f'Cannot resize cluster {cluster.name!r}: the group is not clear. Name one of '
            f'{groups}, and only nodes of that group.'
        )
    return group_named(cluster, names.pop())


def group_named(cluster: Cluster, name: str) -> NodeGroupSpec:
    """Return the group of a name.

    :raises ClusterNotFound: the cluster does not have it.
    """
    found = cluster.spec.group(name)
    if found is None:
        groups = ', '.join(one.name for one in cluster.spec.groups)
        raise ClusterNotFound(f'Cluster {cluster.name!r} has no group {name!r}; it has {groups}.')
    return found
