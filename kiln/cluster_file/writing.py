"""Cluster file writer: YAML text of clusters and templates."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from kiln.cluster_file.fields import CLUSTER, TEMPLATE
from kiln.clusters.spec import ClusterSpec, ClusterTemplate
from kiln.yaml_schema.ambiguous_scalars import resolved

#: A ``default_flow_style`` of None writes collections of scalars on one line.
_LAYOUT: Mapping[str, Any] = {
    'default_flow_style': None,
    'sort_keys': False,
    'allow_unicode': True,
    'width': 95,
}

#: Texts that can be written as a block below a key.
_LINES = re.compile(r'[!-~][ -~]*\n(?:[ -~]*\n)*')


def dump(*values: ClusterSpec | ClusterTemplate) -> str:
    """Return a file that declares the values; reading it returns the same values.

    Defaults are left out.
    """
    written = (
        CLUSTER.write(one) if isinstance(one, ClusterSpec) else TEMPLATE.write(one)
        for one in values
    )
    return '---\n'.join(yaml.dump(one, Dumper=_Dumper, **_LAYOUT) for one in written)


class _Dumper(yaml.SafeDumper):
    """Writes small collections on one line, and quotes ambiguous scalars."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        # Indent the items of a list below its key.
        super().increase_indent(flow, False)

    def represent_mapping(
        self, tag: Any, mapping: Any, flow_style: Any = None
    ) -> yaml.MappingNode:
        # Mappings with a name are large, so they are written on several lines.
        large = {'cluster', 'template', 'name'} & set(mapping)
        return super().represent_mapping(tag, mapping, False if large else None)

    def text(self, text: str) -> yaml.ScalarNode:
        style = None if isinstance(resolved(text), str) else "'"
        if _LINES.fullmatch(text):
            style = '|'
        elif not text.isprintable():
            # YAML treats some characters as line ends; in double quotes they are escaped.
            style = '"'
        return self.represent_scalar('tag:yaml.org,2002:str', text, style)


_Dumper.add_representer(str, _Dumper.text)
