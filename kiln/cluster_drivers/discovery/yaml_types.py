"""Value types that only driver.yaml has."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from kiln.cluster_drivers.readiness import ReadyRule, WhenActive, WhenConsole, WhenHttp, WhenTcp
from kiln.cluster_drivers.records import ClusterType
from kiln.cluster_drivers.templates.mappings import Mapped
from kiln.yaml_schema.mapping_checks import Found
from kiln.yaml_schema.mistake_list import Mistakes
from kiln.yaml_schema.nodes import Doubtful, Node, described, plain, walk
from kiln.yaml_schema.value_checks import WRONG, Kind, Text, Whole, Wrong


class Number(Kind[float]):
    """A number, whole or not."""

    words = 'a number'

    def _read(self, node: Node, mistakes: Mistakes) -> float | Wrong:
        number = node.value
        if isinstance(number, bool) or not isinstance(number, int | float):
            return self._refuse(node, mistakes)
        return number

    def schema(self) -> dict[str, Any]:
        return {'type': 'number'}


class Value(Kind[Any]):
    """Any JSON value."""

    words = 'a value'

    def _read(self, node: Node, mistakes: Mistakes) -> Any:
        for one in walk(node):
            if isinstance(one.value, Doubtful):
                mistakes.add(one, f'{described(one)}; write it in quotes if text is meant')
        return plain(node)

    def schema(self) -> dict[str, Any]:
        return {}


class Mode(Kind[int]):
    """Permissions of a file, octal with or without quotes."""

    words = "permissions as for chmod, such as '0644'"
    _pattern = '0?[0-7]{3,4}'

    def _read(self, node: Node, mistakes: Mistakes) -> int | Wrong:
        if isinstance(node.value, tuple | Mapping) or not re.fullmatch(self._pattern, node.text):
            return self._refuse(node, mistakes)
        return int(node.text, 8)

    def write(self, value: int) -> str:
        return f'{value:04o}'

    def schema(self) -> dict[str, Any]:
        # YAML parsers differ in how they read a bare 0644.
        return {'type': ['string', 'integer'], 'pattern': f'^{self._pattern}$'}


class TypeOfCluster(Kind[ClusterType]):
    """A cluster type, as a list of three words or under their names."""

    words = f'{{{", ".join(f"{name}: ..." for name in ClusterType._fields)}}}'
    _word = Text('a word, or * in quotes for any')

    def _read(self, node: Node, mistakes: Mistakes) -> ClusterType | Wrong:
        fields = ClusterType._fields
        words = node.value if isinstance(node.value, tuple) else ()
        if set(node.entries) == set(fields):
            words = tuple(node.entries[name].value for name in fields)
        if len(words) != len(fields):
            return self._refuse(node, mistakes)
        read = [self._word.read(word, mistakes) for word in words]
        right = [word for word in read if isinstance(word, str)]
        return ClusterType.of(*right) if len(right) == len(fields) else WRONG

    def schema(self) -> dict[str, Any]:
        fields, word = ClusterType._fields, self._word.schema()
        return {
            'anyOf': [
                {'type': 'array', 'items': word, 'minItems': 3, 'maxItems': 3},
                {
                    'type': 'object',
                    'properties': dict.fromkeys(fields, word),
                    'required': list(fields),
                    'additionalProperties': False,
                },
            ]
        }


M = TypeVar('M', bound=Mapped)


class Named(Kind[Mapping[str, M]], Generic[M]):
    """Named values; each value receives its name."""

    def __init__(self, item: Kind[M], of: type[M], key: str, words: str) -> None:
        self._item, self._of, self._key, self.words = item, of, key, words

    def _read(self, node: Node, mistakes: Mistakes) -> Mapping[str, M] | Wrong:
        if not isinstance(node.value, Mapping):
            return self._refuse(node, mistakes)
        found = {}
        for name, pair in node.entries.items():
            # With nothing set but the name, only the name can be wrong.
            for _, message in self._of(**{self._key: name}).contradictions():
                mistakes.add(pair.key, message)
            value = self._item.read(pair.value, mistakes)
            if not isinstance(value, Wrong):
                found[name] = dataclasses.replace(value, **{self._key: name})  # type: ignore[type-var]
        return MappingProxyType(found)

    def write(self, value: Mapping[str, M]) -> dict[str, Any]:
        return {name: self._item.write(one) for name, one in value.items()}

    def schema(self) -> dict[str, Any]:
        return {'type': 'object', 'additionalProperties': self._item.schema()}


def settled(of: type[Mapped], **written: str) -> Callable[[Found], None]:
    """Return a check that reports contradictions between valid values of a mapping.

    :param written: Attributes with a different name in the file.
    """
    attributes = {name: attribute for attribute, name in written.items()}

    def settle(found: Found) -> None:
        # Everything else depends on the type, so check nothing while the type is wrong.
        if found.given('type') and 'type' not in found.values:
            return
        values = {attributes.get(name, name): value for name, value in found.values.items()}
        for field, message in of(**values).contradictions():
            # A wrong name is reported where the name is, which is outside the mapping.
            if field in values:
                found.mistakes.add(found.at(written.get(field, field)), message)

    return settle


class Ready(Kind[ReadyRule]):
    """Readiness rule of a node."""

    words = 'active, {console: PATTERN}, {tcp: PORT} or {http: PORT, path: /PATH}'
    _port = Whole(1, 65_535)
    _path = Text('a path that begins with /', pattern=r'/\S*')
    _pattern = Text('a regular expression', longest=1000)

    def _read(self, node: Node, mistakes: Mistakes) -> ReadyRule | Wrong:
        if node.value == 'active':
            return WhenActive()
        parts = {name: pair.value for name, pair in node.entries.items()}
        match sorted(parts):
            case ['console']:
                return self._console(parts['console'], mistakes)
            case ['tcp']:
                port = self._port.read(parts['tcp'], mistakes)
                return WRONG if isinstance(port, Wrong) else WhenTcp(port)
            case ['http'] | ['http', 'path']:
                port = self._port.read(parts['http'], mistakes)
                path = self._path.read(parts['path'], mistakes) if 'path' in parts else '/'
                if isinstance(port, Wrong) or isinstance(path, Wrong):
                    return WRONG
                return WhenHttp(port, path)
        return self._refuse(node, mistakes)

    def _console(self, node: Node, mistakes: Mistakes) -> ReadyRule | Wrong:
        pattern = self._pattern.read(node, mistakes)
        if isinstance(pattern, Wrong):
            return WRONG
        try:
            return WhenConsole(re.compile(pattern))
        except (re.error, OverflowError, RecursionError) as exc:
            mistakes.add(node, f'this is not a regular expression: {exc}')
            return WRONG

    def write(self, value: ReadyRule) -> Any:
        match value:
            case WhenConsole():
                return {'console': value.pattern.pattern}
            case WhenTcp():
                return {'tcp': value.port}
            case WhenHttp():
                return {'http': value.port, 'path': value.path}
        return 'active'

    def schema(self) -> dict[str, Any]:
        port = self._port.schema()
        rules = (
            ({'console': self._pattern.schema()}, ['console']),
            ({'tcp': port}, ['tcp']),
            ({'http': port, 'path': self._path.schema()}, ['http']),
        )
        return {
            'anyOf': [
                {'const': 'active'},
                *(
                    {
                        'type': 'object',
                        'properties': properties,
                        'required': required,
                        'additionalProperties': False,
                    }
                    for properties, required in rules
                ),
            ]
        }
