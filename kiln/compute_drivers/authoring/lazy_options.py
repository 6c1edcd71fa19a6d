"""Lazy driver options: imported on first access."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any


class LazyOptions:
    """The ``opts`` of a module, imported on first access because they load slow libraries."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __get__(self, instance: object, owner: type) -> Sequence[Any]:
        opts: Sequence[Any] = importlib.import_module(self._module).opts
        return opts
