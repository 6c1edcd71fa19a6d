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


class Call(enum.Enum):
    """One call: the hook that serves it, its traffic, and whether it is safe to repeat.

    ``repeatable`` means that sending the call twice has the effect of sending it once, so
    it can be retried without checking first.
    """

    hook: str
    traffic: Traffic
    repeatable: bool
    ability: Ability | None

    BUILD = ('_build', Traffic.BUILD, False, None)
    DELETE = ('_delete', Traffic.CHANGE, True, None)
    GET = ('_get', Traffic.READ, True, None)
    FIND = ('_find', Traffic.READ, True, None)
    FIND_BUILD = ('_find_build', Traffic.READ, True, None)
    LIST = ('_list', Traffic.READ, True, None)
    STATUS = ('_status', Traffic.READ, True, None)
    STATUSES = ('_statuses', Traffic.READ, True, None)
    CHANGES = ('_changes', Traffic.READ, True, None)
    REACHED = ('_reached', Traffic.READ, True, None)
    CHECK = ('_check', Traffic.READ, True, None)
    SUSPEND = ('_suspend', Traffic.CHANGE, False, Ability.SUSPEND)
    RESUME = ('_resume', Traffic.CHANGE, False, Ability.RESUME)
    REBOOT = ('_reboot', Traffic.CHANGE, False, Ability.REBOOT)
    REBUILD = ('_rebuild', Traffic.CHANGE, False, Ability.REBUILD)
    ATTACH_PORT = ('_attach_port', Traffic.CHANGE, True, Ability.ATTACH_PORT)
    DETACH_PORT = ('_detach_port', Traffic.CHANGE, True, Ability.DETACH_PORT)
    ATTACH_NETWORK = ('_attach_network', Traffic.CHANGE, False, Ability.ATTACH_NETWORK)
    DETACH_NETWORK = ('_detach_network', Traffic.CHANGE, True, Ability.DETACH_NETWORK)
    CREATE_SERVER_GROUP = (
        '_create_server_group', Traffic.BUILD, False, Ability.CREATE_SERVER_GROUP,
    )  # fmt: skip
    DELETE_SERVER_GROUP = (
        '_delete_server_group', Traffic.CHANGE, True, Ability.DELETE_SERVER_GROUP,
    )  # fmt: skip
    VALIDATE_FLAVOR = ('_validate_flavor', Traffic.READ, True, Ability.VALIDATE_FLAVOR)
    VALIDATE_IMAGE = ('_validate_image', Traffic.READ, True, Ability.VALIDATE_IMAGE)
    VALIDATE_ZONE = ('_validate_zone', Traffic.READ, True, Ability.VALIDATE_ZONE)
    DESCRIBE_IMAGE = ('_describe_image', Traffic.READ, True, Ability.DESCRIBE_IMAGE)
    LIST_ZONES = ('_list_zones', Traffic.READ, True, Ability.LIST_ZONES)
    LIST_RESOURCES = ('_list_resources', Traffic.READ, True, Ability.LIST_RESOURCES)
    DELETE_RESOURCE = ('_delete_resource', Traffic.CHANGE, True, Ability.DELETE_RESOURCE)
    CONSOLE_LOG = ('_console_log', Traffic.READ, True, Ability.CONSOLE_LOG)

    def __init__(
        self, hook: str, traffic: Traffic, repeatable: bool, ability: Ability | None
    ) -> None:
        self.hook = hook
        self.traffic = traffic
        self.repeatable = repeatable
        self.ability = ability
        # The name in messages, logs and metrics: 'build', 'find_build'.
        self.label = hook[1:]

    # Members are singletons. The enum's own hash is slow Python code, and every call
    # looks up a member.
    __hash__ = object.__hash__
