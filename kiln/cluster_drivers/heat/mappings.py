"""Mappings of a stack template: its parameters and outputs, as frozen values."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kiln.cluster_drivers.heat.ledger import ledger_of, node_name
from kiln.cluster_drivers.parameters import NAME, NAMING, Parameter, ParameterType
from kiln.cluster_drivers.values import Context
from kiln.clusters.models import Cluster
from kiln.clusters.spec import MachineSpec

#: The types of HOT parameters that values of each type of kiln fit.
HOT_TYPES: Mapping[ParameterType, frozenset[str]] = {
    ParameterType.STRING: frozenset({'string'}),
    ParameterType.INTEGER: frozenset({'number'}),
    ParameterType.NUMBER: frozenset({'number'}),
    ParameterType.BOOLEAN: frozenset({'boolean'}),
    ParameterType.LIST: frozenset({'comma_delimited_list', 'json'}),
    ParameterType.MAP: frozenset({'json'}),
}

_STRING, _LIST = ParameterType.STRING, ParameterType.LIST


def _first(values: tuple[str, ...] | None) -> str | None:
    return values[0] if values else None


def _list(values: tuple[str, ...] | None) -> list[str] | None:
    return None if values is None else list(values)


_MACHINE: Mapping[str, tuple[ParameterType, Callable[[MachineSpec], Any]]] = {
    'image': (_STRING, lambda machine: machine.image),
    'flavor': (_STRING, lambda machine: machine.flavor),
    'key': (_STRING, lambda machine: _first(machine.keys)),
    'keys': (_LIST, lambda machine: _list(machine.keys)),
    'network': (_STRING, lambda machine: _first(machine.networks)),
    'networks': (_LIST, lambda machine: _list(machine.networks)),
    'sec_groups': (_LIST, lambda machine: _list(machine.sec_groups)),
}
_SITE = ('site', 'cluster.id', 'cluster.name', 'cluster.coe')
COUNT = 'count'
#: The numbers that no node of a group has: with it, kiln says which nodes the group has.
REMOVED = 'group.removed'

#: The facts that a parameter can have its value from, and their types; a fact of a group
#: needs its name.
FACTS: Mapping[str, ParameterType] = {
    **dict.fromkeys(_SITE, _STRING),
    **{f'{scope}.{COUNT}': ParameterType.INTEGER for scope in ('cluster', 'group')},
    REMOVED: _LIST,
    **{
        f'{scope}.{name}': _MACHINE[name][0] for scope in ('cluster', 'group') for name in _MACHINE
    },
}
#: The last words of the facts that each field of a machine is used for.
USES: Mapping[str, frozenset[str]] = {
    'image': frozenset({'image'}),
    'flavor': frozenset({'flavor'}),
    'keys': frozenset({'key', 'keys'}),
    'networks': frozenset({'network', 'networks'}),
    'sec_groups': frozenset({'sec_groups'}),
}
GROUP_FACTS = frozenset(name for name in FACTS if name.startswith('group.'))


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ParameterMapping(Parameter):
    """A parameter of the template, and the source of its value.

    ``source`` is one of :data:`FACTS`. Without a source, the value is the parameter of that
    name: from the named group, else the cluster, else its template, else the default. A
    parameter that has no value at all is left to the template.
    """

    source: str | None = None
    #: The group whose value or fact it is; None for the cluster's own.
    group: str | None = None

    def contradictions(self) -> Iterator[tuple[str, str]]:
        yield from super(ParameterMapping, self).contradictions()
        if self.source is None:
            return
        if self.source not in FACTS:
            yield 'source', f'nothing is called {self.source!r} here'
        if self.required or self.default is not None or self.secret:
            yield 'source', 'a fact is neither required nor secret, and has no default'
        if (self.source in GROUP_FACTS) is not (self.group is not None):
            yield 'group', 'it goes with a fact of a group, such as group.count, and with no other'

    @property
    def value_type(self) -> ParameterType:
        """The type of its values: that of the fact, or the declared one."""
        return FACTS.get(self.source or '', self.type)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class OutputMapping:
    """Output of a cluster: the value of an output of its stack."""

    name: str = ''
    #: The name of the output in the template; empty for the same name.
    output: str = ''
    #: The group of whose members the value is a map, by their numbers.
    group: str | None = None
    help: str = ''

    def contradictions(self) -> Iterator[tuple[str, str]]:
        if not NAME.fullmatch(self.name):
            yield 'name', NAMING

    @property
    def key(self) -> str:
        """The name of the output in the template."""
        return self.output or self.name

    def shown(self, value: Any) -> Any:
        """Return a value as users see it: that of a group has the names of its nodes."""
        if self.group is None or not isinstance(value, Mapping):
            return value
        return {node_name(self.group, number): one for number, one in value.items()}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Definition:
    """All that makes a stack: the template, its files, and the values of its parameters."""

    template: Mapping[str, Any]
    files: Mapping[str, str]
    params: Mapping[str, Any] = dataclasses.field(repr=False)
    #: The same with the name of each secret in place of the secret.
    shown: Mapping[str, Any]
    #: The secrets among the values, which no message quotes.
    secrets: tuple[str, ...] = dataclasses.field(default=(), repr=False)


def fact(name: str, context: Context, cluster: Cluster, group: str | None) -> Any:
    """Return a fact for the parameters of a stack; None if it is unset."""
    scope, _, field = name.partition('.')
    if name == REMOVED:
        # Heat takes words for the names of members.
        return [str(number) for number in ledger_of(cluster).free(group or '')]
    if name in _SITE:
        return {
            'site': context.site,
            'cluster.id': cluster.id,
            'cluster.name': cluster.name,
            'cluster.coe': cluster.spec.coe,
        }[name]
    if scope == 'cluster' or group is None:
        if field == COUNT:
            return cluster.spec.count
        return _MACHINE[field][1](context.effective(cluster, '').machine)
    if field == COUNT:
        return context.group(cluster, group).shape.count
    return _MACHINE[field][1](context.effective(cluster, group).machine)
