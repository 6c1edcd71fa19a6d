"""Template language: text with placeholders for values, without conditions or loops.

``{{ name }}`` accepts a value that needs no quotes anywhere, such as a name or an
address, and refuses any other value. ``{{ name | json }}``, ``{{ name | shell }}`` and
``{{ name | base64 }}`` accept every value, and quote it. ``{{ "{{" }}`` gives two braces.
"""

from __future__ import annotations

import base64
import bisect
import difflib
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kiln.clusters.exceptions import ClusterDriverError, Problem

_PLACEHOLDER = re.compile(r'\{\{( *"\{\{" *|.*?)(?:\}\}|(?=\n|\{\{)|\Z)')
_EXPRESSION = re.compile(r' *(?:"(\{\{)"|([a-z]\w*(?:\.[a-z]\w*)*)(?: *\| *(\w+))?) *', re.ASCII)
# No character with a meaning in any language: no space, quote, comma or dollar; no
# colon at the end (a key in YAML), and no dash at the start (an option in a shell).
_HARMLESS = re.compile(r'(?:[A-Za-z0-9_./](?:[A-Za-z0-9_./:@+-]*[A-Za-z0-9_./@+-])?)?')
# Characters that YAML must escape, or reads as the end of a line.
_UNPRINTABLE = re.compile('[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]')


class Unfit(ValueError):
    """A value does not fit its place; the text has the reason, and never the value."""


class UrlHost(str):
    """Host for the text of an output; the brackets of an IPv6 address have no meaning there."""

    __slots__ = ()


class Placeholder(NamedTuple):
    """One placeholder in a template."""

    name: str
    filter: str
    start: int
    end: int


def plain(value: Any) -> str:
    """Return a value as text."""
    if isinstance(value, str):
        return value
    return '' if value is None else _dumped(value)


def as_it_is(value: Any) -> str:
    """Return a value as text, if it needs no quotes anywhere."""
    text = plain(value)
    bracketed = isinstance(value, UrlHost) and text[:1] + text[-1:] == '[]'
    bare = text[1:-1] if bracketed else text
    if not _HARMLESS.fullmatch(bare):
        raise Unfit('has characters that need quotes: use | json, | shell or | base64')
    return text


def as_json(value: Any) -> str:
    """Return a value as one line of JSON that is also YAML."""
    return _UNPRINTABLE.sub(lambda found: f'\\u{ord(found[0]):04x}', _dumped(value))


def _dumped(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=dict)
    except (TypeError, ValueError):
        raise Unfit('is not plain data') from None


def as_shell(value: Any) -> str:
    """Return a value as one shell word."""
    if b'\0' in _encoded(value):
        raise Unfit('has a character that no shell can take: use | base64')
    return shlex.quote(plain(value))


def as_base64(value: Any) -> str:
    """Return the bytes of a value in base64."""
    return base64.b64encode(_encoded(value)).decode()


def _encoded(value: Any) -> bytes:
    try:
        return plain(value).encode()
    except UnicodeEncodeError:
        raise Unfit('has half a character, which is not text') from None


FILTERS = {'': as_it_is, 'json': as_json, 'shell': as_shell, 'base64': as_base64}


class TextTemplate:
    """A text with placeholders; parsing never fails, see :attr:`mistakes`."""

    def __init__(self, text: str, *, file: str = '') -> None:
        self.text, self.file = text, file
        self.placeholders: list[Placeholder] = []
        #: The mistakes in the template, whatever the values are.
        self.mistakes: list[Problem] = []
        self._lines = [0, *(found.end() for found in re.finditer('\n', text))]
        for found in _PLACEHOLDER.finditer(text):
            expression = _EXPRESSION.fullmatch(found[1]) if found[0].endswith('}}') else None
            if expression is None:
                self.wrong(found.start(), 'this is neither {{ name }} nor {{ name | filter }}')
                continue
            _, name, quoting = expression.groups()
            if quoting and quoting not in FILTERS:
                self.wrong(found.start(), f'unknown filter {quoting!r}: use json, shell or base64')
            self.placeholders.append(
                Placeholder(name or '', quoting or '', found.start(), found.end())
            )
        #: The names of all values that it uses.
        self.names = frozenset(one.name for one in self.placeholders if one.name)

    def problem(self, offset: int, message: str) -> Problem:
        """Return a mistake at an offset of the text."""
        line = bisect.bisect_right(self._lines, offset)
        column = offset - self._lines[line - 1] + 1
        return Problem(message=message, file=self.file, line=line, column=column)

    def wrong(self, offset: int, message: str) -> None:
        """Record a mistake at an offset of the text."""
        self.mistakes.append(self.problem(offset, message))

    def unknown(self, known: frozenset[str]) -> Iterator[Problem]:
        """Yield a problem for each unknown name."""
        for one in self.placeholders:
            if one.name and one.name not in known:
                close = difflib.get_close_matches(one.name, known, n=1)
                hint = f'; did you mean {close[0]}?' if close else ''
                yield self.problem(one.start, f'nothing is called {one.name!r} here{hint}')

    def unfit(self, values: Mapping[str, Any]) -> Iterator[Problem]:
        """Yield a problem for each value that does not fit its place."""
        for one in self.placeholders:
            try:
                self._filled(one, values)
            except Unfit as exc:
                yield self.problem(one.start, f'{one.name} {exc}')

    def render(self, values: Mapping[str, Any]) -> str:
        """Return the text with the values filled in.

        :raises ClusterDriverError: a value does not fit its place.
        """
        parts, at = [], 0
        for one in self.placeholders:
            try:
                parts += [self.text[at : one.start], self._filled(one, values)]
            except Unfit as exc:
                raise ClusterDriverError(
                    f'Cannot fill in {self.problem(one.start, f"{one.name} {exc}")}.'
                ) from None
            at = one.end
        return ''.join([*parts, self.text[at:]])

    def _filled(self, one: Placeholder, values: Mapping[str, Any]) -> str:
        return FILTERS[one.filter](values[one.name]) if one.name else '{{'
