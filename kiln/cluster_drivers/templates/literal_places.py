"""Places of YAML and Python at which a value in JSON stays one value, whatever it is."""

from __future__ import annotations

import bisect
import functools
import io
import re
import tokenize
from collections.abc import Iterator
from typing import Any, NamedTuple

#: Stands for harmless text, which can be empty.
BARE = '\x02'

#: The deepest collections of YAML; to read deeper ones takes PyYAML minutes.
_DEEPEST = 50
_CONTROL = re.compile(r'[\x00\x03-\x08\x0b-\x1f\x7f]')
_ALONE = re.compile(r'(?<=[\s\[{,])\x02(?=[\s\]},]|\Z)')
_ENCODING = re.compile(r'^[ \t]*#.*(?:coding[:=]|\x02)', re.MULTILINE)
_FORMATTED = re.compile(r'[rR]?[fFtT]')
_ERROR = tokenize.ERRORTOKEN
_BEFORE = ('=', '(', '[', ',')
_AFTER = (')', ']', ',', '')
_LOST = 'kiln cannot follow the file'


class _Span(NamedTuple):
    start: int
    end: int
    is_value: bool


# The templates of a driver are the same each time that it is opened.
@functools.lru_cache(maxsize=64)
def yaml_refusals(text: str, value: str) -> tuple[str, ...]:
    """Return why each occurrence of a word is refused; empty if it is a whole value.

    :raises yaml.YAMLError: this is not YAML.
    """
    import yaml

    found = _yaml_refusals(text.replace(BARE, 'x'), value)
    if joins_quotes(text):
        return (_LOST,) * len(found)
    try:
        empty = _yaml_refusals(_ALONE.sub('x', text).replace(BARE, ''), value)
    except yaml.YAMLError:
        empty = ['text that is empty would break what is beside it'] * len(found)
    return tuple(first or second for first, second in zip(found, empty, strict=True))


def _yaml_refusals(text: str, value: str) -> list[str]:
    spans = [_Span(0, 0, False), *sorted(_spans(text))]
    starts = [one.start for one in spans]
    found = []
    for place in (one.start() for one in re.finditer(value, text)):
        span = spans[bisect.bisect_right(starts, place) - 1]
        if span == (place, place + len(value), True):
            found.append('')
        elif span.end <= place and '#' in text[span.end : place]:
            # In a comment: JSON is one line, and stays within the comment.
            found.append('')
        else:
            found.append('put nothing around it, neither quotes nor text, and make it no key')
    return found


def _spans(text: str) -> Iterator[_Span]:
    """Yield each part that is not a comment; a value is a scalar without quotes, and no key."""
    import yaml

    # For each open collection: True for a mapping, True within a key, and the nodes so far.
    stack: list[tuple[bool, bool, int]] = []
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.CollectionEndEvent):
            stack.pop()
        is_key = False
        if isinstance(event, yaml.NodeEvent) and stack:
            is_mapping, within_key, count = stack[-1]
            stack[-1] = is_mapping, within_key, count + 1
            is_key = within_key or (is_mapping and count % 2 == 0)
        if isinstance(event, yaml.CollectionStartEvent):
            stack.append((isinstance(event, yaml.MappingStartEvent), is_key, 0))
            if len(stack) > _DEEPEST:
                problem = f'it is nested more than {_DEEPEST} deep'
                mark: Any = event.start_mark
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)
        assert event.start_mark is not None
        assert event.end_mark is not None
        is_plain = isinstance(event, yaml.ScalarEvent) and event.style is None
        if event.start_mark.index < event.end_mark.index:
            yield _Span(event.start_mark.index, event.end_mark.index, is_plain and not is_key)


def joins_quotes(text: str) -> bool:
    """Return True if empty text would join quotes, or a backslash to what follows."""
    runs = re.findall(r"['\x02]+", text) + re.findall(r'["\x02]+', text)
    joined = any(BARE in run and len(run) - run.count(BARE) > 2 for run in runs)
    return joined or bool(re.search(r'\\\x02|\x02#', text))


def python_refusals(text: str, value: str) -> list[str]:
    """Return why each occurrence of a name is refused; empty if it is a whole operand."""
    count = text.count(value)
    head = '\n'.join(text.split('\n', 2)[:2])
    # The first two lines can name another encoding, with other quotes.
    if _ENCODING.search(head):
        return ['its first two lines can change the encoding'] * count
    found: list[str] = []
    try:
        if not (joins_quotes(text) or _CONTROL.search(text.replace(BARE, ''))):
            found += _operands(text.replace(BARE, 'x'), value)
    except (tokenize.TokenError, SyntaxError):
        pass
    return found + [_LOST] * (count - len(found))


def _operands(text: str, value: str) -> Iterator[str]:
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    for before, one, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if _is_unclear(one, after):
            return
        if one.string != value:
            yield from ['it is in quotes, in a comment or in a word'] * one.string.count(value)
        elif before.string in _BEFORE and (
            after.string.strip() in _AFTER or after.type == tokenize.COMMENT
        ):
            yield ''
        else:
            yield 'it is not the whole of an argument, an element or the right side of ='


def _is_unclear(one: tokenize.TokenInfo, after: tokenize.TokenInfo) -> bool:
    """Return True if versions of Python, or a value, could make other tokens of this text."""
    if one.end == after.start and tokenize.STRING in (one.type, after.type):
        # The text of an owner could become the prefix of a string.
        words = (tokenize.NAME, tokenize.NUMBER, tokenize.STRING)
        if one.type in words and after.type in words:
            return True
    is_formatted = one.type == tokenize.STRING and bool(_FORMATTED.match(one.string))
    return is_formatted or 'FSTRING' in tokenize.tok_name[one.type] or one.type == _ERROR
