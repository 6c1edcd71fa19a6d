"""Manifest of a cluster driver: from driver.yaml, version.py or its class.

Pure; only the YAML parser is imported, and no class is instantiated.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable, Mapping

from kiln.cluster_drivers.records import NAME, VERSION, ClusterType, cluster_type
from kiln.plugins.extras import importing


class ManifestError(ValueError):
    """The reason why a driver cannot be used, for people."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """Declarations of a driver; None if another source has to declare the value."""

    name: str | None = None
    version: str | None = None
    beta: bool | None = None
    provides: tuple[ClusterType, ...] | None = None

    @classmethod
    def read(cls, values: Mapping[str, object]) -> Manifest:
        """Return the manifest in some values; other keys are ignored.

        :raises ManifestError: a value is invalid.
        """
        name, version, beta = (values.get(key) for key in ('name', 'version', 'beta'))
        if name is not None and not (isinstance(name, str) and NAME.fullmatch(name)):
            raise ManifestError(f'its name {name!r} is not a name of a driver')
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
        """Return a copy with missing values taken from the other manifest."""
        left_open = [
            field.name for field in dataclasses.fields(self) if getattr(self, field.name) is None
        ]
        return dataclasses.replace(self, **{name: getattr(other, name) for name in left_open})

    def lacking(self) -> list[str]:
        """Return the required values that are missing; the name is known anyway."""
        return [name for name in ('version', 'provides') if getattr(self, name) is None]


def from_yaml(text: str) -> Manifest:
    """Return the manifest in a driver.yaml; other keys are ignored.

    :raises ManifestError: the text is not YAML, or a value is invalid.
    """
    with importing('Cannot read driver.yaml', ManifestError):
        import yaml
    try:
        values = yaml.safe_load(text)
    # Constructors of PyYAML can raise anything: a 13th month is a ValueError.
    except Exception as exc:
        raise ManifestError(f'driver.yaml cannot be read: {exc}') from exc
    if not isinstance(values, dict):
        raise ManifestError('driver.yaml is not a mapping of keys to values')
    return Manifest.read(values)


def from_version_module(text: str) -> Manifest:
    """Return the manifest in the literals of a version.py; ``driver`` is the name.

    The file is not executed. A version.py without ``driver`` belongs to something else and
    gives an empty manifest.

    :raises ManifestError: the text is not Python, or a value is invalid.
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
                    continue  # computed; only literals are read


def from_class(driver_class: type) -> Manifest:
    """Return the manifest in the attributes of a driver's class.

    Creating a driver can need resources that are missing now. So a property is called with
    the class in place of an instance.

    :raises ManifestError: a value is invalid.
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
        raise ManifestError(f'it provides {provides!r}, which is not a list of types of cluster')
    try:
        found = {cluster_type(entry) for entry in provides}
    except ValueError as exc:
        raise ManifestError(f'its provides are wrong: {exc}') from exc
    if not found:
        raise ManifestError('it provides nothing')
    return tuple(sorted(found))
