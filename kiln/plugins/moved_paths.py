"""Old import paths that guides for authors named: they lead to the modules of today."""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, cast

#: Drivers and hooks outside of kiln import these.
MOVED = {
    'kiln.cluster_drivers.facts': 'kiln.cluster_drivers.templates.facts',
    'kiln.cluster_drivers.mappings': 'kiln.cluster_drivers.templates.mappings',
    'kiln.cluster_drivers.template_def': 'kiln.cluster_drivers.templates.definition',
    'kiln.cluster_drivers.text_template': 'kiln.cluster_drivers.templates.language',
    'kiln.cluster_exceptions': 'kiln.clusters.exceptions',
    'kiln.cluster_models': 'kiln.clusters.models',
    'kiln.cluster_spec': 'kiln.clusters.spec',
    'kiln.compute_drivers.adoption': 'kiln.compute_drivers.authoring.adoption',
    'kiln.compute_drivers.pools': 'kiln.compute_drivers.authoring.machine_pool',
    'kiln.hooks.answers': 'kiln.hooks.replies',
    'kiln.hooks.plugins': 'kiln.hooks.callers.plugins',
}


def install() -> None:
    """Let old paths be imported."""
    sys.meta_path.append(_MovedPaths())


class _MovedPaths:
    """Finds modules by their old paths; asked only where no module is found."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return a spec whose module is the one of today."""
        return (
            importlib.machinery.ModuleSpec(name, cast(Any, _Redirect())) if name in MOVED else None
        )


class _Redirect:
    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """Let Python make an empty module, which the one of today replaces."""

    def exec_module(self, module: ModuleType) -> None:
        """Put the module of today in the place of the empty one."""
        # Without a warning: the tests of many a driver take warnings for errors.
        sys.modules[module.__name__] = importlib.import_module(MOVED[module.__name__])
