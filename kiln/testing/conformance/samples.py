"""Sample calls, one for each ability, on something that does not exist."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.models import Ability, Resource

_ATTACHING = frozenset(
    {Ability.ATTACH_PORT, Ability.DETACH_PORT, Ability.ATTACH_NETWORK, Ability.DETACH_NETWORK}
)
#: Abilities of calls that take the id of an instance.
OF_INSTANCES = _ATTACHING.union(
    {Ability.SUSPEND, Ability.RESUME, Ability.REBOOT, Ability.REBUILD},
    {Ability.CONSOLE_LOG, Ability.CLAIM},
)


def ask(driver: AmphoraComputeDriver, ability: Ability, id_: str) -> Any:
    """Make the sample call of an ability, which is named after its method."""
    arguments: Mapping[Ability, tuple[Any, ...]] = {
        **dict.fromkeys(_ATTACHING, (id_, id_)),
        # A key is short; an id of a backend can be long.
        Ability.CLAIM: (id_, 'kit-claim'),
        Ability.CREATE_SERVER_GROUP: (id_, 'affinity'),
        Ability.CHECK_PORTS: ((id_,), ('2377/tcp',)),
        Ability.LIST_ZONES: (),
        Ability.LIST_RESOURCES: (),
        Ability.DELETE_RESOURCE: (Resource(kind='port', id=id_, owner=driver.owner),),
    }
    answer = getattr(driver, ability.value)(*arguments.get(ability, (id_,)))
    # A list can be lazy, and is then refused only when it is read.
    return list(answer) if ability is Ability.LIST_RESOURCES else answer
