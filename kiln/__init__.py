"""kiln builds the machines that load balancers and clusters run on.

>>> import kiln
>>> compute = kiln.open_compute('noop')
>>> amphora_id = compute.build(amphora_flavor='small').result()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kiln.compute import Compute as Compute
    from kiln.driver_manager import open_compute as open_compute

__all__ = ['Compute', 'open_compute']

# What `import kiln` itself costs is paid by every process of every controller,
# so nothing is imported before it is asked for.
_HOMES = {'Compute': 'kiln.compute', 'open_compute': 'kiln.driver_manager'}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
