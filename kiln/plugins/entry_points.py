"""Entry points of installed packages: what they offer to kiln, without importing it."""

from __future__ import annotations

import importlib.metadata


def entry_points(namespace: str) -> list[importlib.metadata.EntryPoint]:
    """Return what installed packages offer under a namespace; nothing is imported."""
    return list(importlib.metadata.entry_points(group=namespace))
