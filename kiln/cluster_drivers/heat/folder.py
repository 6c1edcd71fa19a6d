"""Cluster driver on Heat from a directory: driver.yaml and a template, no Python."""

from __future__ import annotations

from collections.abc import Mapping
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


def _attributes(folder: Folder) -> Mapping[str, Any]:
    return {'declared': folder.declared, 'spots': folder.spots}


#: What discovery finds here by the word ``heat``.
BASE = FolderBase(HEAT_DRIVER, HeatDirectoryDriver, _attributes)
