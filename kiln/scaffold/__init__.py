"""Writes the beginnings of a vendor's driver package."""

from __future__ import annotations

from kiln.scaffold.compute_driver import new_compute_driver

__all__ = ['new_compute_driver']
