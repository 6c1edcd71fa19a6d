"""Check of clusters that do not come from a file, by the rules of files."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from kiln.cluster_file.fields import CLUSTER
from kiln.clusters.exceptions import InvalidCluster
from kiln.clusters.spec import ClusterSpec
from kiln.yaml_schema.mistake_list import Mistakes
from kiln.yaml_schema.nodes import Node, Pair, joined


def check(spec: ClusterSpec) -> None:
    """Return if a file could declare a cluster.

    :raises InvalidCluster: none could, with a problem for each mistake.
    """
    mistakes = Mistakes()
    CLUSTER.read(_node(CLUSTER.write(spec), '', itertools.count(1)), mistakes)
    try:
        mistakes.raise_any()
    except InvalidCluster as exc:
        # No file has these lines.
        problems = [dataclasses.replace(one, line=0, column=0) for one in exc.problems]
        raise InvalidCluster(problems) from None


def _node(value: Any, path: str, lines: Iterator[int]) -> Node:
    """Return plain data as the tree that a reader of files makes, each value on its line."""
    line = next(lines)
    if isinstance(value, Mapping):
        value = {
            name: Pair(
                _node(name, joined(path, name), lines), _node(one, joined(path, name), lines)
            )
            for name, one in value.items()
        }
    elif isinstance(value, list | tuple):
        value = tuple(_node(one, f'{path}[{n}]', lines) for n, one in enumerate(value))
    text = '' if isinstance(value, Mapping | tuple) else str(value)
    return Node(value=value, path=path, line=line, column=1, text=text)
