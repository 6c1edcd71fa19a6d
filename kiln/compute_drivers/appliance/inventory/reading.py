"""Parser of a pool's inventory, with one line for each mistake; pure."""

from __future__ import annotations

import dataclasses
import difflib
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any
from urllib.parse import urlsplit

from kiln.compute_drivers.appliance.inventory.machines import (
    Inventory,
    Machine,
    ProbeKind,
    ProbeSpec,
    Verb,
)
from kiln.compute_drivers.appliance.inventory.toml_lines import Path, lines_of
from kiln.exceptions import ConfigurationError
from kiln.models import AmphoraType

_NAME = re.compile(r'[A-Za-z0-9][A-Za-z0-9._-]{0,62}')
_ADDRESS = re.compile(r'[A-Za-z0-9:][A-Za-z0-9.:_-]*')
_TYPES = (AmphoraType.BARE_METAL, AmphoraType.HW_LOAD_BALANCER)
_REQUIRED = ('type', 'addresses', 'wipe')
_AT = re.compile(r'(.*) \(at line (\d+), column (\d+)\)', re.DOTALL)


@dataclasses.dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake in an inventory, and the key that has it."""

    path: Path
    message: str


class InventoryError(ConfigurationError):
    """The inventory of a pool has mistakes; the message has a line for each."""

    code = 'inventory_error'
    remedy = 'Correct the lines that the message names; claims are kept meanwhile.'

    def __init__(self, lines: str) -> None:
        super().__init__(f'the inventory cannot be used:\n{lines}')


class _Wrong(ValueError):
    """A value's mistake: the text says what the value must be."""


def parse(text: str, source: str) -> Inventory:
    """Return the machines that a document enrols.

    :raises InventoryError: the document has mistakes; all are listed in its order.
    """
    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise InventoryError(f'{source}: its values are nested too deeply.') from None
    # One that is no TOMLDecodeError is a number of too many digits.
    except ValueError as exc:
        raise InventoryError(_syntax(str(exc), source)) from None
    machines: dict[str, Machine] = {}
    if mistakes := list(_read(document, machines)):
        raise InventoryError(located(mistakes, text, source))
    return Inventory(machines)


def located(mistakes: list[Mistake], text: str, source: str) -> str:
    """Return the mistakes as lines that begin with file and line number."""
    lines = lines_of(text)
    told = []
    for mistake in mistakes:
        # What a machine has from the defaults is told of the machine.
        line = lines.get(mistake.path) or lines.get(mistake.path[:-1], 1)
        told.append((line, f'{_place(mistake.path)} {mistake.message}'))
    return '\n'.join(f'{source}:{line}: {words}' for line, words in sorted(told))


def _place(path: Path) -> str:
    # No colon after the key: redaction would take text after 'credentials:' for a secret.
    depth = 2 if path[0] == 'machines' else 1
    return ' '.join([f'[{".".join(path[:depth])}]', *path[depth:]])


def _syntax(words: str, source: str) -> str:
    found = _AT.fullmatch(words)
    return f'{source}:{found[2]}:{found[3]}: {found[1]}.' if found else f'{source}: {words}.'


def _read(document: Mapping[str, Any], machines: dict[str, Machine]) -> Iterator[Mistake]:
    for key in document.keys() - {'defaults', 'machines'}:
        yield Mistake((key,), 'is neither [defaults] nor a table [machines.NAME].')
    tables = {}
    for key in ('defaults', 'machines'):
        tables[key] = document.get(key, {})
        if not isinstance(tables[key], dict):
            yield Mistake((key,), 'must be a table.')
            return
    defaults = tables['defaults']
    common: dict[str, Any] = {}
    yield from _checked(('defaults',), defaults, common)
    if 'addresses' in defaults:
        yield Mistake(('defaults', 'addresses'), 'must be set for each machine, not here.')
    homes: dict[str, str] = {}
    for name, table in tables['machines'].items():
        yield from _enrol(name, table, (defaults, common), machines)
        for address in machines[name].addresses if name in machines else ():
            if homes.setdefault(address, name) != name:
                yield Mistake(
                    ('machines', name, 'addresses'),
                    f'has {address}, which is also an address of {homes[address]}.',
                )


def _enrol(
    name: str,
    table: Any,
    defaults: tuple[Mapping[str, Any], Mapping[str, Any]],
    machines: dict[str, Machine],
) -> Iterator[Mistake]:
    path = ('machines', name)
    if not _NAME.fullmatch(name):
        yield Mistake(
            path, 'must be named by 1 to 63 letters, digits, dots, dashes or underscores.'
        )
        return
    if not isinstance(table, dict):
        yield Mistake(path, 'must be a table.')
        return
    own: dict[str, Any] = {}
    yield from _checked(path, table, own)
    whole = {**defaults[0], **table}
    for key in _REQUIRED:
        if key not in whole:
            none = ' (wipe = [] means that there is nothing to wipe)' if key == 'wipe' else ''
            yield Mistake(path, f'lacks {key}{none}.')
    machines[name] = _machine(name, {**defaults[1], **own}, whole)


def machine_of(name: str, table: Mapping[str, Any]) -> Machine:
    """Return a machine from the table that its claim stores."""
    values: dict[str, Any] = {}
    # A key that an older kiln accepted and this one rejects is ignored.
    list(_checked((), table, values))
    return _machine(name, values, table)


def _machine(name: str, values: Mapping[str, Any], table: Mapping[str, Any]) -> Machine:
    facts = dict(values)
    commands = {verb: facts.pop(verb.value) for verb in Verb if verb.value in facts}
    return Machine(
        name=name,
        amphora_type=facts.pop('type', AmphoraType.BARE_METAL),
        addresses=facts.pop('addresses', ()),
        commands=commands,
        table=table,
        **facts,
    )


def _checked(path: Path, table: Mapping[str, Any], values: dict[str, Any]) -> Iterator[Mistake]:
    """Put the valid values into ``values``; yield the mistakes."""
    for key, value in table.items():
        check = _KEYS.get(key)
        if check is None:
            near = difflib.get_close_matches(key, _KEYS, n=1)
            hint = f'did you mean {near[0]}?' if near else f'the keys are {", ".join(_KEYS)}.'
            yield Mistake((*path, key), f'is not a key of a machine; {hint}')
            continue
        try:
            values[key] = check(value)
        except _Wrong as exc:
            yield Mistake((*path, key), str(exc))


# ---- values --------------------------------------------------------------------


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise _Wrong('must be a text in quotes.')
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise _Wrong('must be a list such as ["a", "b"].')
    texts = tuple(_text(one) for one in value)
    if len(set(texts)) != len(texts):
        raise _Wrong('has a duplicate.')
    return texts


def _type(value: Any) -> AmphoraType:
    if value not in _TYPES:
        raise _Wrong(f'must be one of {", ".join(_TYPES)}.')
    return AmphoraType(value)


def _addresses(value: Any) -> tuple[str, ...]:
    addresses = _texts(value)
    for one in addresses:
        if not _ADDRESS.fullmatch(one):
            raise _Wrong(f'has {one!r}, which is neither an IP address nor a host name.')
    return addresses


def _credentials(value: Any) -> str:
    if not _NAME.fullmatch(_text(value)):
        raise _Wrong('must be the name of a secret, not the secret.')
    return _text(value)


def _labels(value: Any) -> Mapping[str, str]:
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise _Wrong('must be a table of texts such as {rack = "r12"}.')
    return value


def _argv(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise _Wrong('must be a list: a program and its arguments; no shell reads it.')
    if any('\0' in one for one in value):
        raise _Wrong('contains a null character.')
    if value and not value[0].startswith('/'):
        raise _Wrong(f'must begin with the absolute path of a program, not with {value[0]!r}.')
    return tuple(value)


def _probe(value: Any) -> ProbeSpec:
    kinds = value.keys() & set(ProbeKind) if isinstance(value, dict) else set()
    if len(kinds) != 1:
        raise _Wrong('must be {tcp = PORT}, {http = "http://{address}/..."} or {command = [...]}.')
    kind = ProbeKind(kinds.pop())
    read, options = _PROBES[kind]
    if more := value.keys() - {kind} - options:
        raise _Wrong(
            f'has {", ".join(sorted(more))}, which a probe by {kind.value} does not take.'
        )
    return read(value)


def _tcp(value: Mapping[str, Any]) -> ProbeSpec:
    return ProbeSpec(kind=ProbeKind.TCP, port=_number(value['tcp'], 1, 65_535, 'a port'))


def _http(value: Mapping[str, Any]) -> ProbeSpec:
    url, insecure = value['http'], value.get('insecure', False)
    if not isinstance(url, str) or not _is_url(url):
        raise _Wrong('must have a URL such as "https://{address}/health".')
    if re.match(r'https?://[^/]*@', url):
        raise _Wrong('must not have a password in its URL; use a command for that.')
    if not isinstance(insecure, bool):
        raise _Wrong('must have insecure = true or false.')
    status = value.get('status')
    if status is not None:
        status = _number(status, 100, 599, 'a status')
    return ProbeSpec(kind=ProbeKind.HTTP, url=url, status=status, insecure=insecure)


def _is_url(text: str) -> bool:
    try:
        url = urlsplit(text.replace('{address}', '192.0.2.1'))
        return bool(re.fullmatch(r'https?://[!-~]+', text) and url.hostname and url.port != 0)
    except ValueError:
        return False


def _command(value: Mapping[str, Any]) -> ProbeSpec:
    argv = _argv(value['command'])
    if not argv:
        raise _Wrong('must have a program to run.')
    return ProbeSpec(kind=ProbeKind.COMMAND, argv=argv)


def _number(value: Any, least: int, most: int, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise _Wrong(f'must have {what} from {least} to {most}.')
    return value


#: The reader of each kind of probe, and its options.
_PROBES: Mapping[ProbeKind, tuple[Callable[[Mapping[str, Any]], ProbeSpec], Set[str]]] = {
    ProbeKind.TCP: (_tcp, frozenset()),
    ProbeKind.HTTP: (_http, frozenset({'status', 'insecure'})),
    ProbeKind.COMMAND: (_command, frozenset()),
}
_KEYS: Mapping[str, Callable[[Any], Any]] = {
    'type': _type,
    'addresses': _addresses,
    'flavors': _texts,
    'images': _texts,
    'zone': _text,
    'labels': _labels,
    'credentials': _credentials,
    'maintenance': _text,
    'probe': _probe,
    **{verb.value: _argv for verb in Verb},
}
