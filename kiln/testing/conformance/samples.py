"""Sample calls, one for each ability, on something that does not exist."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.models import Ability, Resource

_Ask = Callable[[AmphoraComputeDriver, str], Any]

#: Calls by instance id; calls for groups are separate, as creating a group would succeed.
OF_INSTANCES: Mapping[Ability, _Ask] = {
    Ability.SUSPEND: lambda driver, id_: driver.suspend(id_),
    Ability.RESUME: lambda driver, id_: driver.resume(id_),
    Ability.REBOOT: lambda driver, id_: driver.reboot(id_),
    Ability.REBUILD: lambda driver, id_: driver.rebuild(id_),
    Ability.ATTACH_PORT: lambda driver, id_: driver.attach_port(id_, id_),
    Ability.DETACH_PORT: lambda driver, id_: driver.detach_port(id_, id_),
    Ability.ATTACH_NETWORK: lambda driver, id_: driver.attach_network(id_, id_),
    Ability.DETACH_NETWORK: lambda driver, id_: driver.detach_network(id_, id_),
    Ability.CONSOLE_LOG: lambda driver, id_: driver.console_log(id_),
}
_OTHERS: Mapping[Ability, _Ask] = {
    Ability.CREATE_SERVER_GROUP: lambda driver, id_: driver.create_server_group(id_, 'affinity'),
    Ability.DELETE_SERVER_GROUP: lambda driver, id_: driver.delete_server_group(id_),
    Ability.VALIDATE_FLAVOR: lambda driver, id_: driver.validate_flavor(id_),
    Ability.VALIDATE_IMAGE: lambda driver, id_: driver.validate_image(id_),
    Ability.VALIDATE_ZONE: lambda driver, id_: driver.validate_zone(id_),
    Ability.DESCRIBE_IMAGE: lambda driver, id_: driver.describe_image(id_),
    Ability.LIST_ZONES: lambda driver, id_: driver.list_zones(),
    Ability.LIST_RESOURCES: lambda driver, id_: list(driver.list_resources()),
    Ability.DELETE_RESOURCE: lambda driver, id_: driver.delete_resource(
        Resource(kind='port', id=id_, owner=driver.owner)
    ),
}


def ask(driver: AmphoraComputeDriver, ability: Ability, id_: str) -> Any:
    """Make the sample call of an ability."""
    return (OF_INSTANCES.get(ability) or _OTHERS[ability])(driver, id_)
