"""Image guide of a cluster driver: which image it needs, and how to make one."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
from collections.abc import Mapping
from pathlib import Path

from kiln.cluster_drivers.base import ClusterDriver
from kiln.cluster_drivers.discovery.manifest import from_class
from kiln.cluster_drivers.records import WILDCARD
from kiln.plugins.foreign_files import read_beneath

_MOST_BYTES = 1024 * 1024


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


def readme_in(home: Path, folder: str = '') -> str | None:
    """Return the text of the README in a folder of a driver; None without one.

    Links are not followed: they could lead to any file of this host.
    """
    for path in sorted((home / folder).glob('README*')):
        with contextlib.suppress(OSError, ValueError):
            return read_beneath(home, str(path.relative_to(home)), most_bytes=_MOST_BYTES).decode()
    return None


def image_guide(driver_class: type[ClusterDriver]) -> ImageGuide:
    """Return the image guide of a driver."""
    systems = sorted({one.os for one in from_class(driver_class).provides or ()} - {WILDCARD})
    return ImageGuide(
        text=readme_in(home_of(driver_class), 'image') or '',
        properties={'kiln_driver': (driver_class.name,), 'kiln_distro': tuple(systems)},
    )
