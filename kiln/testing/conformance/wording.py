"""Wording of failures: the values that a behaviour expected, and those that it has seen."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import itertools
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.models import Amphora, ComputeStatus

#: Maximum characters of a value, such as a long list.
_MOST = 300
_KILN = Path(inspect.getfile(AmphoraComputeDriver)).parents[1]


def in_words(seen: object) -> str:
    """Return a polled value as words; for an instance, its state, task and fault."""
    if isinstance(seen, (ComputeStatus, Amphora)):
        return ', '.join(_of_instance(seen))
    if isinstance(seen, enum.Enum):
        return str(seen.value)
    if isinstance(seen, type):
        return seen.__name__
    if isinstance(seen, BaseException):
        return f'{type(seen).__name__}: {seen}'
    if isinstance(seen, str):
        return _cut(seen)
    if isinstance(seen, tuple):
        return _cut(' '.join(map(in_words, seen)))
    if isinstance(seen, Mapping):
        told = '; '.join(f'{name}: {in_words(one)}' for name, one in seen.items())
        return _cut(told) or 'nothing'
    if isinstance(seen, Collection):
        return _cut('; '.join(map(in_words, seen))) or 'nothing'
    return _cut(repr(seen))


def shown(value: object) -> str:
    """Return a compared value as words; text is quoted, and an instance has its id."""
    if isinstance(value, str) and not isinstance(value, enum.Enum):
        return repr(_cut(value))
    if isinstance(value, (ComputeStatus, Amphora)):
        return f'{_id_of(value)}: {in_words(value)}'
    parts: Iterable[str]
    if isinstance(value, Mapping):
        parts = [f'{shown(name)}: {shown(one)}' for name, one in value.items()]
    elif isinstance(value, set | frozenset):
        parts = sorted(map(shown, value))
    elif isinstance(value, list | tuple):
        parts = map(shown, value)
    else:
        return in_words(value)
    return _cut(', '.join(parts)) or 'nothing'


def contrast(seen: object, expected: object) -> tuple[str, str]:
    """Return what two values are in words; of values with parts, the parts that differ."""
    theirs, ours = _parts(seen), _parts(expected)
    if theirs is None or ours is None or type(seen) is not type(expected):
        return shown(seen), shown(expected)
    differing = [
        name
        for name in dict.fromkeys((*ours, *theirs))
        if name not in ours or name not in theirs or ours[name] != theirs[name]
    ]
    return _of_parts(theirs, differing), _of_parts(ours, differing)


def _parts(value: object) -> Mapping[str, Any] | None:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = (one.name for one in dataclasses.fields(value) if one.compare)
        return {name: getattr(value, name) for name in fields}
    return value if isinstance(value, Mapping) else None


def _of_parts(parts: Mapping[str, Any], names: Iterable[str]) -> str:
    told = (f'{name} {shown(parts[name])}' if name in parts else f'no {name}' for name in names)
    return _cut(', '.join(told))


def missing(first: Collection[Any], second: Collection[Any]) -> str:
    """Return what the first collection has and the second one lacks."""
    return shown([one for one in first if one not in second])


def around(text: str, part: str) -> str:
    """Return the surroundings of a part of a text."""
    at, margin = text.find(part), (_MOST - len(part)) // 2
    return repr(text[max(0, at - margin) : at + len(part) + margin])


def error_in_words(error: BaseException, driver: object = None) -> str:
    """Return an error, and the line of the driver's package that raised it.

    The package is unknown if the driver cannot be opened; then it is any but kiln.
    """
    if driver is not None:
        folders = _folders_of(driver)
        line = _raised_at(error, lambda path: _is_in(path, folders))
    else:
        line = _raised_at(error, lambda path: not path.is_relative_to(_KILN))
    words = in_words(error)
    return f'{words.rstrip(".")}, raised at {line}' if line else words


@dataclasses.dataclass(frozen=True, kw_only=True)
class Line:
    """A line of a program."""

    file: str
    number: int | None
    function: str

    def __str__(self) -> str:
        path = Path(self.file)
        return f'{path.parent.name}/{path.name}, line {self.number}, in {self.function}()'


def place_of(lines: Iterable[Line], driver: object) -> str:
    """Return the first line that is in the package of a driver, in words."""
    folders = _folders_of(driver) if driver is not None else set()
    return next((str(one) for one in lines if _is_in(Path(one.file), folders)), '')


def _is_in(path: Path, folders: Collection[Path]) -> bool:
    return any(map(path.is_relative_to, folders))


def _folders_of(driver: Any) -> set[Path]:
    """Return the folders of the modules of a driver's class and of its own base classes."""
    while hasattr(driver, 'inner'):
        driver = driver.inner
    own = set(type(driver).__mro__) - set(AmphoraComputeDriver.__mro__)
    modules = {one.__module__ for one in own} - sys.stdlib_module_names
    files = (getattr(sys.modules.get(name), '__file__', None) for name in modules)
    return {Path(file).parent for file in files if file is not None}


def _raised_at(error: BaseException, wanted: Callable[[Path], bool]) -> str:
    """Return the innermost line of a wanted file in the tracebacks of an error and its causes."""
    chain = [error]
    while (cause := chain[-1].__cause__) is not None and cause not in chain:
        chain.append(cause)
    for frame in itertools.chain.from_iterable(
        reversed(traceback.extract_tb(one.__traceback__)) for one in reversed(chain)
    ):
        if wanted(Path(frame.filename)):
            return str(Line(file=frame.filename, number=frame.lineno, function=frame.name))
    return ''


def _id_of(value: Any) -> str:
    return str(value.id if isinstance(value, Amphora) else value.amphora_id)


def _of_instance(seen: ComputeStatus | Amphora) -> Iterator[str]:
    yield str(seen.state)
    for name, told in (('task_state', seen.task_state), ('fault', seen.fault)):
        if told:
            yield f'with {name} {str(told)!r}'


def _cut(text: str) -> str:
    return text if len(text) <= _MOST else f'{text[:_MOST]} ...'
