"""From the text of a file to clusters and templates, or to every mistake in it at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from kiln.cluster_exceptions import Problem
from kiln.cluster_file.fields import CLUSTER, TEMPLATE
from kiln.cluster_file.kinds import WRONG, Wrong
from kiln.cluster_file.mistakes import Mistakes, close_to
from kiln.cluster_file.tree import Node, described
from kiln.cluster_file.yaml_reader import documents
from kiln.cluster_spec import ClusterSpec, ClusterTemplate


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """One document of a file, and where each of its values is."""

    value: ClusterSpec | ClusterTemplate
    file: str = ''
    #: Line and column by path: ``nodegroups[1].zones``; the document itself is ''.
    places: Mapping[str, tuple[int, int]]

    def located(self, problem: Problem) -> Problem:
        """Return a problem with the file, line and column of the value its path names.

        Where the value is not written, that of what it would be in.
        """
        path = problem.path
        while path not in self.places:
            path = path[: max(path.rfind('.'), path.rfind('['), 0)]
        line, column = self.places[path]
        return dataclasses.replace(problem, file=self.file, line=line, column=column)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ClusterFile:
    """What a file declares, in its order."""

    documents: tuple[Document, ...]

    @property
    def clusters(self) -> tuple[ClusterSpec, ...]:
        """The clusters."""
        return tuple(one.value for one in self.documents if isinstance(one.value, ClusterSpec))

    @property
    def templates(self) -> tuple[ClusterTemplate, ...]:
        """The templates."""
        return tuple(one.value for one in self.documents if isinstance(one.value, ClusterTemplate))


def read(content: str | bytes, file: str = '') -> ClusterFile:
    """Return what a file declares; ``file`` is its name in messages.

    Pure: nothing is opened, asked or changed. Read one byte more than
    ``yaml_reader.MAX_BYTES`` of a file, and no more.

    :raises InvalidCluster: with a problem for each mistake, in the order of the lines.
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
                f'{key} {value.name!r} is there already, in line {first.line}; write another name',
            )
        places = MappingProxyType(dict(_places(root)))
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
    # A template that a misspelt cluster asks for does not make it a template.
    return key in CLUSTER.fields['cluster'].also or close_to(key, ('cluster',)) is not None


def _check_groups(file: ClusterFile, mistakes: Mistakes) -> None:
    """Tell of clusters whose template is in the file, and neither has groups."""
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
                    f'the cluster has no nodes, and template {template.name!r} has none for it; '
                    f'write nodegroups in one of them',
                    path='template',
                )


def _places(node: Node) -> Iterator[tuple[str, tuple[int, int]]]:
    yield node.path, (node.line, node.column)
    if isinstance(node.value, tuple):
        for item in node.value:
            yield from _places(item)
    for pair in node.entries.values():
        yield from _places(pair.value)
