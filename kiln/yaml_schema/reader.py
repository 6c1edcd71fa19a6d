"""YAML reader: parses a file with PyYAML into values with positions."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from kiln.yaml_schema.ambiguous_scalars import resolved
from kiln.yaml_schema.mistake_list import Mistakes
from kiln.yaml_schema.nodes import Doubtful, Node, Pair, Scalar, Unread, described, joined, shown
from kiln.yaml_schema.syntax_errors import advice

#: Maximum size of a file, in bytes.
MAX_BYTES = 1024 * 1024
#: Maximum number of documents in a file.
MAX_DOCUMENTS = 1000
#: Maximum number of values in a file, with aliases expanded.
MAX_VALUES = 100_000
#: Maximum depth of nested values.
MAX_DEPTH = 24

_CORE = 'tag:yaml.org,2002:'
_TAGS: dict[str, tuple[type, ...]] = {
    f'{_CORE}null': (type(None),),
    f'{_CORE}bool': (bool,),
    f'{_CORE}int': (int,),
    f'{_CORE}float': (int, float),
    f'{_CORE}str': (str,),
    f'{_CORE}seq': (tuple,),
    f'{_CORE}map': (dict,),
}
_BETWEEN = (yaml.DocumentStartEvent, yaml.StreamEndEvent)
_TEXT = (f'{_CORE}str', '!')
# Begins a document anywhere, even after an unclosed quote.
_MARKER = re.compile(r'^---(?=\s|$)', re.MULTILINE)
_TOO_LARGE = re.compile(r'\\U(?!000|0010)[0-9a-fA-F]{8}')
_LINE_END = re.compile('[\n\x85\u2028\u2029]')


def documents(content: str | bytes, mistakes: Mistakes) -> Iterator[Node]:
    """Yield the readable documents of a file; record the mistakes of the others.

    Documents after a syntax error are still read.
    """
    text = _text(content, mistakes)
    if text is None:
        return
    budget = _Budget(MAX_VALUES)
    starts = [0, *(found.start() for found in _MARKER.finditer(text) if found.start())]
    first_line = 0
    for count, (start, end) in enumerate(zip(starts, [*starts[1:], len(text)], strict=True)):
        if count > MAX_DOCUMENTS:
            many = f'the file has more than {MAX_DOCUMENTS} documents; write several files'
            mistakes.add_at(first_line + 1, 1, many)
            return
        part = text[start:end]
        yield from _Part(part, first_line, budget, mistakes).documents()
        first_line += len(_LINE_END.findall(part))


def only_document(file: Path, mistakes: Mistakes, *, begin: str = '') -> Node | None:
    """Return the document of a file that has a single one; None if it cannot be read.

    ``begin`` is what the file begins with; without it, an empty file is not a mistake.
    """
    try:
        with file.open('rb') as opened:
            content = opened.read(MAX_BYTES + 1)
    except OSError as exc:
        mistakes.add_at(1, 1, f'it cannot be read: {exc.strerror}')
        return None
    found = list(documents(content, mistakes))
    if begin and not found and not mistakes.told:
        mistakes.add_at(1, 1, f'the file is empty; begin it with {begin}')
    for other in found[1:]:
        mistakes.add(other, f'{file.name} has a single document; remove this one')
    return found[0] if found else None


def _text(content: str | bytes, mistakes: Mistakes) -> str | None:
    if len(content) > MAX_BYTES:
        mistakes.add_at(1, 1, f'the file has more than {MAX_BYTES} bytes; write several files')
        return None
    if isinstance(content, str):
        text = content
    else:
        try:
            text = content.decode()
        except UnicodeDecodeError as exc:
            lines = content[: exc.start].decode().split('\n')
            mistakes.add_at(
                len(lines), len(lines[-1]) + 1, 'this byte is not UTF-8; save the file as UTF-8'
            )
            return None
    # Accept a byte order mark, and line ends of Windows and old Macs.
    return text.removeprefix('\ufeff').replace('\r\n', '\n').replace('\r', '\n')


class _Budget:
    def __init__(self, values: int) -> None:
        self.left = values


class _TooMuch(Exception):
    """A document is too large or too deep; carries the message."""

    def __init__(self, mark: tuple[int, int], message: str) -> None:
        super().__init__(message)
        self.mark = mark


class _Part:
    """A part of a file in which one document is expected."""

    def __init__(self, text: str, first_line: int, budget: _Budget, mistakes: Mistakes) -> None:
        self._text = text
        self._first_line = first_line
        self._budget = budget
        self._mistakes = mistakes
        self._anchors: dict[str, Node] = {}
        self._events: Iterator[yaml.Event] = iter(())

    def documents(self) -> Iterator[Node]:
        try:
            self._events = iter(yaml.parse(self._text, Loader=yaml.SafeLoader))
            root = None
            for event in self._events:
                # A syntax error after a document means that the document is invalid.
                if root is not None and isinstance(event, _BETWEEN):
                    yield root
                    root = None
                if isinstance(event, yaml.DocumentStartEvent):
                    self._anchors.clear()
                    node = self._node(next(self._events), '', 0)
                    root = None if node.value is None else node
        except _TooMuch as exc:
            self._mistakes.add_at(*exc.mark, str(exc))
        except yaml.MarkedYAMLError as exc:
            self._complain(exc)
        except yaml.reader.ReaderError as exc:
            letter = shown(self._text[exc.position])
            self._tell(exc.position, f'the character {letter} is not allowed in YAML; remove it')
        except (ValueError, OverflowError):
            # PyYAML does not catch the errors of int() and chr() for large numbers.
            found = _TOO_LARGE.search(self._text)
            self._tell(
                found.start() if found else 0, 'this escape is not a character; write another'
            )

    # ---- values -----------------------------------------------------------

    def _node(self, event: yaml.Event, path: str, depth: int) -> Node:
        line, column = self._mark(event)
        self._spend((line, column), depth)
        assert isinstance(event, yaml.NodeEvent)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, path, depth)
        value: Scalar | tuple[Node, ...] | dict[str, Pair]
        text = ''
        if isinstance(event, yaml.ScalarEvent):
            value, text = self._scalar(event), event.value
        elif isinstance(event, yaml.SequenceStartEvent):
            value = tuple(
                self._node(item, f'{path}[{index}]', depth + 1)
                for index, item in enumerate(self._until(yaml.SequenceEndEvent))
            )
        else:
            value = self._entries(path, depth)
        node = Node(value=value, path=path, line=line, column=column, text=text)
        node = self._tagged(event, node)
        if event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _until(self, end: type[yaml.Event]) -> Iterator[yaml.Event]:
        for event in self._events:
            if isinstance(event, end):
                return
            yield event

    def _entries(self, path: str, depth: int) -> dict[str, Pair]:
        entries: dict[str, Pair] = {}
        merged: list[Node] = []
        for event in self._until(yaml.MappingEndEvent):
            key = self._node(event, path, depth + 1)
            inner = joined(path, key.text)
            value = self._node(next(self._events), inner, depth + 1)
            if isinstance(event, yaml.ScalarEvent) and event.implicit[0] and key.text == '<<':
                merged += self._merged(value)
                continue
            key = dataclasses.replace(key, path=inner)
            if self._is_key(key, entries):
                entries[key.text] = Pair(key, value)
        for mapping in merged:
            assert isinstance(mapping.value, dict)
            for name, pair in mapping.value.items():
                if name not in entries:
                    inner = joined(path, name)
                    entries[name] = Pair(*(self._moved(one, inner, depth + 1) for one in pair))
        return entries

    def _is_key(self, key: Node, entries: Mapping[str, Pair]) -> bool:
        if isinstance(key.value, tuple | dict | Unread):
            if key.value is not Unread.UNREAD:
                self._mistakes.add(key, f'{described(key)}, where a key should be; write text')
            return False
        if not isinstance(key.value, str):
            self._mistakes.add(key, f'{described(key)}; a key is text: write it in quotes')
        if key.text in entries:
            line = entries[key.text].key.line
            self._mistakes.add(
                key, f'{shown(key.text)} is already set in line {line}; keep one of the two'
            )
            return False
        return True

    def _merged(self, value: Node) -> Iterator[Node]:
        for one in value.value if isinstance(value.value, tuple) else (value,):
            if isinstance(one.value, dict):
                yield one
            elif one.value is not Unread.UNREAD:
                self._mistakes.add(one, f'{described(one)}; write a mapping, such as <<: *name')

    def _scalar(self, event: yaml.ScalarEvent) -> Scalar:
        quoted = event.style is not None and event.tag is None
        return event.value if quoted or event.tag in _TEXT else resolved(event.value)

    def _tagged(self, event: yaml.NodeEvent, node: Node) -> Node:
        tag = getattr(event, 'tag', None)
        if tag is None or tag == '!':
            return node
        if tag not in _TAGS:
            self._mistakes.add(node, f'the tag {shown(tag)} is not supported; remove it')
        elif not isinstance(node.value, (*_TAGS[tag], Doubtful)):
            self._mistakes.add(
                node, f'{described(node)}, but its tag says otherwise; remove the tag'
            )
        else:
            return node
        return dataclasses.replace(node, value=Unread.UNREAD)

    # ---- aliases ----------------------------------------------------------

    def _alias(self, event: yaml.AliasEvent, path: str, depth: int) -> Node:
        line, column = self._mark(event)
        anchor = event.anchor or ''
        if anchor not in self._anchors:
            node = Node(value=Unread.UNREAD, path=path, line=line, column=column)
            self._mistakes.add(
                node,
                f'the anchor &{shown(anchor, quoted=False)} is not defined above; write text that '
                f'begins with * in quotes',
            )
            return node
        return self._moved(self._anchors[anchor], path, depth, (line, column))

    def _moved(
        self, node: Node, path: str, depth: int, mark: tuple[int, int] | None = None
    ) -> Node:
        """Return a copy of a value at another path, counted so that alias bombs are stopped."""
        mark = mark or (node.line, node.column)
        self._spend(mark, depth)
        value = node.value
        if isinstance(value, tuple):
            value = tuple(
                self._moved(item, f'{path}[{index}]', depth + 1, mark)
                for index, item in enumerate(value)
            )
        elif isinstance(value, dict):
            value = {
                name: Pair(
                    *(self._moved(one, joined(path, name), depth + 1, mark) for one in pair)
                )
                for name, pair in value.items()
            }
        return Node(value=value, path=path, line=node.line, column=node.column, text=node.text)

    def _spend(self, mark: tuple[int, int], depth: int) -> None:
        if depth > MAX_DEPTH:
            raise _TooMuch(mark, f'values are nested deeper than {MAX_DEPTH} levels; flatten them')
        self._budget.left -= 1
        if self._budget.left < 0:
            raise _TooMuch(
                mark,
                f'the file has more than {MAX_VALUES} values with aliases expanded; write fewer',
            )

    # ---- mistakes ---------------------------------------------------------

    def _mark(self, event: yaml.Event) -> tuple[int, int]:
        mark = event.start_mark
        assert mark is not None
        return self._first_line + mark.line + 1, mark.column + 1

    def _complain(self, exc: yaml.MarkedYAMLError) -> None:
        found = advice(exc, _LINE_END.split(self._text))
        self._mistakes.add_at(self._first_line + found.line + 1, found.column + 1, found.message)

    def _tell(self, position: int, message: str) -> None:
        lines = _LINE_END.split(self._text[:position])
        self._mistakes.add_at(self._first_line + len(lines), len(lines[-1]) + 1, message)
