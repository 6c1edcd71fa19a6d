"""Cluster driver on Heat from a directory: driver.yaml and a template, no Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from kiln.cluster_drivers.discovery.folder_base import TEMPLATES, Folder, FolderBase, WithoutCode
from kiln.cluster_drivers.heat.base import HeatDriver
from kiln.cluster_drivers.heat.definition import TemplateDefinition
from kiln.cluster_drivers.heat.fields import HEAT_DRIVER, HeatDeclared
from kiln.cluster_drivers.templates.mappings import Spot


class HeatDirectoryDriver(WithoutCode, HeatDriver):
    """A driver on Heat that consists of a directory alone."""

    directory: ClassVar[Path]
    declared: ClassVar[HeatDeclared]
    #: The position of each mapping in driver.yaml.
    spots: ClassVar[dict[tuple[str, str], Spot]]

    def get_template_definition(self) -> TemplateDefinition:
        declared, spots = self.declared, self.spots
        definition = TemplateDefinition(
            self.directory / TEMPLATES, declared.template, spot=spots['template', '']
        )
        for name, parameter in declared.parameters.items():
            definition.add_parameter(parameter, spot=spots['parameters', name])
        for name, output in declared.outputs.items():
            definition.add_output(output, spot=spots['outputs', name])
        return definition


def _class_of(folder: Folder) -> type[HeatDirectoryDriver]:
    declared = folder.declared
    assert isinstance(declared, HeatDeclared)
    attributes: dict[str, Any] = {
        '__module__': __name__,
        '__doc__': f'The driver of {folder.path}.',
        'name': declared.name,
        'version': declared.version,
        'beta': declared.beta,
        'provides': declared.provides,
        'directory': folder.path,
        'declared': declared,
        'spots': folder.spots,
    }
    return type(declared.name, (HeatDirectoryDriver,), attributes)


#: What discovery finds here by the word ``heat``.
BASE = FolderBase(HEAT_DRIVER, _class_of)
