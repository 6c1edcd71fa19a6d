"""Ports that the rules of security groups leave closed, and the words for them; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from kiln.compute_drivers.authoring.error_context import Asked

#: What Neutron gives a port that names no groups. Its own rules let its members in.
DEFAULT_GROUPS = ('default',)
#: The protocols of a port by the names and numbers that a rule can have for each.
_NAMES = {'tcp': ('tcp', '6'), 'udp': ('udp', '17')}
_ANY = (None, '', 'any', '0')


def closed_ports(
    rules: Iterable[Mapping[str, Any]], ports: Sequence[str], peers: Collection[str]
) -> tuple[str, ...]:
    """Return the ports, such as ``2377/tcp``, that no rule opens to members of the peers.

    The rules are those of all groups of a machine, as Neutron shows them. A rule for some
    addresses counts as open: whether the peers have them is not known. So does a rule for
    IPv4 or for IPv6 alone.
    """
    let_in = [rule for rule in rules if rule['direction'] == 'ingress' and _admits(rule, peers)]
    return tuple(port for port in ports if not any(_covers(rule, port) for rule in let_in))


def _admits(rule: Mapping[str, Any], peers: Collection[str]) -> bool:
    group = rule.get('remote_group_id')
    return group is None or group in peers


def _covers(rule: Mapping[str, Any], port: str) -> bool:
    number, _, protocol = port.partition('/')
    ruled = rule.get('protocol')
    if ruled not in _ANY and str(ruled).lower() not in _NAMES[protocol]:
        return False
    first, last = rule.get('port_range_min'), rule.get('port_range_max')
    return (first is None or first <= int(number)) and (last is None or int(number) <= last)


def about_groups(groups: Sequence[str]) -> Asked:
    """Return the context of a request about security groups."""
    if len(groups) == 1:
        return Asked.of('use security group', groups[0])
    return Asked(verb='use', subject=f'security groups {", ".join(groups)} together')


def reason(closed: Sequence[str], peers: Sequence[str]) -> str:
    """Return why groups are refused; no peers are the groups themselves."""
    whom = f'members of {", ".join(peers)}' if peers else 'other members'
    return (
        f'no rule opens {", ".join(closed)} to {whom}. Add a rule for each port, with '
        f'{peers[0] if peers else "the group itself"} as its remote group.'
    )
