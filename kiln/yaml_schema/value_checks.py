"""Checks of single values: reader, messages about wrong ones, writer, JSON schema."""

from __future__ import annotations

import abc
import enum
import re
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from kiln.clusters.spec import Portion
from kiln.yaml_schema.mistake_list import Mistakes, close_to
from kiln.yaml_schema.nodes import Doubtful, Node, Unread, described, shown

T = TypeVar('T')
E = TypeVar('E', bound=enum.StrEnum)


class Wrong(enum.Enum):
    """Placeholder for an invalid value whose mistake has been recorded."""

    WRONG = enum.auto()


WRONG = Wrong.WRONG


class Kind(abc.ABC, Generic[T]):
    """A kind of value, with its reader, writer and schema."""

    #: What to write, for messages: 'a whole number from 1 to 5'.
    words: str

    def read(self, node: Node, mistakes: Mistakes) -> T | Wrong:
        """Return the value of a node, or record its mistakes and return ``WRONG``."""
        if isinstance(node.value, Unread):
            mistakes.told += 1
            return WRONG
        before = mistakes.told
        value = self._read(node, mistakes)
        return WRONG if mistakes.told > before else value

    @abc.abstractmethod
    def _read(self, node: Node, mistakes: Mistakes) -> T | Wrong:
        """Return the value, or record mistakes; the result is ignored then."""

    def write(self, value: T) -> Any:
        """Return the plain data of a value."""
        return value

    @abc.abstractmethod
    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the kind."""

    def _refuse(self, node: Node, mistakes: Mistakes, hint: str = '') -> Wrong:
        mistakes.add(node, f'{described(node)}; write {self.words}{hint}')
        return WRONG


class Text(Kind[str]):
    """Text on one line."""

    def __init__(
        self,
        words: str = 'text',
        *,
        longest: int = 255,
        pattern: str = '',
        wrong: Callable[[str], str] = lambda text: '',
    ) -> None:
        """``wrong`` returns what is wrong with a text that fits; empty if nothing is."""
        self.words: str = words
        self._longest = longest
        self._pattern = pattern or r'\S(.*\S)?'
        self._wrong = wrong

    def _read(self, node: Node, mistakes: Mistakes) -> str | Wrong:
        text = node.value
        if not isinstance(text, str):
            scalar = isinstance(text, bool | int | float | Doubtful)
            fits = scalar and re.fullmatch(self._pattern, node.text)
            return self._refuse(node, mistakes, f', in quotes: {node.text!r}' if fits else '')
        if len(text) > self._longest:
            mistakes.add(
                node, f'the text has {len(text)} characters; write at most {self._longest}'
            )
        elif not text.isprintable():
            mistakes.add(node, 'the text has an unprintable character; remove it')
        elif not text or text != text.strip():
            mistakes.add(node, 'the text is empty or has spaces around it; write text without')
        elif not re.fullmatch(self._pattern, text):
            self._unfit(node, mistakes)
        elif why := self._wrong(text):
            mistakes.add(node, why)
        return text

    def _unfit(self, node: Node, mistakes: Mistakes) -> None:
        mistakes.add(node, f'{shown(node.text)} is not valid; write {self.words}')

    def schema(self) -> dict[str, Any]:
        return {'type': 'string', 'maxLength': self._longest, 'pattern': f'^{self._pattern}$'}


class Paragraphs(Kind[str]):
    """Text of any number of lines."""

    words: str = 'text'

    def _read(self, node: Node, mistakes: Mistakes) -> str | Wrong:
        return node.value if isinstance(node.value, str) else self._refuse(node, mistakes)

    def schema(self) -> dict[str, Any]:
        return {'type': 'string'}


class Name(Text):
    """A name that can be part of a host name."""

    def __init__(self, longest: int) -> None:
        super().__init__(
            f'a name of at most {longest} lowercase letters, digits and dashes that begins with a '
            f'letter',
            longest=longest,
            pattern='[a-z]([a-z0-9-]*[a-z0-9])?',
        )

    def _unfit(self, node: Node, mistakes: Mistakes) -> None:
        better = re.sub(r'[^a-z0-9]+', '-', node.text.lower()).strip('-')
        hint = f', such as {better!r}' if re.fullmatch(self._pattern, better) else ''
        mistakes.add(node, f'{shown(node.text)} is not a valid name; write {self.words}{hint}')


class Flag(Kind[bool]):
    """A boolean."""

    words: str = 'true or false'

    def _read(self, node: Node, mistakes: Mistakes) -> bool | Wrong:
        return node.value if isinstance(node.value, bool) else self._refuse(node, mistakes)

    def schema(self) -> dict[str, Any]:
        return {'type': 'boolean'}


class Whole(Kind[int]):
    """A whole number."""

    def __init__(self, least: int, most: int) -> None:
        self._least, self._most = least, most
        self.words: str = f'a whole number from {least} to {most}'

    def _read(self, node: Node, mistakes: Mistakes) -> int | Wrong:
        number = node.value
        if isinstance(number, bool) or not isinstance(number, int):
            digits = isinstance(number, str) and number.strip().isdigit()
            return self._refuse(node, mistakes, ', without quotes' if digits else '')
        if not self._least <= number <= self._most:
            size = 'small' if number < self._least else 'large'
            mistakes.add(node, f'{node.text} is too {size}; write {self.words}')
        return number

    def schema(self) -> dict[str, Any]:
        return {'type': 'integer', 'minimum': self._least, 'maximum': self._most}


_UNITS = {'d': 86_400, 'h': 3600, 'm': 60, 's': 1}
_DURATION = r'(?=.)([0-9]{1,9}d)?([0-9]{1,9}h)?([0-9]{1,9}m)?([0-9]{1,9}s)?'


class Duration(Kind[float]):
    """Seconds as a number, or a time such as 1h30m."""

    def __init__(self, least_s: int, most_s: int) -> None:
        self._least_s, self._most_s = least_s, most_s
        self.words: str = (
            f'seconds as a number or a time such as 90s, 10m or 1h30m, from '
            f'{_spoken(least_s)} to {_spoken(most_s)}'
        )

    def _read(self, node: Node, mistakes: Mistakes) -> float | Wrong:
        seconds = node.value
        if isinstance(seconds, str) and (parts := re.fullmatch(_DURATION, seconds)):
            units = zip(parts.groups(), _UNITS.values(), strict=True)
            seconds = sum(int(part[:-1]) * unit for part, unit in units if part)
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            return self._refuse(node, mistakes)
        if not self._least_s <= seconds <= self._most_s:
            size = 'short' if seconds < self._least_s else 'long'
            mistakes.add(node, f'{node.text} is too {size}; write {self.words}')
        return float(seconds)

    def write(self, value: float) -> str | float:
        return _spoken(int(value)) if value.is_integer() else value

    def schema(self) -> dict[str, Any]:
        number = {'type': 'number', 'minimum': self._least_s, 'maximum': self._most_s}
        return {'anyOf': [number, {'type': 'string', 'pattern': f'^{_DURATION}$'}]}


def _spoken(seconds: int) -> str:
    said = ''
    for unit, size in _UNITS.items():
        amount, seconds = divmod(seconds, size)
        said += f'{amount}{unit}' if amount else ''
    return said


class Share(Kind[Portion]):
    """A number or a percentage."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.words: str = f'a whole number from 0 to {most}, or a percentage from 0% to 100%'

    def _read(self, node: Node, mistakes: Mistakes) -> Portion | Wrong:
        match node.value:
            case bool():
                pass
            case int(number) if 0 <= number <= self._most:
                return Portion(number)
            case int():
                mistakes.add(node, f'{node.text} is out of range; write {self.words}')
                return WRONG
            case str(text) if re.fullmatch(_PERCENT, text):
                return Portion(int(text[:-1]), percent=True)
        return self._refuse(node, mistakes)

    def write(self, value: Portion) -> str | int:
        return str(value) if value.percent else value.amount

    def schema(self) -> dict[str, Any]:
        number = {'type': 'integer', 'minimum': 0, 'maximum': self._most}
        return {'anyOf': [number, {'type': 'string', 'pattern': f'^{_PERCENT}$'}]}


_PERCENT = '(100|[1-9]?[0-9])%'


class Choice(Kind[E]):
    """One of several words."""

    def __init__(self, choices: type[E]) -> None:
        self._choices = choices
        self.words: str = f'one of {", ".join(choices)}'

    def _read(self, node: Node, mistakes: Mistakes) -> E | Wrong:
        if not isinstance(node.value, str):
            return self._refuse(node, mistakes)
        if node.value in list(self._choices):
            return self._choices(node.value)
        close = close_to(node.value, self._choices)
        hint = f' (did you mean {close}?)' if close else ''
        mistakes.add(node, f'{shown(node.value)} is not valid; write {self.words}{hint}')
        return WRONG

    def write(self, value: E) -> str:
        return value.value

    def schema(self) -> dict[str, Any]:
        return {'enum': [choice.value for choice in self._choices]}
