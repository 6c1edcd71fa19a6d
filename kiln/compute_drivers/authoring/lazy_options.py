"""Lazy driver options: imported on first access."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, cast


def lazy_options(module: str) -> Sequence[Any]:
    """Return the ``opts`` of a module for a class attribute; importing them is slow."""
    return cast('Sequence[Any]', _LazyOptions(module))


class _LazyOptions:
    def __init__(self, module: str) -> None:
        self._module = module

    def __get__(self, instance: object, owner: type) -> Sequence[Any]:
        opts: Sequence[Any] = importlib.import_module(self._module).opts
        return opts
