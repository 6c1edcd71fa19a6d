"""Parameters of the template: the members of the group, and maps by their index; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kiln.cluster_drivers.heat.ledger import LedgerNode
from kiln.clusters.spec import MachineSpec

#: The security group that a project has from the beginning.
_DEFAULT = 'default'


def params_of(nodes: Sequence[tuple[LedgerNode, MachineSpec]], last: int) -> Mapping[str, Any]:
    """Return the parameters for some nodes; the index of each is its number.

    :param last: The highest number that was ever given.
    """
    known = {node.number: (node, machine) for node, machine in nodes}
    if not known:
        return {'count': 0}
    # Heat ignores the removal of a member that it never had, as after a change that another
    # one has overtaken, and makes it. It is removed with the next request; until then it
    # has to be one that can be made.
    spare = known[max(known)]
    members = {str(index): known.get(index, spare) for index in range(last + 1)}
    return {
        'count': len(known),
        # Numbers begin at 1, indices at 0.
        'removed': [index for index in range(last + 1) if index not in known],
        'groups': {index: node.group for index, (node, _) in members.items()},
        'flavors': {
            index: node.place.flavor or machine.flavor
            for index, (node, machine) in members.items()
        },
        'zones': {index: node.place.zone or '' for index, (node, _) in members.items()},
        'machines': {node.group: _machine(machine) for node, machine in nodes},
    }


def _machine(machine: MachineSpec) -> Mapping[str, Any]:
    groups = [_DEFAULT] if machine.sec_groups is None else list(machine.sec_groups)
    return {
        'image': machine.image,
        'network': next(iter(machine.networks or ()), ''),
        'sec_groups': groups,
        'key': next(iter(machine.keys or ()), ''),
    }
