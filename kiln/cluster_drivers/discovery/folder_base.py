"""Bases of drivers that are a directory alone: the keys of driver.yaml, and their class."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

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
    declared: object
    #: The position of each mapping in driver.yaml.
    spots: Mapping[tuple[str, str], Spot]
    #: How a program of the driver runs.
    programs: Programs = AS_KILN


@dataclasses.dataclass(frozen=True, slots=True)
class FolderBase:
    """A base, as driver.yaml can name it."""

    record: Record[Any]
    class_of: Callable[[Folder], type[Any]]
