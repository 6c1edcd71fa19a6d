"""Argument checks for each compute call, new or restored; pure."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from kiln.compute_drivers import validation
from kiln.compute_drivers.calls import Call
from kiln.compute_drivers.validation import quoted
from kiln.exceptions import InvalidRequest
from kiln.models import State

_PORT_TEXT = re.compile('([0-9]{1,5})/(?:tcp|udp)')
_LAST_PORT = 65_535

#: Returns an argument as the hook receives it.
_Check = Callable[[Any], Any]


def count(call: Call) -> int:
    """Return the number of arguments of a call's hook."""
    return len(_CHECKS[call])


def checked(call: Call, owner: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the checked arguments of a call's hook, for the site of an owner.

    :raises InvalidRequest: an argument is wrong, or belongs to another site.
    """
    checks = _CHECKS[call]
    if len(args) != len(checks):
        raise InvalidRequest(f'{call.label} takes {len(checks)} arguments, not {len(args)}.')
    if checks is _RESOURCE:
        validation.check_own_resource(args[0], owner)
        return args
    # A fast path, because each submitted call passes here, and most have one argument.
    if len(args) == 1:
        return (checks[0](args[0]),)
    return tuple(map(operator.call, checks, args))


def _group_names(argument: str, values: object) -> tuple[str, ...]:
    items = validation.check_items(argument, values, 'strings')
    return tuple(validation.check_text(argument, item) for item in items)


def _peers(values: object) -> tuple[str, ...] | None:
    return None if values is None else _group_names('peers', values)


def _ports(values: object) -> tuple[str, ...]:
    return tuple(map(_port, validation.check_items('ports', values, 'strings')))


def _port(value: object) -> str:
    text = validation.check_text('ports', value)
    found = _PORT_TEXT.fullmatch(text)
    if found is None or not 0 < int(found[1]) <= _LAST_PORT:
        raise InvalidRequest(f"ports must be like '2377/tcp' or '53/udp', not {quoted(text)}.")
    return text


def _text(argument: str) -> _Check:
    return functools.partial(validation.check_text, argument)


def _optional_text(argument: str) -> _Check:
    return functools.partial(validation.check_optional, argument)


AMPHORA_ID = _text('amphora_id')
_IMAGE = _text('image_id')
_NETWORK = _text('network_id')
_PORT = _text('port_id')
_STATE = functools.partial(validation.check_choice, 'state', kind=State)
#: Checked against the owner of the site by checked() itself.
_RESOURCE: tuple[_Check, ...] = (lambda value: value,)

#: For each call, a check for each argument of its hook. A build has many arguments and is
#: checked by :func:`kiln.compute_drivers.validation.build_request`.
_CHECKS: Mapping[Call, tuple[_Check, ...]] = {
    Call.DELETE: (AMPHORA_ID,),
    Call.GET: (AMPHORA_ID,),
    Call.FIND: (_text('amphora_name'),),
    Call.FIND_BUILD: (_text('build_key'),),
    Call.LIST: (validation.check_owner,),
    Call.STATUS: (AMPHORA_ID,),
    Call.STATUSES: (validation.check_ids,),
    Call.CHANGES: (validation.check_cursor,),
    Call.REACHED: (_STATE, validation.check_cursor),
    Call.CHECK: (),
    Call.SUSPEND: (AMPHORA_ID,),
    Call.RESUME: (AMPHORA_ID,),
    Call.REBOOT: (AMPHORA_ID, functools.partial(validation.check_flag, 'hard')),
    Call.REBUILD: (AMPHORA_ID, _optional_text('image_id')),
    Call.ATTACH_PORT: (AMPHORA_ID, _PORT),
    Call.DETACH_PORT: (AMPHORA_ID, _PORT),
    Call.ATTACH_NETWORK: (AMPHORA_ID, _NETWORK, validation.check_address),
    Call.DETACH_NETWORK: (AMPHORA_ID, _NETWORK),
    Call.CREATE_SERVER_GROUP: (_text('name'), _text('policy')),
    Call.DELETE_SERVER_GROUP: (_text('server_group_id'),),
    Call.VALIDATE_FLAVOR: (_text('flavor'),),
    Call.VALIDATE_IMAGE: (_IMAGE,),
    Call.VALIDATE_ZONE: (_text('availability_zone'),),
    Call.VALIDATE_NETWORK: (_text('network_id'),),
    Call.VALIDATE_SECURITY_GROUP: (_text('security_group'),),
    Call.CHECK_PORTS: (functools.partial(_group_names, 'sec_groups'), _ports, _peers),
    Call.DESCRIBE_IMAGE: (_IMAGE,),
    Call.LIST_ZONES: (),
    Call.LIST_RESOURCES: (validation.check_owner,),
    Call.DELETE_RESOURCE: _RESOURCE,
    Call.CONSOLE_LOG: (AMPHORA_ID, validation.check_lines),
    Call.CLAIM: (AMPHORA_ID, validation.check_build_key),
}
