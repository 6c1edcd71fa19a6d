"""Checks of the contract's arguments, made once, before any backend is asked.

Pure functions: arguments in, frozen values out, or one clear error.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

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

#: Metadata keys that begin so are kiln's own, on every backend.
RESERVED_METADATA = 'kiln:'
#: The longest a caller may allow an operation to take.
MAX_TIMEOUT_S = 366 * 86_400.0

_NO_FACTS: Mapping[str, str] = MappingProxyType({})

# As strict as the strictest backend: Nova allows 60 characters in a tag, with
# neither '/' nor ',', and kiln puts its own prefix before the key.
_BUILD_KEY = re.compile(r'[A-Za-z0-9][A-Za-z0-9._:-]{0,47}')
_OWNER = re.compile(r'[A-Za-z0-9][A-Za-z0-9._-]{0,31}')


def build_request(
    limits: Limits,
    *,
    owner: str,
    amphora_type: AmphoraType | str = AmphoraType.VM,
    amphora_flavor: str | None = None,
    image_id: str | None = None,
    keys: Iterable[str] | None = None,
    sec_groups: Iterable[str] | None = None,
    network_ids: Iterable[str] | None = None,
    config_drive_files: Mapping[str, Any] | None = None,
    user_data: Any = None,
    name: str | None = None,
    build_key: str | None = None,
    port_ids: Iterable[str] | None = None,
    availability_zone: str | None = None,
    server_group_id: str | None = None,
    metadata: Mapping[str, str] | None = None,
) -> BuildRequest:
    """Turn the arguments of ``build()`` into one request the backend can take.

    :raises InvalidBuildRequest: an argument can never be right.
    :raises UserDataTooLarge: a content is larger than the limits allow.
    """
    key = _build_key(build_key)
    request = BuildRequest(
        build_key=key,
        fresh=build_key is None,
        name=_name(name, key, limits),
        owner=check_owner(owner),
        amphora_type=_amphora_type(amphora_type, limits),
        flavor=_optional('amphora_flavor', amphora_flavor),
        image_id=_optional('image_id', image_id),
        keys=_texts('keys', keys),
        sec_groups=_texts('sec_groups', sec_groups),
        network_ids=_texts('network_ids', network_ids),
        port_ids=_texts('port_ids', port_ids),
        availability_zone=_optional('availability_zone', availability_zone),
        server_group_id=_optional('server_group_id', server_group_id),
        metadata=_metadata(metadata, limits),
        files=_files(config_drive_files, limits),
        user_data=_user_data(user_data, limits),
    )
    _refuse_unknown_options(request, limits)
    return request


def check_text(argument: str, value: object, *, max_length: int = 255) -> str:
    """Return a non-empty, printable string, or say which argument is not one."""
    if not isinstance(value, str):
        raise InvalidRequest(f'{argument} must be a string, not {_kind(value)}.')
    if not value or value != value.strip():
        # Not quoted: the argument may be a whole key, read with its line end.
        raise InvalidRequest(f'{argument} is empty or has spaces around it.')
    if len(value) > max_length:
        raise InvalidRequest(
            f'{argument} has {len(value)} characters; at most {max_length} are allowed.'
        )
    if not value.isprintable():
        raise InvalidRequest(f'{argument} has a character that cannot be printed.')
    return value


def check_owner(owner: object) -> str:
    """Return the owner tag of a site, or say why it cannot be one."""
    if not isinstance(owner, str) or not _OWNER.fullmatch(owner):
        raise InvalidRequest(
            f'owner {owner!r} must be 1 to 32 letters, digits, dots, dashes or underscores.'
        )
    return owner


def check_timeout(timeout: object) -> float | None:
    """Return seconds, or None for the backend's default."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
        raise InvalidRequest(f'timeout must be a positive number of seconds, not {timeout!r}.')
    # Neither the system's own timers nor a vendor's client take an infinite one.
    if timeout > MAX_TIMEOUT_S:
        raise InvalidRequest(f'timeout must be a year at most, not {timeout!r} seconds.')
    return float(timeout)


def check_ids(amphora_ids: object) -> tuple[str, ...]:
    """Return the ids of amphorae, or say what is wrong with them."""
    # A lone string is iterable too, and would become a list of letters.
    if isinstance(amphora_ids, str | bytes) or not isinstance(amphora_ids, Iterable):
        raise InvalidRequest(f'amphora_ids must be a list of strings, not {_kind(amphora_ids)}.')
    return tuple(check_text('amphora_ids', amphora_id) for amphora_id in amphora_ids)


def check_cursor(since: object) -> str:
    """Return a cursor of an earlier answer, or say that it is none."""
    if not isinstance(since, str):
        raise InvalidRequest(f'since must be a cursor of an earlier answer, not {since!r}.')
    return since


def check_states(goal: object) -> frozenset[State]:
    """Return the states somebody waits for, or say which there are."""
    try:
        return frozenset(State(state) for state in goal)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        allowed = ', '.join(state.value for state in State)
        raise InvalidRequest(f'goal must be a set of {allowed}; not {goal!r}.') from None


def check_placements(placements: object, limits: Limits) -> tuple[Placement, ...]:
    """Return the places a build may go to instead, or say what is wrong with one."""
    if isinstance(placements, str | bytes) or not isinstance(placements, Iterable):
        raise InvalidBuildRequest(
            f'Cannot build: placements must be a list of Placement, not {_kind(placements)}.'
        )
    checked = tuple(placements)
    for place in checked:
        if not isinstance(place, Placement):
            raise InvalidBuildRequest(
                f'Cannot build: placements must be a list of Placement, with {place!r} among them.'
            )
        _optional('the zone of a placement', place.availability_zone)
        _optional('the flavor of a placement', place.amphora_flavor)
        for option in ('availability_zone', 'amphora_flavor'):
            if option in limits.refused_options and getattr(place, option):
                raise InvalidBuildRequest(f'Cannot build: this backend has no notion of {option}.')
    return checked


def check_lines(lines: object) -> None:
    """Say so where this is no number of lines to show."""
    if lines is not None and (isinstance(lines, bool) or not isinstance(lines, int) or lines < 1):
        raise InvalidRequest(f'lines must be a positive number, not {lines!r}.')


def check_own_resource(resource: object, owner: str) -> None:
    """Refuse what is no resource, or is not this site's to delete."""
    if not isinstance(resource, Resource):
        raise InvalidRequest(f'resource must be one of list_resources(), not {resource!r}.')
    if resource.owner != owner:
        raise InvalidRequest(
            f'Cannot delete {resource.kind} {resource.id}: its owner is {resource.owner!r}, '
            f'not this site, {owner!r}.',
            resource_id=resource.id,
        )


def _kind(value: object) -> str:
    return type(value).__name__


def _text(argument: str, value: object, *, max_length: int = 255) -> str:
    try:
        return check_text(argument, value, max_length=max_length)
    except InvalidRequest as exc:
        raise InvalidBuildRequest(f'Cannot build: {exc}') from None


def _optional(argument: str, value: str | None) -> str | None:
    return None if value is None else _text(argument, value)


def _texts(argument: str, values: Iterable[str] | None) -> tuple[str, ...]:
    if values is None:
        return ()
    # A lone string is iterable too, and would become a list of letters.
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InvalidBuildRequest(
            f'Cannot build: {argument} must be a list of strings, not {_kind(values)}.'
        )
    # Keys are whole public keys, far longer than any id.
    texts = tuple(_text(f'{argument}[{i}]', v, max_length=16_384) for i, v in enumerate(values))
    if len(set(texts)) != len(texts):
        raise InvalidBuildRequest(f'Cannot build: {argument} names something twice.')
    return texts


def _build_key(build_key: str | None) -> str:
    if build_key is None:
        return uuid.uuid4().hex
    if not isinstance(build_key, str) or not _BUILD_KEY.fullmatch(build_key):
        raise InvalidBuildRequest(
            f'Cannot build: build_key {build_key!r} must be 1 to 48 letters, digits, '
            f'dots, colons, dashes or underscores.'
        )
    return build_key


def _name(name: str | None, build_key: str, limits: Limits) -> str:
    if name is None:
        return f'amphora-{build_key}'[: limits.max_name_length]
    return _text('name', name, max_length=limits.max_name_length)


def _amphora_type(amphora_type: AmphoraType | str, limits: Limits) -> AmphoraType:
    allowed = ', '.join(sorted(kind.value for kind in limits.amphora_types))
    try:
        kind = AmphoraType(amphora_type)
    except ValueError:
        raise InvalidBuildRequest(
            f'Cannot build: amphora_type {amphora_type!r} is none; this backend builds {allowed}.'
        ) from None
    if kind not in limits.amphora_types:
        raise InvalidBuildRequest(
            f'Cannot build: this backend builds no {kind.value}, only {allowed}.'
        )
    return kind


def _metadata(metadata: Mapping[str, str] | None, limits: Limits) -> Mapping[str, str]:
    if metadata is None:
        return _NO_FACTS
    if not isinstance(metadata, Mapping):
        raise InvalidBuildRequest(
            f'Cannot build: metadata must be a mapping of strings, not {_kind(metadata)}.'
        )
    if len(metadata) > limits.max_metadata_items:
        raise InvalidBuildRequest(
            f'Cannot build: metadata has {len(metadata)} items; at most '
            f'{limits.max_metadata_items} are allowed.'
        )
    for key, value in metadata.items():
        _text('a metadata key', key)
        if key.startswith(RESERVED_METADATA):
            raise InvalidBuildRequest(
                f'Cannot build: metadata key {key!r} is reserved; use another prefix.'
            )
        if not isinstance(value, str) or len(value) > 255:
            raise InvalidBuildRequest(
                f'Cannot build: metadata {key!r} must be a string of at most 255 characters.'
            )
    return MappingProxyType(dict(metadata))


def _files(files: Mapping[str, Any] | None, limits: Limits) -> tuple[InjectedFile, ...]:
    if files is None:
        return ()
    if not isinstance(files, Mapping):
        raise InvalidBuildRequest(
            f'Cannot build: config_drive_files must map paths to contents, not {_kind(files)}.'
        )
    if len(files) > limits.max_files:
        raise InvalidBuildRequest(
            f'Cannot build: config_drive_files has {len(files)} entries; at most '
            f'{limits.max_files} are allowed.'
        )
    return tuple(_file(path, value, limits) for path, value in files.items())


def _file(path: object, value: Any, limits: Limits) -> InjectedFile:
    if not isinstance(path, str) or not path.startswith('/') or path.endswith('/'):
        raise InvalidBuildRequest(
            f'Cannot build: config_drive_files path {path!r} must be an absolute file path.'
        )
    _text('a config_drive_files path', path)
    if '..' in path.split('/'):
        raise InvalidBuildRequest(
            f'Cannot build: config_drive_files path {path!r} must not lead upwards.'
        )
    mode, owner = 0o644, 'root'
    if isinstance(value, tuple):
        if len(value) != 3 or not isinstance(value[1], int) or not 0 <= value[1] <= 0o7777:
            raise InvalidBuildRequest(
                f'Cannot build: file {path} must be its content, or (content, mode, owner) '
                f'with a mode such as 0o600.'
            )
        value, mode, owner = value[0], value[1], _text(f'the owner of {path}', value[2])
    content = _content(f'file {path}', value, limits.max_file_bytes)
    return InjectedFile(path=path, content=content, mode=mode, owner=owner)


def _user_data(user_data: Any, limits: Limits) -> bytes | None:
    if user_data is None:
        return None
    return _content('user_data', user_data, limits.max_user_data_bytes)


def _content(what: str, value: Any, max_bytes: int) -> bytes:
    try:
        if hasattr(value, 'read'):
            # One more than allowed is enough to know that it is too much, and a
            # file without end cannot fill the memory.
            value = value.read(max_bytes + 1)
        if isinstance(value, str):
            value = value.encode()
    except (OSError, ValueError) as exc:
        # Neither quoted nor chained: the error of a codec holds the content.
        raise InvalidBuildRequest(f'Cannot build: {what} cannot be read ({_kind(exc)}).') from None
    if not isinstance(value, bytes | bytearray):
        raise InvalidBuildRequest(
            f'Cannot build: {what} must be a string, bytes or a file, not {_kind(value)}.'
        )
    if len(value) > max_bytes:
        raise UserDataTooLarge(
            f'Cannot build: {what} is larger than {max_bytes} bytes, which is all this '
            f'backend takes.'
        )
    return bytes(value)


_OPTIONS = {
    'amphora_flavor': 'flavor',
    'config_drive_files': 'files',
}


def _refuse_unknown_options(request: BuildRequest, limits: Limits) -> None:
    for option in sorted(limits.refused_options):
        if getattr(request, _OPTIONS.get(option, option)):
            raise InvalidBuildRequest(f'Cannot build: this backend has no notion of {option}.')
