"""Template definition of a cluster driver: loading, checks and rendering."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

from kiln.cluster_drivers.templates.declarations import (
    Declarations,
    caller,
    group_path,
    path_of,
    secret_of,
    value_of,
)
from kiln.cluster_drivers.templates.facts import (
    FACTS,
    JOIN_TOKEN,
    OUTPUT_FACTS,
    facts,
    ready_nodes,
)
from kiln.cluster_drivers.templates.language import TextTemplate
from kiln.cluster_drivers.templates.mappings import (
    Definition,
    FileMapping,
    OutputMapping,
    ParameterMapping,
    Spot,
)
from kiln.cluster_drivers.templates.quoting import misplaced, unchecked
from kiln.cluster_drivers.values import Context
from kiln.clusters.exceptions import ClusterDriverError, InvalidClusterDriver, Problem
from kiln.clusters.models import Cluster, Node
from kiln.clusters.spec import Place
from kiln.models import InjectedFile
from kiln.plugins.foreign_files import read_beneath

_MOST_BYTES = 1024 * 1024


class TemplateDefinition(Declarations):
    """The templates of a driver, and the mappings that fill them in.

    Create it, and complete it with ``add_parameter``, ``add_file`` and ``add_output``. It is
    loaded and checked as a whole when the driver is opened, and only read afterwards, by
    any number of threads.
    """

    def __init__(
        self, directory: Path, user_data: str | None = None, *, spot: Spot | None = None
    ) -> None:
        """Set the directory of the templates, and the template of the user data.

        A ``spot`` is the position of a declaration; the default is the line of the caller.
        """
        super().__init__()
        self._directory = directory
        #: The name of the template of the user data.
        self.user_data = user_data
        self._used: dict[str, Spot] = {}
        self._templates: dict[str, TextTemplate] = {}
        self.parameters: dict[str, ParameterMapping] = {}
        self.files: dict[str, FileMapping] = {}
        self.outputs: dict[str, OutputMapping] = {}
        if user_data is not None:
            self._used[user_data] = spot or caller()

    # ---- create -----------------------------------------------------------

    def add_parameter(self, mapping: ParameterMapping, *, spot: Spot | None = None) -> None:
        """Map a name in the templates to a parameter of clusters, or to a fact."""
        self.declare(self.parameters, 'parameter', mapping.name, mapping, spot or caller())

    def add_file(self, mapping: FileMapping, *, spot: Spot | None = None) -> None:
        """Put a file on each machine."""
        spot = spot or caller()
        self.declare(self.files, 'file', mapping.path, mapping, spot)
        self._used.setdefault(mapping.template, spot)

    def add_output(self, mapping: OutputMapping, *, spot: Spot | None = None) -> None:
        """Show a text to users once nodes of the cluster are ready."""
        self.declare(self.outputs, 'output', mapping.name, mapping, spot or caller())

    # ---- load --------------------------------------------------------------

    def load(self, *, overrides: Path | None = None) -> None:
        """Read the templates, and check that each can be filled in for any cluster.

        :param overrides: A directory of templates that replace the driver's templates
            of the same names.
        :raises InvalidClusterDriver: a template cannot; all mistakes are reported.
        """
        problems = list(self.mistakes)
        self._templates = {
            name: self._read(name, spot, overrides, problems) for name, spot in self._used.items()
        }
        known = FACTS | self.parameters.keys()
        scripts = self._scripts()
        for name, template in self._templates.items():
            problems += [*template.mistakes, *template.unknown(known)]
            problems += misplaced(template, is_script=name in scripts)
        problems += self._unknown_in_outputs()
        if overrides is None or not overrides.is_dir():
            problems += self._unused()
        else:
            # An operator's template need not use every parameter.
            problems += self._strangers(overrides)
        if problems:
            raise InvalidClusterDriver(problems)

    def _read(
        self, name: str, spot: Spot, overrides: Path | None, problems: list[Problem]
    ) -> TextTemplate:
        pure, wrong, text = PurePath(name), '', ''
        path = self._directory / name
        if pure.is_absolute() or '..' in pure.parts:
            wrong = 'must be below the directory of the templates'
        else:
            try:
                if overrides is not None and (overrides / name).is_file():
                    # The operator's own folder can have links, as those of configuration do.
                    path = overrides / name
                    content = path.read_bytes()
                else:
                    whole = self._directory.absolute()
                    content = read_beneath(
                        whole.parent, f'{whole.name}/{name}', most_bytes=_MOST_BYTES
                    )
                text = content.decode()
            except OSError as exc:
                wrong = f'cannot be read: {exc.strerror}'
            except UnicodeDecodeError:
                wrong = 'is not UTF-8 text'
            except ValueError as exc:
                wrong = str(exc)
        if wrong:
            problems.append(spot.problem(f'template {name!r} {wrong}'))
        return TextTemplate(text, file=str(path))

    def _unknown_in_outputs(self) -> Iterator[Problem]:
        told = OUTPUT_FACTS | {
            name
            for name, one in self.parameters.items()
            if not one.secret and one.source != JOIN_TOKEN
        }
        for name, mapping in self.outputs.items():
            for problem in TextTemplate(mapping.text).unknown(told):
                yield self.spots['output', name].problem(f'output {name!r}: {problem.message}')

    def _unused(self) -> Iterator[Problem]:
        templates = (
            *self._templates.values(),
            *(TextTemplate(one.text) for one in self.outputs.values()),
        )
        wanted = set[str]().union(*(one.names for one in templates))
        for name in self.parameters:
            if name not in wanted:
                yield self.spots['parameter', name].problem(
                    f'parameter {name!r} is in no template'
                )

    def _strangers(self, overrides: Path) -> Iterator[Problem]:
        # A template under a wrong name would silently have no effect.
        names = ', '.join(sorted(self._templates)) or 'none'
        for path in sorted(overrides.rglob('*')):
            if path.is_file() and path.relative_to(overrides).as_posix() not in self._templates:
                yield Spot(str(path), 1).problem(
                    f'no template of the driver has this name; it has {names}'
                )

    def _scripts(self) -> frozenset[str]:
        """Return the templates of the files that are run."""
        return frozenset(one.template for one in self.files.values() if one.mode & 0o111)

    def unchecked(self) -> Iterator[Problem]:
        """Yield each template that has filters in places that kiln does not check."""
        scripts = self._scripts()
        for name, template in self._templates.items():
            if found := unchecked(template, is_script=name in scripts):
                yield found

    @property
    def digest(self) -> str:
        """Digest of the templates in use and of their destinations."""
        parts = [self.user_data, sorted(self.files.items(), key=str)]
        texts = sorted((name, one.text) for name, one in self._templates.items())
        return hashlib.sha256(repr((parts, texts)).encode()).hexdigest()

    @property
    def joins(self) -> bool:
        """True if nodes receive a token to join with."""
        return any(one.source == JOIN_TOKEN for one in self.parameters.values()) or any(
            JOIN_TOKEN in one.names for one in self._templates.values()
        )

    # ---- render -----------------------------------------------------------

    def get_params(self, context: Context, cluster: Cluster, node: Node) -> Mapping[str, Any]:
        """Return the value of each parameter for one node; the narrower scope wins.

        A secret parameter has the name of its secret; a parameter without a value is None.
        """
        return self._facts_and_params(context, cluster, node)[1]

    def get_env_files(
        self, context: Context, cluster: Cluster, node: Node
    ) -> tuple[InjectedFile, ...]:
        """Return the files for one machine.

        :raises ClusterDriverError: a value or secret is missing, or does not fit its place.
        """
        return self._files(
            self._known(context, node, *self._facts_and_params(context, cluster, node))
        )

    def extract_definition(self, context: Context, cluster: Cluster, node: Node) -> Definition:
        """Return the rendered templates of one node.

        The same for each call, unless a secret or the cluster changes.

        :raises ClusterDriverError: a value or secret is missing, or does not fit its place.
        """
        found, params = self._facts_and_params(context, cluster, node)
        known = self._known(context, node, found, params)
        user_data = None
        if self.user_data is not None:
            user_data = self._templates[self.user_data].render(known).encode()
        return Definition(user_data=user_data, files=self._files(known), params=params)

    def get_outputs(self, context: Context, cluster: Cluster) -> Mapping[str, Any]:
        """Return the outputs of the cluster; None for an output without a ready node.

        :raises ClusterDriverError: a value does not fit into the text.
        """
        found: dict[str, Any] = {}
        for name, mapping in self.outputs.items():
            template = TextTemplate(mapping.text, file=f'output {name}')
            nodes = ready_nodes(context, cluster, mapping.role)
            texts = [
                template.render(self._told(context, cluster, node))
                for node in (nodes if mapping.each else nodes[:1])
            ]
            found[name] = texts if mapping.each else next(iter(texts), None)
        return found

    def _told(self, context: Context, cluster: Cluster, node: Node) -> Mapping[str, Any]:
        found, params = self._facts_and_params(context, cluster, node)
        return {**found, **params}

    def _facts_and_params(
        self, context: Context, cluster: Cluster, node: Node
    ) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        machine = context.effective(cluster, node.group).machine
        found = facts(context, cluster, node, machine, joins=self.joins)
        params = {
            name: found[one.source] if one.source else value_of(one, machine.parameters)
            for name, one in self.parameters.items()
        }
        return found, params

    def _known(
        self, context: Context, node: Node, found: Mapping[str, Any], params: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        known = {**found, **params}
        for name, mapping in self.parameters.items():
            if params[name] is None and mapping.required:
                raise ClusterDriverError(
                    f'Cannot build node {node.name}: parameter {name} is unset.'
                )
            if params[name] is not None and mapping.secret:
                known[name] = secret_of(context, name, params[name])
        return known

    def _files(self, known: Mapping[str, Any]) -> tuple[InjectedFile, ...]:
        return tuple(
            InjectedFile(
                path=mapping.path,
                content=self._templates[mapping.template].render(known).encode(),
                mode=mapping.mode,
                owner=mapping.owner,
            )
            for mapping in self.files.values()
        )

    # ---- check the values of owners ---------------------------------------

    def value_problems(self, context: Context, cluster: Cluster, group: str) -> Iterator[Problem]:
        """Yield the problems in the parameters of a group, before any node is built.

        Secrets are fetched to check that they exist.
        """
        found = context.effective(cluster, group)
        wrong = False
        for name, value in found.machine.parameters.items():
            mapping = self.parameters.get(name)
            if mapping is None or mapping.source:
                names = [one.name for one in self.parameters.values() if not one.source]
                message = f'the driver has no such parameter; it has {", ".join(names) or "none"}'
            else:
                message = mapping.wrong(value) if value is not None else ''
            if message:
                wrong = True
                yield Problem(message=message, path=path_of(cluster, group, name, found.origins))
        for name, mapping in self.parameters.items():
            if mapping.required and found.machine.parameters.get(name) is None:
                wrong = True
                yield Problem(
                    message=f'the driver needs parameter {name}', path=group_path(cluster, group)
                )
        if not wrong:
            yield from self._trial(context, cluster, group)

    def _trial(self, context: Context, cluster: Cluster, group: str) -> Iterator[Problem]:
        """Render everything for a node that is never built."""
        node = Node(
            id='trial', cluster_id=cluster.id, group=group, name='trial', place=Place(), backend=''
        )
        try:
            known = self._known(context, node, *self._facts_and_params(context, cluster, node))
        except ClusterDriverError as exc:
            yield Problem(message=str(exc), path=group_path(cluster, group))
            return
        for template in self._templates.values():
            yield from template.unfit(known)
        for name, mapping in self.outputs.items():
            for problem in TextTemplate(mapping.text).unfit(known):
                message = f'output {name!r}: {problem.message}'
                yield Problem(message=message, path=group_path(cluster, group))
