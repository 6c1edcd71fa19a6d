"""What the folder of a driver tells people: which image it needs, and how to make one."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from pathlib import Path

from kiln.cluster_drivers.base import ClusterDriver
from kiln.cluster_drivers.discovery.manifest import from_class
from kiln.cluster_drivers.records import WILDCARD


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ImageGuide:
    """How to make an image for a driver."""

    #: What the author wrote in ``image/README``; empty where there is none.
    text: str
    #: The properties by which an image says that it is for this driver, and the values
    #: that each may have; no values where any will do.
    properties: Mapping[str, tuple[str, ...]]


def home_of(driver_class: type[ClusterDriver]) -> Path:
    """Return the folder of a driver."""
    directory = getattr(driver_class, 'directory', None)
    return directory if directory is not None else Path(inspect.getfile(driver_class)).parent


def image_guide(driver_class: type[ClusterDriver]) -> ImageGuide:
    """Return what there is to know before an image is made."""
    readme = next(iter(sorted((home_of(driver_class) / 'image').glob('README*'))), None)
    systems = sorted({one.os for one in from_class(driver_class).provides or ()} - {WILDCARD})
    return ImageGuide(
        text=readme.read_text() if readme else '',
        properties={'kiln_driver': (driver_class.name,), 'kiln_distro': tuple(systems)},
    )
