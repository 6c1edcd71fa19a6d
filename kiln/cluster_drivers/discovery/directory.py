"""Cluster driver from a directory: ``driver.yaml`` with templates or a program, no Python."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any, ClassVar

from kiln.cluster_drivers.base import ClusterDriver, NodeClusterDriver
from kiln.cluster_drivers.discovery.programs import AS_KILN, Programs
from kiln.cluster_drivers.discovery.yaml_fields import DRIVER, Base, Declared
from kiln.cluster_drivers.templates.definition import TemplateDefinition
from kiln.cluster_drivers.templates.mappings import Spot
from kiln.clusters.exceptions import InvalidClusterDriver
from kiln.yaml_schema.mistake_list import Mistakes
from kiln.yaml_schema.nodes import Node, described, shown
from kiln.yaml_schema.reader import only_document

MANIFEST = 'driver.yaml'
TEMPLATES = 'templates'


class DirectoryDriver(NodeClusterDriver):
    """A driver that consists of a directory alone."""

    directory: ClassVar[Path]
    declared: ClassVar[Declared]
    #: The position of each mapping in driver.yaml.
    spots: ClassVar[dict[tuple[str, str], Spot]]

    def get_template_definition(self) -> TemplateDefinition:
        declared, spots = self.declared, self.spots
        definition = TemplateDefinition(
            self.directory / TEMPLATES, declared.user_data, spot=spots['user_data', '']
        )
        for name, parameter in declared.parameters.items():
            definition.add_parameter(parameter, spot=spots['parameters', name])
        for path, file in declared.files.items():
            definition.add_file(file, spot=spots['files', path])
        for name, output in declared.outputs.items():
            definition.add_output(output, spot=spots['outputs', name])
        return definition


def load_directory(directory: Path, programs: Programs = AS_KILN) -> type[ClusterDriver]:
    """Return the driver class of a directory.

    :param programs: how a program of the driver runs.
    :raises InvalidClusterDriver: with a problem for each mistake in driver.yaml; if
        driver.yaml has no mistake, for each mistake in the templates, or in the program.
    """
    file = directory / MANIFEST
    mistakes = Mistakes(str(file))
    if file.is_symlink():
        mistakes.add_at(1, 1, 'it is a link, which kiln does not follow; put the file there')
    mistakes.raise_any(InvalidClusterDriver)
    root = only_document(file, mistakes, begin='name: NAME')
    declared = None
    if root is not None:
        _check_name(root, directory, mistakes)
        if _base(root) == Base.COMMAND:
            # Imported here, because few sites run programs.
            from kiln.cluster_drivers.command.loading import load_command

            return load_command(directory.absolute(), root, mistakes, programs)
        declared = DRIVER.read(root, mistakes)
        _check_files(root, directory, mistakes)
    mistakes.raise_any(InvalidClusterDriver)
    assert root is not None
    assert isinstance(declared, Declared)
    driver_class = _class_of(declared, directory.absolute(), dict(_spots(root, str(file))))
    driver_class.open()
    return driver_class


def _class_of(
    declared: Declared, directory: Path, spots: dict[tuple[str, str], Spot]
) -> type[DirectoryDriver]:
    attributes: dict[str, Any] = {
        '__module__': __name__,
        '__doc__': f'The driver of {directory}.',
        'name': declared.name,
        'version': declared.version,
        'beta': declared.beta,
        'provides': declared.provides,
        'ready': declared.ready,
        'directory': directory,
        'declared': declared,
        'spots': spots,
    }
    return type(declared.name, (DirectoryDriver,), attributes)


def _base(root: Node) -> object:
    return root.entries['base'].value.value if 'base' in root.entries else None


def _check_name(root: Node, directory: Path, mistakes: Mistakes) -> None:
    """Report a name that is not that of the directory."""
    name = root.entries.get('name')
    if name is not None and name.value.value != directory.absolute().name:
        mistakes.add(
            name.value,
            f'{described(name.value)}, and the directory is {shown(directory.absolute().name)}; '
            f'use the same name',
        )


def _check_files(root: Node, directory: Path, mistakes: Mistakes) -> None:
    """Report templates that are not in the directory."""
    for node in _template_names(root):
        if not isinstance(node.value, str) or not node.value:
            continue
        path = PurePath(node.value)
        elsewhere = path.is_absolute() or '..' in path.parts
        if elsewhere or not (directory / TEMPLATES / path).is_file():
            mistakes.add(node, f'there is no {shown(node.value)} in {TEMPLATES}; put it there')


def _template_names(root: Node) -> Iterator[Node]:
    if 'user_data' in root.entries:
        yield root.entries['user_data'].value
    files = root.entries['files'].value.entries if 'files' in root.entries else {}
    for _, file in files.values():
        yield file.entries['template'].value if 'template' in file.entries else file


def _spots(root: Node, file: str) -> Iterator[tuple[tuple[str, str], Spot]]:
    user_data = root.entries['user_data'].value if 'user_data' in root.entries else root
    yield ('user_data', ''), Spot(file, user_data.line, user_data.column)
    for kind in ('parameters', 'files', 'outputs'):
        entries = root.entries[kind].value.entries if kind in root.entries else {}
        for name, (key, _) in entries.items():
            yield (kind, name), Spot(file, key.line, key.column)
