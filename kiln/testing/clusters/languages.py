"""Languages of the files that nodes are given: whether a text is well formed, and its values."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any, NamedTuple

_BY_SUFFIX = {
    '.json': 'json', '.yaml': 'yaml', '.yml': 'yaml', '.py': 'python', '.sh': 'shell',
}  # fmt: skip
_SHELLS = frozenset({'sh', 'bash', 'dash', 'ash'})
#: Seconds in which a shell has read a file; it runs nothing of it.
_LONGEST_S = 60


class Malformed(Exception):
    """A text is not of its language; the message has the reason, and no value of the text."""


class Leaf(NamedTuple):
    """A part of a document, in the order of the document."""

    kind: str
    #: The text itself; empty for any other part.
    text: str = ''


def leaves_of(name: str, content: bytes) -> tuple[Leaf, ...]:
    """Return the parts of a document in JSON or YAML; none in another language.

    :raises Malformed: the content is not in the language that its first line or its name tell.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return ()  # compressed, or an archive
    match language_of(name, text):
        case 'json':
            return tuple(_of_json(text))
        case 'yaml':
            return tuple(_of_yaml(text))
        case 'shell':
            _read_by_shell(text)
        case 'python':
            _compiled(text)
    return ()


def language_of(name: str, text: str) -> str:
    """Return the language of a file by its first line, or else by its name; empty if unknown."""
    first = text.partition('\n')[0]
    if first.startswith('#!'):
        programs = {PurePath(word).name for word in first[2:].split()}
        if programs & _SHELLS:
            return 'shell'
        return 'python' if any(one.startswith('python') for one in programs) else ''
    if first.startswith('#cloud-config'):
        return 'yaml'
    return _BY_SUFFIX.get(PurePath(name).suffix, '')


def _of_json(text: str) -> Iterator[Leaf]:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as exc:
        raise Malformed(f'it is not JSON: line {exc.lineno}: {exc.msg}') from None
    yield from _parts_of(data)


def _parts_of(data: Any) -> Iterator[Leaf]:
    match data:
        case dict():
            yield Leaf(f'mapping of {len(data)}')
            for key, value in data.items():
                yield Leaf('str', key)
                yield from _parts_of(value)
        case list():
            yield Leaf(f'list of {len(data)}')
            for value in data:
                yield from _parts_of(value)
        case str():
            yield Leaf('str', data)
        case _:
            yield Leaf(type(data).__name__)


def _of_yaml(text: str) -> Iterator[Leaf]:
    import yaml

    try:
        documents = list(yaml.compose_all(text, yaml.SafeLoader))
    except yaml.YAMLError as exc:
        mark = getattr(exc, 'problem_mark', None)
        where = f'line {mark.line + 1}: ' if mark else ''
        raise Malformed(f'it is not YAML: {where}{getattr(exc, "problem", "")}') from None
    for document in documents:
        yield from _nodes_of(document)


def _nodes_of(node: Any) -> Iterator[Leaf]:
    kind = node.tag.rpartition(':')[2]
    if isinstance(node.value, str):
        yield Leaf(kind, node.value if kind == 'str' else '')
        return
    yield Leaf(f'{kind} of {len(node.value)}')
    for one in node.value:
        for part in one if isinstance(one, tuple) else (one,):
            yield from _nodes_of(part)


def _read_by_shell(text: str) -> None:
    done = subprocess.run(
        ['sh', '-n'],  # noqa: S607  # the one that the system has
        input=text, text=True, capture_output=True, check=False, timeout=_LONGEST_S,
        env={'PATH': os.defpath},
    )  # fmt: skip
    if done.returncode:
        said = done.stderr.strip().splitlines()[:1]
        raise Malformed(f'a shell cannot read it: {"".join(said)}')


def _compiled(text: str) -> None:
    try:
        compile(text, 'file', 'exec')
    except (SyntaxError, ValueError) as exc:
        raise Malformed(f'it is not Python: {getattr(exc, "msg", exc)}') from None
