"""A package that was generated, in the process of the tests: imported, and forgotten."""

import contextlib
import importlib.util
import sys

from kiln.testing.clusters.site import simulated
from kiln.testing.clusters.subjects import find_driver


@contextlib.contextmanager
def importable(root, name):
    """Have a package found in a folder, as after its installation; then forget it."""
    sys.path.insert(0, str(root))
    try:
        yield
    finally:
        sys.path.remove(str(root))
        for module in [one for one in sys.modules if one.partition('.')[0] == name]:
            del sys.modules[module]
        # The kit finds each driver once, by a name that the next such package may have, too.
        for known in (find_driver, simulated):
            known.cache_clear()


def module_at(path):
    """Return a module of tests, whose own name may be that of one of ours."""
    spec = importlib.util.spec_from_file_location(f'generated_{path.stem}', path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
