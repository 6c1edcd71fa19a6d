"""HOT templates and the files that they name, resolved inside one folder; pure."""

from __future__ import annotations

import dataclasses
import json
import posixpath
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kiln.clusters.exceptions import Problem
from kiln.yaml_schema.mistake_list import Mistakes
from kiln.yaml_schema.nodes import Doubtful, Node, described, plain, walk
from kiln.yaml_schema.reader import documents

#: The largest template that Heat takes by default, in bytes; files count, too.
MOST_BYTES = 512 * 1024
#: Heat refuses more nested stacks.
DEEPEST = 5

_NESTED = ('.yaml', '.yml', '.template')
_VERSION = 'heat_template_version'

#: Returns the content of a file of the folder by its relative name.
#: :raises OSError: the file does not exist.
#: :raises ValueError: it cannot be used; the text says why.
Read = Callable[[str], bytes]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class HotParameter:
    """A parameter that a template declares."""

    name: str
    type: str
    #: True if Heat has a value for it without being given one.
    optional: bool
    hidden: bool
    line: int
    column: int


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Bundle:
    """A template and its files, by names relative to the folder; the same in any place."""

    file: str = ''
    template: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    parameters: Mapping[str, HotParameter] = dataclasses.field(default_factory=dict)
    outputs: frozenset[str] = frozenset()


def bundle_of(name: str, read: Read, folder: str) -> tuple[Bundle, tuple[Problem, ...]]:
    """Return a template of a folder with all files that it names, and all mistakes in them."""
    resolver = _Resolver(read, folder)
    node = resolver.template(name, ())
    if node is None:
        return Bundle(file=resolver.path(name)), tuple(resolver.problems)
    template = resolver.rewritten(node, name, (name,), inside='')
    found = Bundle(
        file=resolver.path(name),
        template=template,
        files=dict(sorted(resolver.files.items())),
        parameters={one.name: one for one in _parameters(node)},
        outputs=frozenset(_section(node, 'outputs')),
    )
    size = len(json.dumps(template)) + sum(map(len, found.files.values()))
    if size > MOST_BYTES:
        message = f'template and files have {size} bytes; Heat takes {MOST_BYTES} by default'
        resolver.problems.append(Problem(message=message, file=found.file, line=1, column=1))
    return found, tuple(resolver.problems)


def _section(node: Node, name: str) -> Mapping[str, Any]:
    pair = node.entries.get(name)
    return pair.value.entries if pair else {}


def _parameters(node: Node) -> Iterator[HotParameter]:
    for name, (key, value) in _section(node, 'parameters').items():
        entries = value.entries
        declared = entries['type'].value.value if 'type' in entries else ''
        yield HotParameter(
            name=name,
            type=declared if isinstance(declared, str) else '',
            optional='default' in entries,
            hidden='hidden' in entries and entries['hidden'].value.value is True,
            line=key.line,
            column=key.column,
        )


class _Resolver:
    """Reads templates and files, and writes relative names in place of theirs."""

    def __init__(self, read: Read, folder: str) -> None:
        self._read = read
        self._folder = folder
        self.files: dict[str, str] = {}
        #: The parameters of each template that was read.
        self._parameters: dict[str, dict[str, HotParameter]] = {}
        self.problems: list[Problem] = []

    def path(self, name: str) -> str:
        return f'{self._folder}/{name}'

    def template(self, name: str, around: tuple[str, ...], by: Node | None = None) -> Node | None:
        """Return the document of a template; None if it is not one, which is a mistake.

        ``by`` is the value that names it, and where a missing file is a mistake.
        """
        content = self._content(name, by, around)
        if content is None:
            return None
        mistakes = Mistakes(self.path(name))
        found = list(documents(content, mistakes))
        for node in found:
            for one in walk(node):
                if isinstance(one.value, Doubtful):
                    mistakes.add(one, f'{described(one)}; write it in quotes, or true or false')
        if not mistakes.told:
            if len(found) != 1 or not found[0].entries:
                mistakes.add_at(1, 1, 'it is not a template: one mapping of keys to values')
            elif _VERSION not in found[0].entries:
                mistakes.add(found[0], f'it has no {_VERSION}; begin it with one')
        self.problems += mistakes.problems()
        if mistakes.told:
            return None
        self._parameters[name] = {one.name: one for one in _parameters(found[0])}
        return found[0]

    def rewritten(self, node: Node, name: str, around: tuple[str, ...], inside: str) -> Any:
        """Return a value of a template as plain data, with relative names of files."""
        if isinstance(node.value, tuple):
            return [self.rewritten(one, name, around, inside) for one in node.value]
        if not node.entries:
            return plain(node)
        found = {
            key: self._entry(key, pair.value, name, around, inside or key)
            for key, pair in node.entries.items()
        }
        if inside == 'resources' and isinstance(found.get('type'), str):
            self._check_hidden(node, name, self._parameters.get(found['type'], {}))
        return found

    def _check_hidden(self, node: Node, name: str, inner: Mapping[str, HotParameter]) -> None:
        """Report each parameter of a nested template that would show a hidden one."""
        known = self._parameters[name]
        for key, value in _section(node, 'properties').values():
            source = value.entries['get_param'].value.value if 'get_param' in value.entries else ''
            outer = known.get(source) if isinstance(source, str) else None
            there = inner.get(key.text)
            if outer is not None and outer.hidden and there is not None and not there.hidden:
                message = f'parameter {key.text!r} of the nested template gets a secret: set '
                self._wrong(key, name, f'{message}hidden: true there')

    def _entry(self, key: str, node: Node, name: str, around: tuple[str, ...], inside: str) -> Any:
        value = node.value
        if isinstance(value, str) and inside != 'parameters':
            if key == 'get_file':
                return self._file(value, node, name, around)
            if key == 'type' and inside == 'resources' and value.endswith(_NESTED):
                return self._nested(value, node, name, around)
        return self.rewritten(node, name, around, inside)

    def _file(self, value: str, node: Node, name: str, around: tuple[str, ...]) -> str:
        where = self._inside(value, node, name)
        if where and where not in self.files:
            content = self._content(where, node, around)
            if content is not None:
                try:
                    self.files[where] = content.decode()
                except UnicodeDecodeError:
                    self._wrong(node, name, f'file {value!r} is not UTF-8 text')
        return where or value

    def _nested(self, value: str, node: Node, name: str, around: tuple[str, ...]) -> str:
        where = self._inside(value, node, name)
        if not where:
            return value
        if where in around:
            self._wrong(node, name, f'template {value!r} contains itself')
        elif len(around) > DEEPEST:
            self._wrong(node, name, f'Heat takes {DEEPEST} levels of nested templates at most')
        elif where not in self.files:
            inner = self.template(where, around, node)
            if inner is not None:
                data = self.rewritten(inner, where, (*around, where), inside='')
                self.files[where] = json.dumps(data, sort_keys=True)
        return where

    def _inside(self, value: str, node: Node, name: str) -> str:
        """Return the name of a file relative to the folder; empty if it leads elsewhere."""
        where = posixpath.normpath(posixpath.join(posixpath.dirname(name), value))
        if '://' in value or posixpath.isabs(value) or where.split('/')[0] == '..':
            message = f'{value!r} is not in the folder of the templates; put the file there'
            self._wrong(node, name, message)
            return ''
        return where

    def _content(self, where: str, node: Node | None, around: tuple[str, ...]) -> bytes | None:
        try:
            return self._read(where)
        except OSError as exc:
            why = f'cannot be read: {exc.strerror}'
        except ValueError as exc:
            why = str(exc)
        at = around[-1] if around and node else where
        self._wrong(node, at, f'file {where!r} {why}')
        return None

    def _wrong(self, node: Node | None, name: str, message: str) -> None:
        line, column = (node.line, node.column) if node else (1, 1)
        self.problems.append(
            Problem(message=message, file=self.path(name), line=line, column=column)
        )
