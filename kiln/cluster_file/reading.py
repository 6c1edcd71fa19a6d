"""Cluster file reader: returns clusters and templates, or all mistakes at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType

from kiln.cluster_file.fields import CLUSTER, TEMPLATE
from kiln.clusters.exceptions import Problem
from kiln.clusters.spec import ClusterSpec, ClusterTemplate
from kiln.yaml_schema.mistake_list import Mistakes, close_to
from kiln.yaml_schema.nodes import Node, described, walk
from kiln.yaml_schema.reader import documents
from kiln.yaml_schema.value_checks import WRONG, Wrong


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """One document of a file, with the positions of its values."""

    value: ClusterSpec | ClusterTemplate
    file: str = ''
    #: Line and column by path, such as ``nodegroups[1].zones``; '' is the document.
    places: Mapping[str, tuple[int, int]]

    def located(self, problem: Problem) -> Problem:
        """Return a problem with the file, line and column of the value at its path.

        If the value is not in the file, the position of its parent is used.
        """
        path = problem.path
        while path not in self.places:
            path = path[: max(path.rfind('.'), path.rfind('['), 0)]
        line, column = self.places[path]
        return dataclasses.replace(problem, file=self.file, line=line, column=column)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ClusterFile:
    """The documents of a file, in order."""

    documents: tuple[Document, ...]

    @property
    def clusters(self) -> tuple[ClusterSpec, ...]:
        """Clusters of the file."""
        return tuple(one.value for one in self.documents if isinstance(one.value, ClusterSpec))

    @property
    def templates(self) -> tuple[ClusterTemplate, ...]:
        """Templates of the file."""
        return tuple(one.value for one in self.documents if isinstance(one.value, ClusterTemplate))


def read(content: str | bytes, file: str = '') -> ClusterFile:
    """Return the content of a file; ``file`` is its name in messages.

    Does no I/O. Callers should read at most one byte more than ``yaml_reader.MAX_BYTES``
    of a file.

    :raises InvalidCluster: contains a problem for each mistake, in the order of lines.
    """
    mistakes = Mistakes(file)
    found: list[Document] = []
    seen: dict[tuple[type, str], Node] = {}
    for root in documents(content, mistakes):
        value = _value(root, mistakes)
        if isinstance(value, Wrong):
            continue
        first = seen.setdefault((type(value), value.name), root)
        if first is not root:
            key = 'cluster' if isinstance(value, ClusterSpec) else 'template'
            mistakes.add(
                root.entries[key].value,
                f'{key} {value.name!r} is already declared in line {first.line}; write '
                f'another name',
            )
        places = MappingProxyType({one.path: (one.line, one.column) for one in walk(root)})
        found.append(Document(value=value, file=file, places=places))
    if not found and not mistakes.told:
        mistakes.add_at(1, 1, 'the file is empty; begin it with cluster: NAME')
    read_file = ClusterFile(documents=tuple(found))
    _check_groups(read_file, mistakes)
    mistakes.raise_any()
    return read_file


def _value(root: Node, mistakes: Mistakes) -> ClusterSpec | ClusterTemplate | Wrong:
    if not isinstance(root.value, Mapping):
        mistakes.add(root, f'{described(root)}; begin with cluster: NAME or template: NAME')
        return WRONG
    if 'template' in root.entries and not any(map(_means_cluster, root.entries)):
        return TEMPLATE.read(root, mistakes)
    return CLUSTER.read(root, mistakes)


def _means_cluster(key: str) -> bool:
    # A cluster with a misspelt key "cluster" and a template is still a cluster.
    return key in CLUSTER.fields['cluster'].also or close_to(key, ('cluster',)) is not None


def _check_groups(file: ClusterFile, mistakes: Mistakes) -> None:
    """Record clusters without groups whose template in the file has no groups either."""
    templates = {template.name: template for template in file.templates}
    for document in file.documents:
        cluster = document.value
        if isinstance(cluster, ClusterSpec) and not cluster.groups:
            template = templates.get(cluster.template or '')
            if template is not None and not template.groups:
                line, column = document.places['template']
                mistakes.add_at(
                    line,
                    column,
                    f'neither the cluster nor template {template.name!r} has nodes; write '
                    f'nodegroups in one of them',
                    path='template',
                )
