"""Argument checks of the compute contract, before any request to a backend.

Pure functions: arguments in, frozen values out, or one clear error.
"""

from __future__ import annotations

import enum
import inspect
import ipaddress
import itertools
import os
import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeGuard, TypeVar

from kiln.compute_drivers.authoring.wording import kind_of as _kind
from kiln.compute_drivers.authoring.wording import quoted as quoted
from kiln.exceptions import InvalidBuildRequest, InvalidRequest, UserDataTooLarge
from kiln.models import (
    AmphoraType,
    BuildRequest,
    InjectedFile,
    Limits,
    Placement,
    Resource,
    State,
)

#: Metadata keys with this prefix are reserved for kiln, on every backend.
RESERVED_METADATA = 'kiln:'
#: Maximum timeout of an operation.
MAX_TIMEOUT_S = 366 * 86_400.0
#: Maximum number of items in any list; an endless iterator has more.
MAX_ITEMS = 1_000_000
#: Maximum length of a cursor.
MAX_CURSOR = 65_536
#: Maximum length of an id, key or other short text.
MAX_TEXT = 255

_NO_FACTS: Mapping[str, str] = MappingProxyType({})
#: Maximum number of console lines that can be requested.
_MAX_LINES = 2**31 - 1

_E = TypeVar('_E', bound=enum.Enum)
_F = TypeVar('_F', bound=Callable[..., object])

# As strict as the strictest backend: Nova allows 60 characters in a tag, without '/' and
# ',', and kiln puts its own prefix before the key.
_BUILD_KEY = re.compile(r'[A-Za-z0-9][A-Za-z0-9._:-]{0,47}')
_OWNER = re.compile(r'[A-Za-z0-9][A-Za-z0-9._-]{0,31}')


def build_request(limits: Limits, given: Mapping[str, Any], *, owner: str) -> BuildRequest:
    """Return the request that the named arguments of ``build()`` describe.

    An argument that is not in ``given`` has its default. Other entries are ignored: a
    public ``build()`` passes all of its arguments, its timeout included.

    :raises InvalidBuildRequest: an argument can never be valid.
    :raises UserDataTooLarge: a content is larger than the limits allow.
    """

    def optional(argument: str) -> str | None:
        value = given.get(argument)
        return None if value is None else check_text(argument, value)

    def texts(argument: str) -> tuple[str, ...]:
        values = given.get(argument)
        return () if values is None else _texts(argument, values)

    owner = check_owner(owner)
    build_key, name = given.get('build_key'), given.get('name')
    try:
        key = os.urandom(16).hex() if build_key is None else check_build_key(build_key)
        made_name = f'amphora-{key}'[: limits.max_name_length]
        if name is None:
            name = made_name
        request = BuildRequest(
            build_key=key,
            fresh=build_key is None,
            name=check_text('name', name, max_length=limits.max_name_length),
            made_name=made_name,
            owner=owner,
            amphora_type=_amphora_type(given.get('amphora_type', AmphoraType.VM), limits),
            flavor=optional('amphora_flavor'),
            image_id=optional('image_id'),
            keys=texts('keys'),
            sec_groups=texts('sec_groups'),
            network_ids=texts('network_ids'),
            port_ids=texts('port_ids'),
            availability_zone=optional('availability_zone'),
            server_group_id=optional('server_group_id'),
            metadata=_metadata(given.get('metadata'), limits),
            files=_files(given.get('config_drive_files'), limits),
            user_data=_user_data(given.get('user_data'), limits),
        )
        _refuse_unknown_options(request, limits)
    except InvalidRequest as exc:
        raise _of_a_build(exc) from exc.__cause__
    return request


def check_text(argument: str, value: object, *, max_length: int = MAX_TEXT) -> str:
    """Return a non-empty, printable string, or name the argument that is not one."""
    if type(value) is not str:
        if not isinstance(value, str):
            raise InvalidRequest(f'{argument} must be a string, not {_kind(value)}.')
        value = _plain(value)
    if not value or value != value.strip():
        # Not quoted: the argument can be a whole key, read with its line end.
        raise InvalidRequest(f'{argument} is empty or has spaces around it.')
    if len(value) > max_length:
        raise InvalidRequest(
            f'{argument} has {len(value)} characters; at most {max_length} are allowed.'
        )
    if not value.isprintable():
        raise InvalidRequest(f'{argument} has a character that cannot be printed.')
    return value


def check_optional(argument: str, value: object) -> str | None:
    """Return None, or what check_text() returns."""
    return None if value is None else check_text(argument, value)


def check_address(address: object) -> str | None:
    """Return None, or the text of an IP address."""
    text = check_optional('address', address)
    if text is not None:
        try:
            ipaddress.ip_address(text)
        except ValueError:
            raise InvalidRequest(f'address must be an IP address, not {quoted(text)}.') from None
    return text


def is_text(value: str) -> bool:
    """Return True if a text can be an id or a key."""
    text = value if type(value) is str else _plain(value)
    return 0 < len(text) <= MAX_TEXT and text == text.strip() and text.isprintable()


def is_number(value: object) -> TypeGuard[int | float]:
    """Return True if a value is a number; a bool is not a number here."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_owner(owner: object) -> str:
    """Return the owner tag of a site, or raise with the reason why it is invalid."""
    if not isinstance(owner, str) or not _OWNER.fullmatch(owner):
        raise InvalidRequest(
            f'owner must be 1 to 32 letters, digits, dots, dashes or underscores, '
            f'not {quoted(owner)}.'
        )
    return _plain(owner)


def check_build_key(build_key: object) -> str:
    """Return a build key, or raise with the reason why it is invalid."""
    if not isinstance(build_key, str) or not _BUILD_KEY.fullmatch(build_key):
        raise InvalidRequest(
            f'build_key must be 1 to 48 letters, digits, dots, colons, '
            f'dashes or underscores, not {quoted(build_key)}.'
        )
    return _plain(build_key)


def check_timeout(timeout: object) -> float | None:
    """Return seconds, or None for the backend's default."""
    if timeout is None:
        return None
    if not is_number(timeout) or not timeout > 0:
        raise InvalidRequest(
            f'timeout must be a positive number of seconds, not {quoted(timeout)}.'
        )
    # Neither the system's timers nor a vendor's client accept an infinite timeout.
    if timeout > MAX_TIMEOUT_S:
        raise InvalidRequest(f'timeout must be a year at most, in seconds, not {quoted(timeout)}.')
    return float(timeout)


def check_wait(argument: str, seconds: object) -> float:
    """Return the time that a caller waits; zero and infinity are allowed."""
    # Only NaN differs from itself.
    if not is_number(seconds) or seconds != seconds:
        raise InvalidRequest(f'{argument} must be a number of seconds, not {quoted(seconds)}.')
    # The remaining time of a caller's own deadline can be negative.
    return float(min(max(seconds, 0.0), MAX_TIMEOUT_S))


def check_flag(argument: str, value: object) -> bool:
    """Return True or False; no other value is accepted."""
    if not isinstance(value, bool):
        raise InvalidRequest(f'{argument} must be True or False, not {quoted(value)}.')
    return value


def check_member(argument: str, value: object, kind: type[_E]) -> _E:
    """Return a member of an enumeration; its value is not accepted."""
    if not isinstance(value, kind):
        allowed = ', '.join(f'{kind.__name__}.{member.name}' for member in kind)
        raise InvalidRequest(f'{argument} must be one of {allowed}, not {quoted(value)}.')
    return value


def check_choice(argument: str, value: object, kind: type[_E]) -> _E:
    """Return a member of an enumeration, given as the member or as its value."""
    member = _member(value, kind)
    if member is None:
        allowed = ', '.join(str(member.value) for member in kind)
        raise InvalidRequest(f'{argument} must be one of {allowed}, not {quoted(value)}.')
    return member


def check_callable(argument: str, value: _F) -> _F:
    """Return a callable, or raise if the value is not callable."""
    if not callable(value):
        raise InvalidRequest(
            f'{argument} must be a function or another callable, not {quoted(value)}.'
        )
    # Calling it would have no effect.
    for function in value, type(value).__call__:
        if inspect.iscoroutinefunction(function):
            kind = 'a coroutine function'
        elif inspect.isasyncgenfunction(function):
            kind = 'an async generator function'
        else:
            continue
        raise InvalidRequest(
            f'{argument} must be a plain function, not {kind}: it is called on a thread, where '
            f'nothing awaits it.'
        )
    return value


def check_ids(amphora_ids: object) -> tuple[str, ...]:
    """Return the ids of amphorae, or raise with what is wrong."""
    return tuple(
        check_text('amphora_ids', amphora_id)
        for amphora_id in check_items('amphora_ids', amphora_ids, 'strings')
    )


def check_cursor(since: object) -> str:
    """Return a cursor of an earlier answer, or raise if it is not a cursor."""
    cursor = _plain(since) if isinstance(since, str) else None
    if cursor is None or len(cursor) > MAX_CURSOR or not cursor.isprintable():
        raise InvalidRequest(
            f'since must be a cursor of an earlier answer, or empty, not {quoted(since)}.'
        )
    return cursor


def check_states(goal: object) -> frozenset[State]:
    """Return the states to wait for, or raise with the list of valid states."""
    of = f'one or more of {", ".join(state.value for state in State)}'
    states = [_member(state, State) for state in check_items('goal', goal, of)]
    known = frozenset(state for state in states if state is not None)
    if not known or None in states:
        raise InvalidRequest(f'goal must be a list of {of}, and nothing else.')
    return known


def check_placements(placements: object, limits: Limits) -> tuple[Placement, ...]:
    """Return the alternative places of a build, or raise with what is wrong."""
    try:
        given = check_items('placements', placements, 'Placement')
        return tuple(_placement(place, limits) for place in given)
    except InvalidRequest as exc:
        raise _of_a_build(exc) from exc.__cause__


def check_lines(lines: object) -> int | None:
    """Return the number of console lines, or None for all of them."""
    if lines is None:
        return None
    if isinstance(lines, bool) or not isinstance(lines, int) or lines < 1:
        raise InvalidRequest(f'lines must be a positive number, not {quoted(lines)}.')
    # No backend keeps more, and a client might not be able to write the number.
    if lines > _MAX_LINES:
        raise InvalidRequest(f'lines must be {_MAX_LINES} at most, not {quoted(lines)}.')
    return lines


def check_own_resource(resource: object, owner: str) -> None:
    """Refuse a value that is not a resource or belongs to another site."""
    if not isinstance(resource, Resource):
        raise InvalidRequest(f'resource must be one of list_resources(), not {quoted(resource)}.')
    check_text('the kind of resource', resource.kind)
    check_text('the id of resource', resource.id)
    has = resource.owner
    if has is not None:
        has = check_text('the owner of resource', has)
    if has != owner:
        raise InvalidRequest(
            f'Cannot delete {resource.kind} {resource.id}: its owner is {has!r}, '
            f'not this site, {owner!r}.',
            resource_id=resource.id,
        )


def _plain(value: str) -> str:
    """Return a plain str, because a subclass can compare and hash arbitrarily."""
    return value if type(value) is str else str.__str__(value)


def _member(value: object, kind: type[_E]) -> _E | None:
    # Any other value can have an arbitrary text, which the error of an enumeration would show.
    if isinstance(value, kind):
        return value
    if not isinstance(value, str):
        return None
    try:
        return kind(_plain(value))
    except ValueError:
        return None


def check_items(argument: str, values: object, of: str) -> tuple[Any, ...]:
    """Return the items of a caller's list, or raise if it is not a list."""
    # A lone string is iterable too, and would become a list of letters.
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        # Not quoted: it can be a whole key that was meant to be in a list.
        raise InvalidRequest(f'{argument} must be a list of {of}, not {_kind(values)}.')
    try:
        items = list(itertools.islice(values, MAX_ITEMS + 1))
    # The caller's own iterator, which can raise anything.
    except Exception as exc:
        raise InvalidRequest(
            f'{argument} must be a list of {of}; this {_kind(values)} cannot be read '
            f'({_kind(exc)}).'
        ) from exc
    if len(items) > MAX_ITEMS:
        raise InvalidRequest(f'{argument} must be a list of at most {MAX_ITEMS} {of}.')
    return tuple(items)


def _of_a_build(exc: InvalidRequest) -> InvalidBuildRequest:
    """Return the error of an argument as an error of the build."""
    if isinstance(exc, InvalidBuildRequest):
        return exc
    return InvalidBuildRequest(f'Cannot build: {exc}')


def _entries(argument: str, values: object, of: str) -> dict[Any, Any]:
    if not isinstance(values, Mapping):
        raise InvalidRequest(f'{argument} must {of}, not {_kind(values)}.')
    try:
        return dict(values)
    # The caller's own mapping, which can raise anything.
    except Exception as exc:
        raise InvalidRequest(
            f'{argument} must {of}; this {_kind(values)} cannot be read ({_kind(exc)}).'
        ) from exc


def _texts(argument: str, values: Iterable[str]) -> tuple[str, ...]:
    items = check_items(argument, values, 'strings')
    # Keys are whole public keys, far longer than any id.
    texts = tuple(
        check_text(f'{argument}[{i}]', v, max_length=16_384) for i, v in enumerate(items)
    )
    if len(set(texts)) != len(texts):
        raise InvalidRequest(f'{argument} names something twice.')
    return texts


def _placement(place: object, limits: Limits) -> Placement:
    if not isinstance(place, Placement):
        raise InvalidRequest(
            f'placements must be a list of Placement, with {quoted(place)} among them.'
        )
    zone = check_optional('the zone of one of placements', place.availability_zone)
    flavor = check_optional('the flavor of one of placements', place.amphora_flavor)
    for option in ('availability_zone', 'amphora_flavor'):
        if option in limits.refused_options and getattr(place, option):
            raise InvalidRequest(f'this backend does not support {option}.')
    return Placement(availability_zone=zone, amphora_flavor=flavor)


def _amphora_type(amphora_type: AmphoraType | str, limits: Limits) -> AmphoraType:
    kind = _member(amphora_type, AmphoraType)
    if kind is not None and kind in limits.amphora_types:
        return kind
    allowed = ', '.join(sorted(one.value for one in limits.amphora_types))
    if kind is not None:
        raise InvalidRequest(
            f'amphora_type: this backend does not build {kind.value}, only {allowed}.'
        )
    raise InvalidRequest(
        f'amphora_type must be one of {allowed} on this backend, not {quoted(amphora_type)}.'
    )


def _metadata(metadata: Mapping[str, str] | None, limits: Limits) -> Mapping[str, str]:
    if metadata is None:
        return _NO_FACTS
    metadata = _entries('metadata', metadata, 'be a mapping of strings')
    if len(metadata) > limits.max_metadata_items:
        raise InvalidRequest(
            f'metadata has {len(metadata)} items; at most {limits.max_metadata_items} are allowed.'
        )
    checked = {}
    for given, value in metadata.items():
        key = check_text('a metadata key', given)
        if key.startswith(RESERVED_METADATA):
            raise InvalidRequest(f'metadata key {key!r} is reserved; use another prefix.')
        text = _plain(value) if isinstance(value, str) else None
        if text is None or len(text) > MAX_TEXT or not _is_encodable(text):
            raise InvalidRequest(
                f'metadata {key!r} must be a string of at most {MAX_TEXT} '
                f'characters of Unicode, which this {_kind(value)} is not.'
            )
        checked[key] = text
    return MappingProxyType(checked)


def _files(files: Mapping[str, Any] | None, limits: Limits) -> tuple[InjectedFile, ...]:
    if files is None:
        return ()
    files = _entries('config_drive_files', files, 'map paths to contents')
    if len(files) > limits.max_files:
        raise InvalidRequest(
            f'config_drive_files has {len(files)} entries; at most {limits.max_files} are allowed.'
        )
    return tuple(_file(path, value, limits) for path, value in files.items())


def _file(given: object, value: Any, limits: Limits) -> InjectedFile:
    path = _plain(given) if isinstance(given, str) else None
    if path is None or not path.startswith('/') or path.endswith('/'):
        raise InvalidRequest(
            f'a path of config_drive_files must be absolute and name a file, not {quoted(given)}.'
        )
    check_text('a config_drive_files path', path)
    if '..' in path.split('/'):
        raise InvalidRequest(f'config_drive_files path {path!r} must not lead upwards.')
    mode, owner = 0o644, 'root'
    if isinstance(value, tuple):
        if len(value) != 3 or not _is_mode(value[1]):
            raise InvalidRequest(
                f'file {path} must be its content, or (content, mode, owner) '
                f'with a mode such as 0o600.'
            )
        value, mode, owner = value[0], value[1], check_text(f'the owner of {path}', value[2])
    content = _content(f'file {path}', value, limits.max_file_bytes)
    return InjectedFile(path=path, content=content, mode=mode, owner=owner)


def _is_mode(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 0o7777


def _is_encodable(value: str) -> bool:
    # Half of a surrogate pair cannot be encoded, so it cannot be sent to a backend.
    return not any('\ud800' <= character <= '\udfff' for character in value)


def _user_data(user_data: Any, limits: Limits) -> bytes | None:
    if user_data is None:
        return None
    return _content('user_data', user_data, limits.max_user_data_bytes)


def _content(what: str, value: Any, max_bytes: int) -> bytes:
    try:
        if hasattr(value, 'read'):
            # One character more than allowed proves that it is too much, and an endless
            # file cannot fill the memory.
            value = value.read(max_bytes + 1)
        if isinstance(value, str):
            value = value.encode()
    # The caller's own file, which can raise anything.
    except Exception as exc:
        # Neither quoted nor chained: the error of a codec holds the content.
        raise InvalidRequest(f'{what} cannot be read ({_kind(exc)}).') from None
    if not isinstance(value, bytes | bytearray):
        raise InvalidRequest(f'{what} must be a string, bytes or a file, not {_kind(value)}.')
    if len(value) > max_bytes:
        raise UserDataTooLarge(
            f'Cannot build: {what} is larger than {max_bytes} bytes, the limit of this backend.'
        )
    return bytes(value)


_OPTIONS = {
    'amphora_flavor': 'flavor',
    'config_drive_files': 'files',
}


def _refuse_unknown_options(request: BuildRequest, limits: Limits) -> None:
    for option in sorted(limits.refused_options):
        if getattr(request, _OPTIONS.get(option, option)):
            raise InvalidRequest(f'this backend does not support {option}.')
