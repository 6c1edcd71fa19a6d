"""Argument checks of each compute call, for calls made now and for calls restored; pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kiln.compute_drivers import validation
from kiln.compute_drivers.calls import Call
from kiln.exceptions import InvalidRequest
from kiln.models import State

#: Returns an argument as the hook gets it; is given the owner of the site too.
_Check = Callable[[Any, str], Any]


def checked(call: Call, owner: str, *args: Any) -> tuple[Any, ...]:
    """Return the arguments of a call's hook, for the site of an owner.

    :raises InvalidRequest: an argument is wrong, or is not this site's to act on.
    """
    checks = _CHECKS[call]
    if len(args) != len(checks):
        raise InvalidRequest(f'{call.label} takes {len(checks)} arguments, not {len(args)}.')
    return tuple([check(arg, owner) for check, arg in zip(checks, args, strict=True)])


def _text(argument: str) -> _Check:
    return lambda value, owner: validation.check_text(argument, value)


def _optional_text(argument: str) -> _Check:
    return lambda value, owner: None if value is None else validation.check_text(argument, value)


def _flag(argument: str) -> _Check:
    return lambda value, owner: validation.check_flag(argument, value)


def _owner(value: Any, owner: str) -> Any:
    return validation.check_owner(value)


def _ids(value: Any, owner: str) -> Any:
    return validation.check_ids(value)


def _cursor(value: Any, owner: str) -> Any:
    return validation.check_cursor(value)


def _state(value: Any, owner: str) -> Any:
    return validation.check_choice('state', value, State)


def _lines(value: Any, owner: str) -> Any:
    validation.check_lines(value)
    return value


def _resource(value: Any, owner: str) -> Any:
    validation.check_own_resource(value, owner)
    return value


_AMPHORA = _text('amphora_id')
_IMAGE = _text('image_id')
_NETWORK = _text('network_id')
_PORT = _text('port_id')

#: By call, a check for each argument of its hook. A build has many arguments and is
#: checked by :func:`kiln.compute_drivers.validation.build_request`.
_CHECKS: Mapping[Call, tuple[_Check, ...]] = {
    Call.DELETE: (_AMPHORA,),
    Call.GET: (_AMPHORA,),
    Call.FIND: (_text('amphora_name'),),
    Call.FIND_BUILD: (_text('build_key'),),
    Call.LIST: (_owner,),
    Call.STATUS: (_AMPHORA,),
    Call.STATUSES: (_ids,),
    Call.CHANGES: (_cursor,),
    Call.REACHED: (_state, _cursor),
    Call.CHECK: (),
    Call.SUSPEND: (_AMPHORA,),
    Call.RESUME: (_AMPHORA,),
    Call.REBOOT: (_AMPHORA, _flag('hard')),
    Call.REBUILD: (_AMPHORA, _optional_text('image_id')),
    Call.ATTACH_PORT: (_AMPHORA, _PORT),
    Call.DETACH_PORT: (_AMPHORA, _PORT),
    Call.ATTACH_NETWORK: (_AMPHORA, _NETWORK, _optional_text('address')),
    Call.DETACH_NETWORK: (_AMPHORA, _NETWORK),
    Call.CREATE_SERVER_GROUP: (_text('name'), _text('policy')),
    Call.DELETE_SERVER_GROUP: (_text('server_group_id'),),
    Call.VALIDATE_FLAVOR: (_text('flavor'),),
    Call.VALIDATE_IMAGE: (_IMAGE,),
    Call.VALIDATE_ZONE: (_text('availability_zone'),),
    Call.DESCRIBE_IMAGE: (_IMAGE,),
    Call.LIST_ZONES: (),
    Call.LIST_RESOURCES: (_owner,),
    Call.DELETE_RESOURCE: (_resource,),
    Call.CONSOLE_LOG: (_AMPHORA, _lines),
}
