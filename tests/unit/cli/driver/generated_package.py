"""A generated package in the process of the tests: imported, and removed again."""

import contextlib
import importlib.util
import sys

from kiln.testing.clusters.simulation.site import simulated
from kiln.testing.clusters.subjects import find_driver


@contextlib.contextmanager
def importable(root, name):
    """Make a package in a folder importable, as after installation; then remove it."""
    sys.path.insert(0, str(root))
    try:
        yield
    finally:
        sys.path.remove(str(root))
        for module in [one for one in sys.modules if one.partition('.')[0] == name]:
            del sys.modules[module]
        # The kit caches each driver by name, and the next such package can have that name.
        for known in (find_driver, simulated):
            known.cache_clear()


def module_at(path):
    """Return a module of tests, whose name can equal that of a module here."""
    spec = importlib.util.spec_from_file_location(f'generated_{path.stem}', path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
