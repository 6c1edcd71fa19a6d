"""kiln: builds the machines of load balancers and clusters.

>>> import kiln
>>> compute = kiln.open_compute('noop')
>>> operation = compute.build(amphora_flavor='small', until=kiln.Until.ACTIVE)
>>> amphora_id = operation.result()
>>> compute.delete(amphora_id, wait=True).result()
>>> compute.close()

Everything that a controller needs is here; ``kiln.exceptions`` has every error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kiln.plugins import moved_paths as _moved_paths

if TYPE_CHECKING:
    from kiln import exceptions as exceptions
    from kiln import models as models
    from kiln.compute.backends import open_compute as open_compute
    from kiln.compute.facade import Compute as Compute
    from kiln.compute.goals import Until as Until
    from kiln.models import Amphora as Amphora
    from kiln.models import AmphoraType as AmphoraType
    from kiln.models import ComputeStatus as ComputeStatus
    from kiln.models import Placement as Placement
    from kiln.models import State as State
    from kiln.wrappers.operations.operation import Operation as Operation
    from kiln.wrappers.operations.operation import OperationState as OperationState
    from kiln.wrappers.operations.operation import Priority as Priority
    from kiln.wrappers.watcher.probe import HttpProbe as HttpProbe
    from kiln.wrappers.watcher.probe import TcpProbe as TcpProbe

    __version__: str

__all__ = [
    'Amphora', 'AmphoraType', 'Compute', 'ComputeStatus', 'HttpProbe', 'Operation',
    'OperationState', 'Placement', 'Priority', 'State', 'TcpProbe', 'Until', '__version__',
    'exceptions', 'models', 'open_compute',
]  # fmt: skip

# Every process of every controller pays for `import kiln`, so each name is imported
# on first access.
_HOMES = {
    'kiln.compute.facade': ('Compute',),
    'kiln.compute.backends': ('open_compute',),
    'kiln.compute.goals': ('Until',),
    'kiln.models': ('Amphora', 'AmphoraType', 'ComputeStatus', 'Placement', 'State'),
    'kiln.wrappers.operations.operation': ('Operation', 'OperationState', 'Priority'),
    'kiln.wrappers.watcher.probe': ('HttpProbe', 'TcpProbe'),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = ('exceptions', 'models')

_moved_paths.install()


def __getattr__(name: str) -> Any:
    if name == '__version__':
        import importlib.metadata

        return importlib.metadata.version('kiln-compute')
    if name not in _HOME_OF and name not in _MODULES:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    import importlib

    if name in _MODULES:
        return importlib.import_module(f'{__name__}.{name}')
    return getattr(importlib.import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
