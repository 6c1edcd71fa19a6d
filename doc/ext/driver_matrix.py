"""Matrix of drivers in tree, read from their source or their classes.

The modules of compute drivers import client libraries, which an environment that builds
the documentation does not have. So their source is parsed, and not imported.
"""

import ast
import dataclasses
import importlib.metadata
import importlib.util
import inspect
import itertools
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from kiln.cluster_drivers.base import ClusterDriver
from kiln.cluster_drivers.discovery.activation import DiscoverySettings
from kiln.cluster_drivers.discovery.discovery import discover
from kiln.compute_drivers.calls import Call
from kiln.models import Ability, AmphoraType, Limits

KILN = pathlib.Path(inspect.getfile(Limits)).parent
GROUP = 'kiln.compute_drivers'


class Unknown(Exception):
    """A value that only a configured driver has."""


@dataclasses.dataclass(frozen=True)
class Limit:
    """Values that a limit can have, one for each configuration that makes a difference."""

    #: Empty if the source alone does not have them.
    values: tuple[Any, ...]

    @property
    def always(self) -> frozenset[str]:
        """Members that a set has in every configuration."""
        return frozenset.intersection(*map(frozenset, self.values))

    @property
    def sometimes(self) -> frozenset[str]:
        """Members that a set has in some configurations."""
        return frozenset.union(*map(frozenset, self.values)) - self.always


@dataclasses.dataclass(frozen=True)
class ComputeDriver:
    """Abilities and limits of a compute driver, as its source declares them."""

    name: str
    abilities: frozenset[Ability]
    #: The abilities among them that a configured backend can lack.
    conditional: frozenset[Ability]
    limits: dict[str, Limit]


def compute_drivers() -> list[ComputeDriver]:
    """Return the compute drivers in tree, by name."""
    points = importlib.metadata.entry_points(group=GROUP)
    own = {point.name: point for point in points if point.module.startswith('kiln.')}
    return [_compute_driver(name, own[name].module, own[name].attr) for name in sorted(own)]


def cluster_drivers() -> dict[str, type[ClusterDriver]]:
    """Return the classes of the cluster drivers in tree, by name."""
    catalogue = discover(DiscoverySettings())
    loaded = [catalogue.load(record) for record in catalogue.records]
    own = [one for one in loaded if one.folder and one.folder.is_relative_to(KILN)]
    return {one.record.name: one.whole_class() for one in own}


def _compute_driver(name: str, module: str, class_name: str) -> ComputeDriver:
    classes = list(_Class.family(module, class_name))
    hooks = {method for one in classes for method in one.members}
    abilities = frozenset(one.ability for one in Call if one.ability and one.hook in hooks)
    limits = next(one.limits() for one in classes if 'limits' in one.members)
    conditional = {able for one in classes for able in one.conditional_abilities()}
    return ComputeDriver(name, abilities, frozenset(conditional), limits)


class _Class:
    """A class in a module that is parsed, and not imported."""

    def __init__(self, module: ast.Module, name: str) -> None:
        (self.node,) = (
            one for one in module.body if isinstance(one, ast.ClassDef) and one.name == name
        )
        self.constants = _assigned(module.body)
        self.members = {
            **_assigned(self.node.body),
            **{one.name: one for one in self.node.body if isinstance(one, ast.FunctionDef)},
        }
        self._locals: dict[str, ast.expr] = {}

    @classmethod
    def family(cls, module_name: str, name: str) -> Iterator['_Class']:
        """Yield a class and those it is derived from, without the contract itself."""
        spec = importlib.util.find_spec(module_name)
        module = ast.parse(pathlib.Path(spec.origin).read_text())
        found = cls(module, name)
        yield found
        homes = {
            alias.name: one.module
            for one in module.body if isinstance(one, ast.ImportFrom)
            for alias in one.names
        }  # fmt: skip
        for base in found.node.bases:
            # The classes of the contract and of its authoring tools have no hooks of a backend.
            home = homes[base.id]
            if home.startswith(f'{GROUP}.') and home.split('.')[2] not in ('base', 'authoring'):
                yield from cls.family(home, base.id)

    def limits(self) -> dict[str, Limit]:
        """Return all limits; those that the source does not set have their defaults."""
        made = self.members['limits']
        if isinstance(made, ast.FunctionDef):
            self._locals = _assigned(made.body)
            made = next(one.value for one in made.body if isinstance(one, ast.Return))
        given = {one.arg: self._limit(one.value) for one in made.keywords}
        defaults = dataclasses.asdict(Limits())
        return {name: given.get(name, Limit((value,))) for name, value in defaults.items()}

    def conditional_abilities(self) -> Iterator[Ability]:
        """Yield the abilities in the constants that ``abilities`` is computed from."""
        for node in ast.walk(self.members.get('abilities', ast.Pass())):
            for one in ast.walk(self.constants.get(getattr(node, 'id', ''), ast.Pass())):
                if isinstance(one, ast.Attribute) and getattr(one.value, 'id', '') == 'Ability':
                    yield Ability[one.attr]

    def _limit(self, node: ast.expr) -> Limit:
        try:
            return Limit(tuple(self._values(node)))
        except Unknown:
            return Limit(())

    def _values(self, node: ast.expr) -> Sequence[Any]:
        match node:
            case ast.IfExp(body=body, orelse=other):
                return [*self._values(body), *self._values(other)]
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                both = itertools.product(self._values(left), self._values(right))
                return [one | other for one, other in both]
            case ast.Name(id=name) if known := self._locals.get(name) or self.constants.get(name):
                return self._values(known)
        known = {'AmphoraType': AmphoraType, 'frozenset': frozenset}
        try:
            return [eval(compile(ast.Expression(node), '<limits>', 'eval'), known)]
        except NameError as exc:
            raise Unknown(ast.unparse(node)) from exc


def _assigned(body: Sequence[ast.stmt]) -> dict[str, ast.expr]:
    found = {}
    for one in body:
        match one:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found[name] = value
    return found
