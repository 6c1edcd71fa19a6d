"""What a cluster driver says of itself: in driver.yaml, in version.py, or in its class.

Pure; nothing is imported but the parser of YAML, and no class is made into an
object.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable, Mapping

from kiln.cluster_drivers.records import NAME, VERSION, ClusterType, cluster_type
from kiln.plugins.extras import importing


class ManifestError(ValueError):
    """Why a driver cannot be used; for people."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """What a driver says of itself; None is left for another place to say."""

    name: str | None = None
    version: str | None = None
    beta: bool | None = None
    provides: tuple[ClusterType, ...] | None = None

    @classmethod
    def read(cls, values: Mapping[str, object]) -> Manifest:
        """Return the manifest that some values make; what else there is is left alone.

        :raises ManifestError: one of them is not what it should be.
        """
        name, version, beta = (values.get(key) for key in ('name', 'version', 'beta'))
        if name is not None and not (isinstance(name, str) and NAME.fullmatch(name)):
            raise ManifestError(f'its name {name!r} is no name of a driver')
        if version is not None and not (isinstance(version, str) and VERSION.fullmatch(version)):
            raise ManifestError(f"its version {version!r} is not written like '1.0.0'")
        if beta is not None and not isinstance(beta, bool):
            raise ManifestError(f'its beta is {beta!r}, neither true nor false')
        provides = values.get('provides')
        return cls(
            name=name,
            version=version,
            beta=beta,
            provides=None if provides is None else _cluster_types(provides),
        )

    def filled_by(self, other: Manifest) -> Manifest:
        """Return it with what it leaves open as the other has it."""
        left_open = [
            field.name for field in dataclasses.fields(self) if getattr(self, field.name) is None
        ]
        return dataclasses.replace(self, **{name: getattr(other, name) for name in left_open})

    def lacking(self) -> list[str]:
        """Return what a driver must say, and this one does not; its name is known anyway."""
        return [name for name in ('version', 'provides') if getattr(self, name) is None]


def from_yaml(text: str) -> Manifest:
    """Return what a driver.yaml says; keys that are for others are left to them.

    :raises ManifestError: it is no YAML, or a value is not what it should be.
    """
    with importing('Cannot read driver.yaml', ManifestError):
        import yaml
    try:
        values = yaml.safe_load(text)
    # PyYAML lets through whatever its constructors raise: a 13th month is a ValueError.
    except Exception as exc:
        raise ManifestError(f'driver.yaml cannot be read: {exc}') from exc
    if not isinstance(values, dict):
        raise ManifestError('driver.yaml is no mapping of keys to values')
    return Manifest.read(values)


def from_version_module(text: str) -> Manifest:
    """Return what the literals of a version.py say: ``version`` and ``driver``, the name.

    It is not run. One that names no driver is the version of something else.

    :raises ManifestError: it is no Python, or a value is not what it should be.
    """
    try:
        literals = dict(_literals(ast.parse(text)))
    except (SyntaxError, ValueError) as exc:
        raise ManifestError(f'version.py cannot be read: {exc}') from exc
    if 'driver' not in literals:
        return Manifest()
    return Manifest.read({**literals, 'name': literals['driver']})


def _literals(module: ast.Module) -> Iterable[tuple[str, object]]:
    for node in module.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                try:
                    yield name, ast.literal_eval(value)
                except (TypeError, ValueError):
                    continue  # computed, so none of what is read here


def from_class(driver_class: type) -> Manifest:
    """Return what the attributes of a driver's class say.

    Making a driver may need what is not there now, so none is made: a property is
    called with the class in the place of the driver.

    :raises ManifestError: a value is not what it should be.
    """
    values = {
        field.name: getattr(driver_class, field.name, None)
        for field in dataclasses.fields(Manifest)
    }
    provides = values['provides']
    if isinstance(provides, property) and provides.fget:
        values['provides'] = provides.fget(driver_class)
    return Manifest.read(values)


def _cluster_types(provides: object) -> tuple[ClusterType, ...]:
    if isinstance(provides, str | Mapping) or not isinstance(provides, Iterable):
        raise ManifestError(f'it provides {provides!r}, which is no list of kinds of cluster')
    try:
        found = {cluster_type(entry) for entry in provides}
    except ValueError as exc:
        raise ManifestError(f'of what it provides, {exc}') from exc
    if not found:
        raise ManifestError('it provides nothing')
    return tuple(sorted(found))
