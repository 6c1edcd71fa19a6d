"""Bench of the minimal driver, by which the kit judges it."""

from __future__ import annotations

from kiln.compute_drivers.authoring.bench import Bench
from kiln.testing.minimal import MinimalDriver


class MinimalBench(Bench):
    """The dict of a driver stands for a backend, which other drivers share."""

    driver: MinimalDriver

    def another_driver(self) -> MinimalDriver:
        other = type(self.driver)()
        for name in ('_amphorae', '_lock', 'clock'):
            setattr(other, name, getattr(self.driver, name))
        return other
