"""Templates of a stack with which Heat leaves alone what the stack has made; pure."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import yaml

from kiln.clusters.exceptions import ClusterDriverError
from kiln.openstack.heat.requests import part
from kiln.openstack.heat.rows import climb, linked, parents_of, path_of, text_of

#: Every version of HOT has the word with this capital letter.
RETAIN = 'Retain'
_POLICY = 'deletion_policy'

Template = Mapping[str, Any]


def retained(
    template: Template, files: Mapping[str, str], environment: Mapping[str, Any]
) -> tuple[Template, Mapping[str, str]]:
    """Return the template of a stack, and those of its nested stacks, with nothing to delete.

    A nested stack itself is deleted with what it consists of, so that Heat forgets it, too.

    :raises ClusterDriverError: it is not a HOT template.
    """
    registry = part(environment, 'resource_registry')
    nested = {name: name for name in files}
    nested |= {name: file for name, file in registry.items() if text_of(file) in files}
    changed: dict[str, str] = {}
    left = [template]
    whole = _without_deletion(template, nested)
    while left:
        for file in _nested_in(left.pop(), nested):
            if file not in changed:
                inner = _read(file, files[file])
                left.append(inner)
                changed[file] = json.dumps(_without_deletion(inner, nested))
    return whole, changed


def same(
    template: Template,
    files: Mapping[str, str],
    other: Template,
    other_files: Mapping[str, str],
) -> bool:
    """Return whether a template, with the files that are changed for another, is that one."""
    return template == other and all(
        _read(name, files[name]) == _read(name, text) for name, text in other_files.items()
    )


def loose(
    resources: Iterable[Mapping[str, Any]], template_of: Callable[[str, str], Template]
) -> Sequence[str]:
    """Return the paths of the resources that Heat would delete with their stack.

    :param resources: those of the stack and of its nested ones, as Heat lists them.
    :param template_of: the template of the stack of a name and an id.
    """
    found = list(resources)
    parents = parents_of(found)
    templates: dict[str, Template] = {}

    def kept(one: Mapping[str, Any]) -> bool:
        name, id_ = linked(one, 'stack')
        if id_ not in templates:
            templates[id_] = template_of(name, id_)
        declared = part(part(templates[id_], 'resources'), text_of(one.get('resource_name')))
        return text_of(declared.get(_POLICY)).lower() == RETAIN.lower()

    paths = []
    for one in found:
        # A nested stack consists of its resources, each of which is judged.
        if not linked(one, 'nested')[1] and not any(map(kept, climb(one, parents))):
            paths.append('.'.join(path_of(one, parents)))
    return sorted(paths)


def _without_deletion(template: Template, nested: Mapping[str, Any]) -> Template:
    found = copy.deepcopy(dict(template))
    if not isinstance(found.get('resources'), dict):
        raise ClusterDriverError('The template of the stack is not HOT: it has no resources.')
    for one in found['resources'].values():
        if isinstance(one, dict) and not [*_types(one, nested)]:
            one[_POLICY] = RETAIN
    return found


def _nested_in(template: Template, nested: Mapping[str, str]) -> Iterator[str]:
    for one in part(template, 'resources').values():
        yield from (nested[name] for name in _types(one, nested))


def _types(value: Any, nested: Mapping[str, Any]) -> Iterator[str]:
    """Yield the types in a resource, such as that of the members of a group, that are nested."""
    if isinstance(value, Mapping):
        if (name := value.get('type')) in nested:
            yield str(name)
        for inner in value.values():
            yield from _types(inner, nested)
    elif isinstance(value, list):
        for inner in value:
            yield from _types(inner, nested)


class _Loader(yaml.SafeLoader):
    """Reads YAML as Heat does: what looks like a date is text."""


_Loader.yaml_implicit_resolvers = {
    first: [one for one in found if one[0] != 'tag:yaml.org,2002:timestamp']
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _read(file: str, text: str) -> Template:
    try:
        found = _Loader(text).get_single_data()
    except (yaml.YAMLError, ValueError, RecursionError) as exc:
        raise ClusterDriverError(f'File {file} of the stack is not YAML.') from exc
    return found if isinstance(found, Mapping) else {}
