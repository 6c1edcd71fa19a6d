"""From clusters and templates to the text that a person would write."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from kiln.cluster_file.fields import CLUSTER, TEMPLATE
from kiln.cluster_file.scalars import resolved
from kiln.cluster_spec import ClusterSpec, ClusterTemplate

#: ``None`` is one line for what holds nothing but scalars.
_LAYOUT: Mapping[str, Any] = {
    'default_flow_style': None,
    'sort_keys': False,
    'allow_unicode': True,
    'width': 95,
}

#: Lines that are the same below a key: the first begins with a letter, the last has its end.
_LINES = re.compile(r'[!-~][ -~]*\n(?:[ -~]*\n)*')


def dump(*values: ClusterSpec | ClusterTemplate) -> str:
    """Return a file that declares these; reading it gives the same values.

    What is as it would be anyway is left out.
    """
    written = (
        CLUSTER.write(one) if isinstance(one, ClusterSpec) else TEMPLATE.write(one)
        for one in values
    )
    return '---\n'.join(yaml.dump(one, Dumper=_Dumper, **_LAYOUT) for one in written)


class _Dumper(yaml.SafeDumper):
    """Writes small collections in one line, and in quotes what is doubtful without."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        # Items of a list stand further in than its key.
        super().increase_indent(flow, False)

    def represent_mapping(
        self, tag: Any, mapping: Any, flow_style: Any = None
    ) -> yaml.MappingNode:
        # A mapping with a name is one of the file's large ones.
        large = {'cluster', 'template', 'name'} & set(mapping)
        return super().represent_mapping(tag, mapping, False if large else None)

    def text(self, text: str) -> yaml.ScalarNode:
        style = None if isinstance(resolved(text), str) else "'"
        if _LINES.fullmatch(text):
            style = '|'
        elif not text.isprintable():
            # Some characters end a line for YAML; between these quotes they are escapes.
            style = '"'
        return self.represent_scalar('tag:yaml.org,2002:str', text, style)


_Dumper.add_representer(str, _Dumper.text)
