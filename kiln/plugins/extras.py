"""Package extras: finds the extra that provides a missing Python package."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import re
import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib.metadata import Distribution

KILN = 'kiln-compute'

_REQUIREMENT = re.compile(r'\s*([A-Za-z0-9][A-Za-z0-9._-]*)')
_EXTRA = re.compile(r"""\bextra\s*==\s*['"]([^'"]+)['"]""")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class NeededExtra:
    """An extra that an import requires."""

    #: The Python package that the import requires.
    module: str
    distribution: str
    extra: str
    #: False if the package is installed but unusable.
    absent: bool

    @property
    def command(self) -> str:
        """Command that installs the extra."""
        return f"pip install '{self.distribution}[{self.extra}]'"

    def __str__(self) -> str:
        state = 'is not installed' if self.absent else 'is not as it should be'
        return f'Python package {self.module!r} {state}. Run: {self.command}'


def needed_extra(
    error: BaseException, owner: Distribution | None = None, *, driver: str = ''
) -> NeededExtra | None:
    """Return the extra whose absence made an import fail; None if no extra is the cause.

    ``owner`` is the distribution whose code was imported (default: kiln), and ``driver``
    is the name of its driver.
    """
    lacking = _import_error(error)
    if lacking is None:
        return None
    absent = isinstance(lacking, ModuleNotFoundError)
    module = str(lacking.name)
    top = module.partition('.')[0]
    if not absent:
        module = top
    if top in sys.stdlib_module_names:
        return None
    for dist in _candidates(lacking, owner):
        extras = _extras(dist)
        extra = _bringing(extras, module, {driver, *_parts(lacking)})
        # A failed import of the driver's own modules is not a missing library.
        if extra is None and absent and _importer(lacking) not in ('', 'kiln', 'stevedore', top):
            extra = _of_driver(extras, driver)
        if extra is not None:
            return NeededExtra(module=module, distribution=dist.name, extra=extra, absent=absent)
    return None


@contextlib.contextmanager
def importing(cannot: str, raises: Callable[[str], Exception]) -> Iterator[None]:
    """Raise a failed import as a kiln error that names the missing extra.

    If no extra is the cause, the error names what cannot be imported.
    """
    try:
        yield
    except ImportError as exc:
        needed = needed_extra(exc)
        why = needed or f'{exc}. The package is damaged: install it again'
        raise raises(f'{cannot}: {why}') from exc


def _import_error(error: BaseException | None) -> ImportError | None:
    """Return the failed import that an error is or was caused by."""
    while error is not None and not (isinstance(error, ImportError) and error.name):
        error = error.__cause__
    return error


def _candidates(lacking: ImportError, owner: Distribution | None) -> Iterator[Distribution]:
    if owner is not None:
        yield owner
    # A vendor's package must itself declare what its code imports.
    if owner is None or (owner.name != KILN and _importer(lacking) == 'kiln'):
        try:
            yield importlib.metadata.distribution(KILN)
        except importlib.metadata.PackageNotFoundError:
            return  # run from a checkout, without metadata


def _importer(lacking: ImportError) -> str:
    """Return the top-level package of the module with the import statement."""
    tops = (name.partition('.')[0] for name in reversed(_importers(lacking)))
    return next((top for top in tops if top not in ('importlib', '_frozen_importlib')), '')


def _importers(lacking: ImportError) -> list[str]:
    """Return the modules through which an import came, the one with the statement last."""
    frames = (frame for frame, _ in traceback.walk_tb(lacking.__traceback__))
    return [str(frame.f_globals.get('__name__', '')) for frame in frames]


def _parts(lacking: ImportError) -> set[str]:
    """Return the names of all packages and modules through which an import came."""
    return {part for name in _importers(lacking) for part in name.split('.')}


def _extras(dist: Distribution) -> Mapping[str, Sequence[str]]:
    """Return the distributions of each extra."""
    found: dict[str, list[str]] = {}
    for line in dist.requires or ():
        name, extra = _REQUIREMENT.match(line), _EXTRA.search(line)
        if name and extra:
            found.setdefault(extra[1], []).append(name[1])
    return found


def _bringing(
    extras: Mapping[str, Sequence[str]], module: str, asking: Collection[str]
) -> str | None:
    """Return the extra with a distribution named like a module.

    An extra that is named like what needs the module comes first.
    """
    named = set(map(_normal, asking))
    found = [extra for extra, names in extras.items() if any(_brings(n, module) for n in names)]
    # The extra for tests contains everything; the smallest extra is specific.
    return min(
        found,
        key=lambda extra: (_normal(extra) not in named, len(extras[extra]), extra),
        default=None,
    )


def _of_driver(extras: Mapping[str, Sequence[str]], driver: str) -> str | None:
    """Return the extra named like the driver, unless it is completely installed.

    A library can have another name than its distribution: PIL comes with Pillow.
    """
    for extra, names in extras.items():
        if _normal(extra) == _normal(driver) and not all(map(_is_installed, names)):
            return extra
    return None


def _brings(distribution: str, module: str) -> bool:
    """Return True if a distribution is named after a module, such as python-acmeclient."""
    word = re.escape(_normal(module))
    pattern = rf'(python-?|py-?)?{word}(-?(python|py|sdk|api|client|lib))?'
    return re.fullmatch(pattern, _normal(distribution)) is not None


def _normal(name: str) -> str:
    return re.sub(r'[-_.]+', '-', name).lower()


def _is_installed(distribution: str) -> bool:
    try:
        importlib.metadata.distribution(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
