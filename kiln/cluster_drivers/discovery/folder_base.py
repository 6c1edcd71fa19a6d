"""Bases of drivers that are a directory alone: the keys of driver.yaml, and their class."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kiln.cluster_drivers.base import ClusterDriver
from kiln.cluster_drivers.discovery.programs import AS_KILN, Programs
from kiln.cluster_drivers.templates.mappings import Spot
from kiln.yaml_schema.mapping_checks import Record

#: The directory of the templates in that of a driver.
TEMPLATES = 'templates'


class WithoutCode:
    """Mark of the drivers that consist of a directory alone: none of it is run."""


@dataclasses.dataclass(frozen=True, slots=True)
class Folder:
    """A directory that is a driver, once its driver.yaml was read."""

    path: Path
    #: What driver.yaml declares: a value of the record of its base.
    declared: Any
    #: The position of each mapping in driver.yaml.
    spots: Mapping[tuple[str, str], Spot]
    #: How a program of the driver runs.
    programs: Programs = AS_KILN


@dataclasses.dataclass(frozen=True, slots=True)
class FolderBase:
    """A base, as driver.yaml can name it."""

    record: Record[Any]
    #: The class from which those of directories derive.
    parent: type[Any]
    #: Class attributes of a directory, beside those that all have.
    attributes: Callable[[Folder], Mapping[str, Any]]

    def class_of(self, folder: Folder) -> type[ClusterDriver]:
        """Return the driver class of a directory."""
        declared = folder.declared
        attributes = {
            '__module__': self.parent.__module__,
            '__doc__': f'The driver of {folder.path}.',
            'name': declared.name,
            'version': declared.version,
            'beta': declared.beta,
            'provides': declared.provides,
            'directory': folder.path,
            **self.attributes(folder),
        }
        return type(declared.name, (self.parent,), attributes)
