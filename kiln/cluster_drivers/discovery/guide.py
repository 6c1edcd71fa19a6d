"""Image guide of a cluster driver: which image it needs, and how to make one."""

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

    #: The text of ``image/README``; empty if that file does not exist.
    text: str
    #: The properties that mark an image for this driver, and the allowed values of each;
    #: empty if any value is allowed.
    properties: Mapping[str, tuple[str, ...]]


def home_of(driver_class: type[ClusterDriver]) -> Path:
    """Return the folder of a driver."""
    directory = getattr(driver_class, 'directory', None)
    return directory if directory is not None else Path(inspect.getfile(driver_class)).parent


def image_guide(driver_class: type[ClusterDriver]) -> ImageGuide:
    """Return the image guide of a driver."""
    readme = next(iter(sorted((home_of(driver_class) / 'image').glob('README*'))), None)
    systems = sorted({one.os for one in from_class(driver_class).provides or ()} - {WILDCARD})
    return ImageGuide(
        text=readme.read_text() if readme else '',
        properties={'kiln_driver': (driver_class.name,), 'kiln_distro': tuple(systems)},
    )
