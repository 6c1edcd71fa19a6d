"""Cluster driver from a directory: ``driver.yaml`` and ``templates/``, no Python."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any, ClassVar

from kiln.cluster_drivers.base import ClusterDriver, NodeClusterDriver
from kiln.cluster_drivers.discovery.folder_base import TEMPLATES, Folder, FolderBase, WithoutCode
from kiln.cluster_drivers.discovery.programs import AS_KILN, Programs
from kiln.cluster_drivers.discovery.yaml_fields import DRIVER, Base, Declared
from kiln.cluster_drivers.templates.definition import TemplateDefinition
from kiln.cluster_drivers.templates.mappings import Spot
from kiln.clusters.exceptions import InvalidClusterDriver
from kiln.yaml_schema.mistake_list import Mistakes
from kiln.yaml_schema.nodes import Node, described, shown
from kiln.yaml_schema.reader import only_document

MANIFEST = 'driver.yaml'
#: The homes of the bases whose engine is not kiln's.
_BASES: Mapping[str, str] = {
    Base.COMMAND: 'kiln.cluster_drivers.command.loading',
    Base.HEAT: 'kiln.cluster_drivers.heat.folder',
}
#: The keys that name a template.
_NAMES = ('user_data', 'template')


class DirectoryDriver(WithoutCode, NodeClusterDriver):
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
    base = _base_of(root)
    declared: object = None
    if root is not None:
        declared = base.record.read(root, mistakes)
        _check_files(root, directory, mistakes)
    mistakes.raise_any(InvalidClusterDriver)
    assert root is not None
    folder = Folder(
        directory.absolute(), declared, dict(_spots(root, str(file))), programs=programs
    )
    driver_class = base.class_of(folder)
    driver_class.open()
    return driver_class


def _base_of(root: Node | None) -> FolderBase:
    """Return the base that a driver.yaml names; that of nodes if it names none or a wrong one."""
    entry = root.entries.get('base') if root is not None else None
    # By its text: a mapping or a list cannot be looked up.
    place = _BASES.get(entry.value.text) if entry is not None else None
    if place is None:
        return FolderBase(DRIVER, DirectoryDriver, _attributes)
    # An engine is imported by those alone whose drivers have it.
    found: FolderBase = importlib.import_module(place).BASE
    return found


def _attributes(folder: Folder) -> Mapping[str, Any]:
    declared = folder.declared
    return {'ready': declared.ready, 'declared': declared, 'spots': folder.spots}


def _check_files(root: Node, directory: Path, mistakes: Mistakes) -> None:
    """Report names that do not match the directory or a file in it."""
    name = root.entries.get('name')
    if name is not None and name.value.value != directory.absolute().name:
        mistakes.add(
            name.value,
            f'{described(name.value)}, and the directory is {shown(directory.absolute().name)}; '
            f'use the same name',
        )
    for node in _template_names(root):
        if not isinstance(node.value, str) or not node.value:
            continue
        path = PurePath(node.value)
        elsewhere = path.is_absolute() or '..' in path.parts
        if elsewhere or not (directory / TEMPLATES / path).is_file():
            mistakes.add(node, f'there is no {shown(node.value)} in {TEMPLATES}; put it there')


def _template_names(root: Node) -> Iterator[Node]:
    for name in _NAMES:
        if name in root.entries:
            yield root.entries[name].value
    files = root.entries['files'].value.entries if 'files' in root.entries else {}
    for _, file in files.values():
        yield file.entries['template'].value if 'template' in file.entries else file


def _spots(root: Node, file: str) -> Iterator[tuple[tuple[str, str], Spot]]:
    for name in _NAMES:
        node = root.entries[name].value if name in root.entries else root
        yield (name, ''), Spot(file, node.line, node.column)
    for kind in ('parameters', 'files', 'outputs'):
        entries = root.entries[kind].value.entries if kind in root.entries else {}
        for name, (key, _) in entries.items():
            yield (kind, name), Spot(file, key.line, key.column)
