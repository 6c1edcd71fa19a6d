"""Bases of drivers that are a directory alone: the keys of driver.yaml, and their class."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kiln.cluster_drivers.templates.mappings import Spot
from kiln.yaml_schema.mapping_checks import Record

#: The directory of the templates in that of a driver.
TEMPLATES = 'templates'

#: Takes what driver.yaml declares, the directory, and the position of each mapping.
ClassOf = Callable[[object, Path, dict[tuple[str, str], Spot]], type[Any]]


class WithoutCode:
    """Mark of the drivers that consist of a directory alone: none of it is run."""


@dataclasses.dataclass(frozen=True, slots=True)
class FolderBase:
    """A base, as driver.yaml can name it."""

    record: Record[Any]
    class_of: ClassOf
