"""The compute half of kiln: from configured backends to operations on amphorae."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kiln.compute.facade import Compute as Compute


def __getattr__(name: str) -> Any:
    # The facade is heavy, and most modules beside it are imported without it.
    if name == 'Compute':
        from kiln.compute.facade import Compute

        return Compute
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
