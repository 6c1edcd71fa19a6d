"""Calls of a compute driver, as data for every wrapper."""

from __future__ import annotations

import enum

from kiln.models import Ability


class Traffic(enum.StrEnum):
    """Kinds of calls that fail, queue and recover independently of each other.

    Deletes must work while builds fail, and reads must work while either fails. So each
    kind has its own circuit and its own share of threads.
    """

    READ = 'read'
    BUILD = 'build'
    CHANGE = 'change'


_ABILITIES = {ability.value: ability for ability in Ability}


class Call(enum.Enum):
    """One call: the hook that serves it, its traffic, and whether it is safe to repeat.

    ``repeatable`` means that sending the call twice has the effect of sending it once, so
    it can be retried without checking first.
    """

    hook: str
    traffic: Traffic
    repeatable: bool
    ability: Ability | None

    BUILD = ('_build', Traffic.BUILD, False)
    DELETE = ('_delete', Traffic.CHANGE, True)
    GET = ('_get', Traffic.READ, True)
    FIND = ('_find', Traffic.READ, True)
    FIND_BUILD = ('_find_build', Traffic.READ, True)
    LIST = ('_list', Traffic.READ, True)
    STATUS = ('_status', Traffic.READ, True)
    STATUSES = ('_statuses', Traffic.READ, True)
    CHANGES = ('_changes', Traffic.READ, True)
    REACHED = ('_reached', Traffic.READ, True)
    CHECK = ('_check', Traffic.READ, True)
    SUSPEND = ('_suspend', Traffic.CHANGE, False)
    RESUME = ('_resume', Traffic.CHANGE, False)
    REBOOT = ('_reboot', Traffic.CHANGE, False)
    REBUILD = ('_rebuild', Traffic.CHANGE, False)
    ATTACH_PORT = ('_attach_port', Traffic.CHANGE, True)
    DETACH_PORT = ('_detach_port', Traffic.CHANGE, True)
    ATTACH_NETWORK = ('_attach_network', Traffic.CHANGE, False)
    DETACH_NETWORK = ('_detach_network', Traffic.CHANGE, True)
    CREATE_SERVER_GROUP = ('_create_server_group', Traffic.BUILD, False)
    DELETE_SERVER_GROUP = ('_delete_server_group', Traffic.CHANGE, True)
    VALIDATE_FLAVOR = ('_validate_flavor', Traffic.READ, True)
    VALIDATE_IMAGE = ('_validate_image', Traffic.READ, True)
    VALIDATE_ZONE = ('_validate_zone', Traffic.READ, True)
    VALIDATE_NETWORK = ('_validate_network', Traffic.READ, True)
    VALIDATE_SECURITY_GROUP = ('_validate_security_group', Traffic.READ, True)
    CHECK_PORTS = ('_check_ports', Traffic.READ, True)
    DESCRIBE_IMAGE = ('_describe_image', Traffic.READ, True)
    LIST_ZONES = ('_list_zones', Traffic.READ, True)
    LIST_RESOURCES = ('_list_resources', Traffic.READ, True)
    DELETE_RESOURCE = ('_delete_resource', Traffic.CHANGE, True)
    CONSOLE_LOG = ('_console_log', Traffic.READ, True)
    CLAIM = ('_claim', Traffic.CHANGE, True)

    def __init__(self, hook: str, traffic: Traffic, repeatable: bool) -> None:
        self.hook = hook
        self.traffic = traffic
        self.repeatable = repeatable
        # The name in messages, logs and metrics: 'build', 'find_build'.
        self.label: str = hook[1:]
        # A call that not every backend can serve has the ability of its name.
        self.ability = _ABILITIES.get(self.label)

    # Members are singletons. The enum's own hash is slow Python code, and every call
    # looks up a member.
    __hash__ = object.__hash__
