"""Flavors and sizes, parsed from the texts of options; pure."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence

from kiln.exceptions import ConfigurationError

# As many digits as any size has: Python reads more of them as infinite.
_NUMBER = r'(\d{1,15}(?:\.\d+)?)'
_SIZE = re.compile(rf'{_NUMBER}\s*([KMGT]?)(i?)B?', re.IGNORECASE)
_POWERS = {'': 0, 'k': 1, 'm': 2, 'g': 3, 't': 4}
_CPU = re.compile(rf'{_NUMBER}\s*cpus?', re.IGNORECASE)
_PIDS = re.compile(r'(\d{1,15})\s*(?:pids|processes)', re.IGNORECASE)
_NAME = re.compile(r'[A-Za-z0-9][\w.-]*', re.ASCII)
_NANO = 1_000_000_000
_LEAST_CPUS = 0.01
# The minimum of both engines' runtimes.
_LEAST_MEMORY = 6 * 1024 * 1024


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Flavor:
    """Resource limits of a container; None means unlimited."""

    nano_cpus: int | None = None
    memory: int | None = None
    pids: int | None = None


def parse_size(text: str) -> int:
    """Return the bytes of a size such as ``512 MiB``, ``64m`` or ``1.5g``.

    K, M and G are powers of 1024 even without the ``i``, as both engines read them.

    :raises ValueError: the text is not a size.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f'{text.strip()!r} is not a size such as 512 MiB')
    return int(float(found[1]) * 1024 ** _POWERS[found[2].lower()])


def parse_flavors(text: str) -> Mapping[str, Flavor]:
    """Parse the flavors of an option: ``small: 1 cpu, 512 MiB; big: 4 cpus``.

    :raises ConfigurationError: the text cannot be parsed; the message names the place.
    """
    flavors: dict[str, Flavor] = {}
    for part in filter(None, map(str.strip, text.replace('\n', ';').split(';'))):
        name, colon, limits = (word.strip() for word in part.partition(':'))
        if not colon or not _NAME.fullmatch(name):
            raise ConfigurationError(
                f'Cannot read flavors at {part!r}: a flavor is NAME: LIMIT, LIMIT.'
            )
        if name in flavors:
            raise ConfigurationError(f'Cannot read flavors: {name} is defined twice.')
        try:
            flavors[name] = _flavor(limits.split(',') if limits else ())
        except ValueError as exc:
            raise ConfigurationError(f'Cannot read flavor {name}: {exc}.') from None
    return flavors


def _flavor(limits: Sequence[str]) -> Flavor:
    found: dict[str, int] = {}
    for limit in map(str.strip, limits):
        field, value = _limit(limit)
        if field in found:
            raise ValueError(f'{limit!r} repeats a limit')
        found[field] = value
    return Flavor(**found)


def _limit(text: str) -> tuple[str, int]:
    if cpus := _CPU.fullmatch(text):
        if float(cpus[1]) < _LEAST_CPUS:
            raise ValueError(f'{text!r} is less than {_LEAST_CPUS} cpu')
        return 'nano_cpus', round(float(cpus[1]) * _NANO)
    if pids := _PIDS.fullmatch(text):
        if not int(pids[1]):
            raise ValueError(f'{text!r} allows no process')
        return 'pids', int(pids[1])
    try:
        memory = parse_size(text)
    except ValueError:
        raise ValueError(f'{text!r} is neither "2 cpus" nor "512 MiB" nor "100 pids"') from None
    if memory < _LEAST_MEMORY:
        raise ValueError(f'{text!r} is less than 6 MiB')
    return 'memory', memory
