"""Template definition of a Heat driver: the template, its mappings, and their checks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kiln.cluster_drivers.heat.hot import MOST_BYTES, Bundle, bundle_of
from kiln.cluster_drivers.heat.ledger import Ledger, difference, ledger_of
from kiln.cluster_drivers.heat.mappings import (
    COUNT,
    HOT_TYPES,
    REMOVED,
    USES,
    Definition,
    OutputMapping,
    ParameterMapping,
    fact,
)
from kiln.cluster_drivers.templates.declarations import (
    Declarations,
    caller,
    group_path,
    path_of,
    secret_of,
    value_of,
)
from kiln.cluster_drivers.templates.mappings import Spot
from kiln.cluster_drivers.values import Context
from kiln.clusters.exceptions import ClusterDriverError, InvalidClusterDriver, Problem
from kiln.clusters.models import Cluster
from kiln.clusters.spec import MachineSpec, NodeGroupSpec, ZoneRule, given
from kiln.plugins.foreign_files import read_beneath

TEMPLATE = 'stack.yaml'
#: The resources that are nodes: what is on one is lost with it.
NODE_TYPES = frozenset({'OS::Nova::Server'})


class TemplateDefinition(Declarations):
    """A HOT template in a folder, and the mappings between kiln and it.

    Create it, and complete it with ``add_parameter`` and ``add_output``. It is loaded and
    checked as a whole when the driver is opened, and only read afterwards, by any number of
    threads. A subclass can override :meth:`get_params` where a mapping cannot say a value.
    """

    def __init__(
        self, directory: Path, template: str = TEMPLATE, *, spot: Spot | None = None
    ) -> None:
        """Set the directory of the templates, and the name of the one of the stack."""
        super().__init__()
        self._directory = directory
        self._template = template
        self._spot = spot or caller()
        self.bundle = Bundle()
        self.parameters: dict[str, ParameterMapping] = {}
        self.outputs: dict[str, OutputMapping] = {}

    def add_parameter(self, mapping: ParameterMapping, *, spot: Spot | None = None) -> None:
        """Map a parameter of the template to a parameter of clusters, or to a fact."""
        self.declare(self.parameters, 'parameter', mapping.name, mapping, spot or caller())

    def add_output(self, mapping: OutputMapping, *, spot: Spot | None = None) -> None:
        """Show an output of the stack to users."""
        self.declare(self.outputs, 'output', mapping.name, mapping, spot or caller())

    # ---- load ----------------------------------------------------------------------

    def load(self, *, overrides: Path | None = None) -> None:
        """Read the template with its files, and check the mappings against it.

        :param overrides: A directory of files that replace the driver's of the same names.
        :raises InvalidClusterDriver: something does not fit; all mistakes are reported.
        """

        def read(name: str) -> bytes:
            if overrides is not None and (overrides / name).is_file():
                # The operator's own folder can have links, as those of configuration do.
                return (overrides / name).read_bytes()
            whole = self._directory.absolute()
            return read_beneath(whole.parent, f'{whole.name}/{name}', most_bytes=MOST_BYTES)

        self.bundle, found = bundle_of(self._template, read, str(self._directory))
        problems = [*self.mistakes, *found]
        if self.bundle.template:
            problems += [*self._parameter_mistakes(), *self._unmapped(), *self._output_mistakes()]
            problems += self._ledger_mistakes()
        if problems:
            raise InvalidClusterDriver(dict.fromkeys(problems))

    def _parameter_mistakes(self) -> Iterator[Problem]:
        known = self.bundle.parameters
        for name, mapping in self.parameters.items():
            there, spot = known.get(name), self.spots['parameter', name]
            if there is None:
                has = ', '.join(known) or 'none'
                yield spot.problem(f'the template has no parameter {name!r}; it has {has}')
                continue
            if there.type not in HOT_TYPES[mapping.value_type]:
                yield spot.problem(
                    f'parameter {name!r} is of type {mapping.value_type} here, and {there.type} '
                    f'in the template, line {there.line}'
                )
            if mapping.secret and not there.hidden:
                yield self._in_template(
                    there.line, there.column, f'parameter {name!r} is a secret: set hidden: true'
                )
            if there.hidden and not mapping.secret:
                yield spot.problem(
                    f'parameter {name!r} is hidden in the template: it is a secret; set secret: '
                    f'true'
                )

    def _unmapped(self) -> Iterator[Problem]:
        for name, one in self.bundle.parameters.items():
            mapping = self.parameters.get(name)
            if mapping is None and not one.optional:
                message = f'parameter {name!r} has neither a mapping nor a default'
                yield self._in_template(one.line, one.column, message)

    def _output_mistakes(self) -> Iterator[Problem]:
        for name, mapping in self.outputs.items():
            if mapping.key not in self.bundle.outputs:
                has = ', '.join(sorted(self.bundle.outputs)) or 'none'
                yield self.spots['output', name].problem(
                    f'the template has no output {mapping.key!r}; it has {has}'
                )

    def _ledger_mistakes(self) -> Iterator[Problem]:
        removable = self._removable()
        shown = {one.group for one in self.outputs.values()}
        counted = {one.group for one in self.parameters.values() if one.source == f'group.{COUNT}'}
        for group, name in removable.items():
            spot = self.spots['parameter', name]
            if group not in counted:
                yield spot.problem(f'group {group} also needs a parameter from group.{COUNT}')
            if group not in shown:
                yield spot.problem(
                    f'group {group} also needs an output with group: {group}, by which kiln sees '
                    f'which nodes there are'
                )
        for name, output in self.outputs.items():
            if output.group is not None and output.group not in removable:
                yield self.spots['output', name].problem(
                    f'group {output.group} also needs a parameter from {REMOVED}'
                )

    def _removable(self) -> Mapping[str | None, str]:
        """Return the groups of which any node can go, each with the parameter that says so."""
        return {one.group: name for name, one in self.parameters.items() if one.source == REMOVED}

    def _in_template(self, line: int, column: int, message: str) -> Problem:
        return Problem(message=message, file=self.bundle.file, line=line, column=column)

    # ---- fill in -------------------------------------------------------------------

    def planned(self, cluster: Cluster, remove: Sequence[str]) -> Ledger:
        """Return the ledger of the nodes that a cluster is to have; empty without such a group.

        :raises ClusterDriverError: there is no node of a name, or the template chooses it.
        """
        removable = self._removable()
        groups = tuple(group for group in cluster.spec.groups if group.name in removable)
        names = [group.name for group in groups]
        if chosen := [name for name in remove if name.rpartition('-')[0] not in names]:
            raise ClusterDriverError(
                f'Cannot remove {", ".join(chosen)}: the template of the driver chooses itself '
                f'which of such nodes go.',
                f'Name nodes of {", ".join(names)}.' if names else 'Name none.',
            )
        spec = dataclasses.replace(cluster.spec, groups=groups)
        return ledger_of(cluster).changed(spec, cluster.generation, remove)

    def get_params(self, context: Context, cluster: Cluster) -> Mapping[str, Any]:
        """Return the value of each parameter; None for one that is left to the template.

        A secret parameter has the name of its secret.
        """
        return {
            name: self._value(mapping, context, cluster)
            for name, mapping in self.parameters.items()
        }

    def get_env_files(self) -> Mapping[str, str]:
        """Return the files that the template names, by relative names."""
        return self.bundle.files

    def extract_definition(self, context: Context, cluster: Cluster) -> Definition:
        """Return all that makes the stack of a cluster; the same for each call.

        :raises ClusterDriverError: a value or secret is missing.
        """
        shown = {
            name: value
            for name, value in self.get_params(context, cluster).items()
            if value is not None
        }
        secrets = {
            name: secret_of(context, name, shown[name])
            for name, mapping in self.parameters.items()
            if mapping.secret and name in shown
        }
        for name, one in self.bundle.parameters.items():
            if name not in shown and not one.optional:
                raise ClusterDriverError(f'Parameter {name} of the template is unset.')
        return Definition(
            template=self.bundle.template,
            files=self.get_env_files(),
            params={**shown, **secrets},
            shown=shown,
            secrets=tuple(secrets.values()),
        )

    def get_outputs(self, outputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the outputs of a cluster from those of its stack; None for an absent one."""
        return {
            name: mapping.shown(outputs.get(mapping.key)) for name, mapping in self.outputs.items()
        }

    def missed(self, cluster: Cluster, outputs: Mapping[str, Any]) -> str:
        """Return which nodes a group has in place of those of the ledger."""
        ledger = ledger_of(cluster)
        for mapping in self.outputs.values():
            if mapping.group is not None:
                there = mapping.shown(outputs.get(mapping.key))
                there = there if isinstance(there, Mapping) else {}
                expected = [node.name for node in ledger.of(mapping.group)]
                if missed := difference(there, expected):
                    return missed
        return ''

    def _value(self, mapping: ParameterMapping, context: Context, cluster: Cluster) -> Any:
        if mapping.source:
            return fact(mapping.source, context, cluster, mapping.group)
        machine = context.effective(cluster, mapping.group or '').machine
        return value_of(mapping, machine.parameters)

    # ---- check the values of owners ------------------------------------------------

    def value_problems(self, context: Context, cluster: Cluster) -> Iterator[Problem]:
        """Yield the problems in what a cluster gives to the template, before anything is done.

        Secrets are fetched to check that they exist.
        """
        found = [*self._of_cluster(context, cluster)]
        for group in cluster.spec.groups:
            found += self._of_group(context, cluster, group)
        yield from found
        if found:
            return
        try:
            self.extract_definition(context, cluster)
        except ClusterDriverError as exc:
            yield Problem(message=str(exc))

    def _of_cluster(self, context: Context, cluster: Cluster) -> Iterator[Problem]:
        yield from self._unused(cluster.spec.machine, '')
        machine = context.effective(cluster, '').machine
        for name, value in machine.parameters.items():
            mapping = self._settable(name)
            wrong = self._no_such(name) if mapping is None else ''
            if wrong := wrong or (mapping.wrong(value) if mapping and value is not None else ''):
                yield Problem(message=wrong, path=f'parameters.{name}')
        for name, mapping in self.parameters.items():
            if mapping.required and self._value(mapping, context, cluster) is None:
                yield Problem(message=f'the driver needs parameter {name}', path='parameters')

    def _of_group(
        self, context: Context, cluster: Cluster, group: NodeGroupSpec
    ) -> Iterator[Problem]:
        where = group_path(cluster, group.name)
        if not self._takes(group.name):
            known = {one.group for one in self.parameters.values() if one.group}
            has = ', '.join(sorted(known)) or 'none'
            message = f'the template has no group {group.name}; it has {has}'
            yield Problem(message=message, path=where)
        yield from self._unused(group.machine, f'{where}.', group.name)
        for name, value in group.machine.parameters.items():
            mapping = self._settable(name)
            if mapping is None:
                wrong = self._no_such(name)
            elif mapping.group != group.name:
                wrong = f'the template takes {name} for the whole cluster; set it there'
            else:
                wrong = '' if value is None else mapping.wrong(value)
            if wrong:
                origins = context.effective(cluster, group.name).origins
                yield Problem(message=wrong, path=path_of(cluster, group.name, name, origins))
        shape = group.shape
        if shape.flavors or shape.placements or shape.zones.rule is not ZoneRule.ANY:
            message = 'the template has one flavor for a group, and takes no zones'
            yield Problem(message=message, path=where)

    def _unused(
        self, machine: MachineSpec, where: str, group: str | None = None
    ) -> Iterator[Problem]:
        """Yield the set values of a machine that the template does not take."""
        taken = {
            one.source.partition('.')[2]
            for one in self.parameters.values()
            if one.source and group in (None, one.group)
        }
        for name, _ in given(machine):
            if name in USES and not USES[name] & taken:
                yield Problem(message=f'the template takes no {name}', path=f'{where}{name}')

    def _takes(self, group: str) -> bool:
        """Return True if the template makes nodes of a group."""
        mappings = self.parameters.values()
        return any(one.group == group or one.source == f'cluster.{COUNT}' for one in mappings)

    def _settable(self, name: str) -> ParameterMapping | None:
        mapping = self.parameters.get(name)
        return None if mapping is None or mapping.source else mapping

    def _no_such(self, name: str) -> str:
        names = [one.name for one in self.parameters.values() if not one.source]
        return f'the driver has no such parameter; it has {", ".join(names) or "none"}'
