"""Bench of the minimal driver, by which the kit judges it."""

from __future__ import annotations

from kiln.compute_drivers.authoring.bench import Bench
from kiln.models import ImageFacts
from kiln.testing.minimal import MinimalDriver


class MinimalBench(Bench):
    """The dict of a driver stands for a backend, which other drivers share."""

    driver: MinimalDriver

    #: The dict takes any text for an image.
    images = (ImageFacts(id='image-1'), ImageFacts(id='image-2'))

    def name_image(self, name: str, image_id: str | None) -> None:
        """Do nothing: there is no image behind a name."""

    def another_driver(self) -> MinimalDriver:
        other = type(self.driver)()
        for name in ('_amphorae', '_lock', 'clock'):
            setattr(other, name, getattr(self.driver, name))
        return other
