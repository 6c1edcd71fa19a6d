"""Documents that programs read: what is desired of a cluster, and its secrets apart; no I/O."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kiln.cluster_drivers.command.protocol import API, Verb
from kiln.cluster_drivers.parameters import Parameter
from kiln.cluster_drivers.values import Context
from kiln.clusters.models import Cluster
from kiln.clusters.spec import ClusterSpec
from kiln.exceptions import encodings

Parameters = Mapping[str, Parameter]
_MASK = '***'
#: Shorter secrets are masked only where they are a whole value.
_SHORTEST = 4
#: Shorter lines of a longer secret can be ordinary words.
_SHORTEST_LINE = 8


def document(
    verb: Verb,
    context: Context,
    cluster: Cluster,
    parameters: Parameters,
    *,
    state: Mapping[str, Any],
    handle: str | None,
    **more: Any,
) -> dict[str, Any]:
    """Return the document of a call; secret parameters are left out."""
    former = cluster.former.spec if cluster.former else None
    return {
        'api': API,
        'verb': verb.value,
        'site': context.site,
        'cluster': {
            'id': cluster.id,
            'name': cluster.name,
            'generation': cluster.generation,
            'coe': cluster.spec.coe,
            'template': cluster.spec.template,
        },
        'desired': desired(context, cluster, cluster.spec, parameters),
        'former': desired(context, cluster, former, parameters) if former else None,
        'driver_state': dict(state),
        'driver_handle': handle,
        **more,
    }


def desired(
    context: Context, cluster: Cluster, spec: ClusterSpec, parameters: Parameters
) -> dict[str, Any]:
    """Return what a cluster is to be: each group with its count and all values of its machines."""
    of = dataclasses.replace(cluster, spec=spec)
    return {
        'groups': [
            {
                'name': group.name,
                'role': group.role,
                'count': group.shape.count,
                'flavors': dict(group.shape.flavors),
                'zones': {
                    'rule': group.shape.zones.rule.value,
                    'names': list(group.shape.zones.names),
                    'counts': dict(group.shape.zones.counts),
                },
                **_machine(context, of, group.name, parameters),
            }
            for group in spec.groups
        ]
    }


def _machine(
    context: Context, cluster: Cluster, group: str, parameters: Parameters
) -> dict[str, Any]:
    machine = context.effective(cluster, group).machine
    values = {name: one.default for name, one in parameters.items() if one.default is not None}
    values |= {
        name: value
        for name, value in machine.parameters.items()
        if not (name in parameters and parameters[name].secret)
    }
    return {
        'image': machine.image,
        'flavor': machine.flavor,
        'server_type': machine.server_type.value if machine.server_type else None,
        'keys': list(machine.keys or ()),
        'networks': list(machine.networks or ()),
        'sec_groups': list(machine.sec_groups or ()),
        'parameters': values,
    }


def request_id(cluster: Cluster, verb: Verb, asked: Mapping[str, Any]) -> str:
    """Return the id of a request: the same for each call that asks the same of a cluster.

    What is asked again later has another generation of the cluster in between.
    """
    whole = json.dumps([cluster.id, cluster.generation, verb.value, asked], sort_keys=True)
    return hashlib.sha256(whole.encode()).hexdigest()[:32]


# ---- secrets -------------------------------------------------------------------------------


class Secrets:
    """The secrets of one call: what the program reads, and the mask of what it prints."""

    def __init__(self, context: Context, cluster: Cluster, parameters: Parameters) -> None:
        """Fetch all that a program is given.

        :raises ClusterDriverError: the store does not have one of them.
        """
        named = context.credentials
        self._groups = {
            group.name: dict(_values(context, cluster, group.name, parameters))
            for group in cluster.spec.groups
        }
        self._credentials = context.secrets.get(named) if named else None

    def document(self) -> bytes:
        """Return what the program reads from file 3: one JSON document on one line."""
        whole = {'credentials': self._credentials, 'groups': self._groups}
        return json.dumps(whole).encode() + b'\n'

    def mask(self, value: Any) -> Any:
        """Return text or plain data without the secrets."""
        if isinstance(value, str):
            return self._masked(value)
        if isinstance(value, Mapping):
            return {self._masked(name): self.mask(inner) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.mask(inner) for inner in value]
        return value

    def told_in(self, text: str) -> bool:
        """Return True if a text has a secret in it."""
        return any(one in text for one in self._known if len(one) >= _SHORTEST)

    def _masked(self, text: str) -> str:
        for one in self._known:
            if text == one:
                return _MASK
            if len(one) >= _SHORTEST:
                text = text.replace(one, _MASK)
        return text

    @functools.cached_property
    def _known(self) -> Sequence[str]:
        """The secrets in the forms that a program can print them in, the longest first.

        One secret can be a part of another.
        """
        whole = {value for group in self._groups.values() for value in group.values()}
        whole |= {self._credentials} if self._credentials else set()
        forms = {form for one in whole for form in _forms(one)}
        return sorted(filter(None, forms), key=len, reverse=True)


def _forms(secret: str) -> Iterator[str]:
    """Yield a secret as it is, encoded, and the lines of a longer one."""
    yield secret
    for whole in (secret, secret.strip()):
        yield from (form for form in encodings(whole) if len(form) >= _SHORTEST)
    lines = [line.strip() for line in secret.splitlines()]
    if len(lines) > 1:
        yield from (line for line in lines if len(line) >= _SHORTEST_LINE)


def _values(
    context: Context, cluster: Cluster, group: str, parameters: Parameters
) -> Iterator[tuple[str, str]]:
    given = context.effective(cluster, group).machine.parameters
    for name, one in parameters.items():
        if one.secret and isinstance(given.get(name), str):
            yield name, context.secrets.get(given[name])
