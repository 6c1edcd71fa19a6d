"""Flavors, sizes and what else an option says in a few words; pure."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence

from kiln.exceptions import ConfigurationError

_SIZE = re.compile(r'(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?', re.IGNORECASE)
_POWERS = {'': 0, 'k': 1, 'm': 2, 'g': 3, 't': 4}
_CPU = re.compile(r'(\d+(?:\.\d+)?)\s*cpus?', re.IGNORECASE)
_PIDS = re.compile(r'(\d+)\s*(?:pids|processes)', re.IGNORECASE)
_NAME = re.compile(r'[A-Za-z0-9][\w.-]*', re.ASCII)
_NANO = 1_000_000_000
_LEAST_CPUS = 0.01
# What both engines' runtimes need at least.
_LEAST_MEMORY = 6 * 1024 * 1024


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Flavor:
    """What a container may use at most; None is no limit."""

    nano_cpus: int | None = None
    memory: int | None = None
    pids: int | None = None


def parse_size(text: str) -> int:
    """Return the bytes of a size such as ``512 MiB``, ``64m`` or ``1.5g``.

    Without the ``i``, too, K, M and G are powers of 1024, as both engines read them.

    :raises ValueError: it is no size.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f'{text.strip()!r} is no size such as 512 MiB')
    return int(float(found[1]) * 1024 ** _POWERS[found[2].lower()])


def parse_flavors(text: str) -> Mapping[str, Flavor]:
    """Return the flavors that an option describes: ``small: 1 cpu, 512 MiB; big: 4 cpus``.

    :raises ConfigurationError: it cannot be read; the message says where.
    """
    flavors: dict[str, Flavor] = {}
    for part in filter(None, map(str.strip, text.replace('\n', ';').split(';'))):
        name, colon, limits = (word.strip() for word in part.partition(':'))
        if not colon or not _NAME.fullmatch(name):
            raise ConfigurationError(
                f'Cannot read flavors at {part!r}: a flavor is NAME: LIMIT, LIMIT.'
            )
        if name in flavors:
            raise ConfigurationError(f'Cannot read flavors: {name} is there twice.')
        try:
            flavors[name] = _flavor(limits.split(',') if limits else ())
        except ValueError as exc:
            raise ConfigurationError(f'Cannot read flavor {name}: {exc}.') from exc
    return flavors


def _flavor(limits: Sequence[str]) -> Flavor:
    found: dict[str, int] = {}
    for limit in map(str.strip, limits):
        field, value = _limit(limit)
        if field in found:
            raise ValueError(f'{limit!r} limits again what was limited before')
        found[field] = value
    return Flavor(**found)


def _limit(text: str) -> tuple[str, int]:
    if cpus := _CPU.fullmatch(text):
        if float(cpus[1]) < _LEAST_CPUS:
            raise ValueError(f'{text!r} is less than {_LEAST_CPUS} cpu')
        return 'nano_cpus', round(float(cpus[1]) * _NANO)
    if pids := _PIDS.fullmatch(text):
        if not int(pids[1]):
            raise ValueError(f'{text!r} leaves it no process')
        return 'pids', int(pids[1])
    try:
        memory = parse_size(text)
    except ValueError:
        raise ValueError(f'{text!r} is neither "2 cpus" nor "512 MiB" nor "100 pids"') from None
    if memory < _LEAST_MEMORY:
        raise ValueError(f'{text!r} is less than 6 MiB')
    return 'memory', memory
