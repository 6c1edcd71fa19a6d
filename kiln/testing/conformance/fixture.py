"""Base fixture of the kit for compute drivers: driver, builds, and cleanup."""

from __future__ import annotations

import contextlib
import functools
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

from kiln.clock import SYSTEM_CLOCK, Clock
from kiln.compute.facade import Compute
from kiln.compute_drivers import validation
from kiln.compute_drivers.authoring.bench import Bench, CannotBeShown
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.calls import Call
from kiln.exceptions import InvalidBuildRequest, UnsupportedOperation
from kiln.models import (
    Ability,
    Amphora,
    AmphoraType,
    ComputeStatus,
    ImageFacts,
    Resource,
    ServerGroup,
    State,
)
from kiln.testing.conformance import sweep
from kiln.testing.conformance.form import WrongForm, open_checked
from kiln.testing.conformance.polling import Polling, is_gone
from kiln.testing.conformance.samples import ask

__all__ = ['ConformanceFixture', 'is_gone', 'needs', 'takes']

# As in runner.py.
__unittest = True


class ConformanceFixture(Polling):
    """The part of the kit that a vendor fills in: ``make_driver``, and options.

    Options that are not set here are taken from the driver's own bench, if it names one.
    """

    #: Arguments that every build needs on this backend: flavor, image, networks.
    build_arguments: Mapping[str, Any] = MappingProxyType({})
    #: Unattached ports, and networks, for tests of attaching.
    port_ids: Sequence[str] = ()
    network_ids: Sequence[str] = ()
    #: Images that builds accept, as describe_image() must describe them.
    images: Sequence[ImageFacts] = ()
    #: Security groups, with all ports that each opens to its members.
    group_ports: Mapping[str, Sequence[str]] = MappingProxyType({})
    #: The hosts of each zone; 0 takes those of the bench.
    hosts_per_zone: int = 0
    #: True if all drivers of make_driver() have one backend, so that each of them is another
    #: driver of it, as after a restart. Otherwise the bench is asked for another driver first.
    one_backend: bool = False
    #: The clock of the backend's effects; None is the driver's own. A clock that can
    #: ``advance`` is advanced, so that waiting takes no real time.
    clock: Clock | None = None
    #: Seconds within which every call must return; 0 takes those of the bench.
    soon_s = 0.0
    soon_rule = 'it waits for its effect.'
    #: Timeout in seconds of a call that must miss its deadline; enough for it to be accepted.
    short_s: float = 0.0
    #: Prefix of the names and keys of all that is built; anything without it
    #: belongs to others and is never touched.
    prefix: str = ''

    bench: Bench
    #: Set on a class whose driver was opened, or has the wrong form.
    _opened: ClassVar[bool]
    _wrong_form: ClassVar[str]

    def make_driver(self) -> AmphoraComputeDriver:
        """Return a driver of the backend under test; called for each behaviour."""
        raise NotImplementedError(f'{type(self).__name__} must implement make_driver().')

    def make_compute(self, driver: AmphoraComputeDriver) -> Compute:
        """Return a driver behind its guards; override it to test other guards."""
        return Compute(driver)

    def setUp(self) -> None:
        """Open a driver, and register the cleanup of everything that is built."""
        super().setUp()
        self.prefix = self.prefix or f'kit-{uuid.uuid4().hex[:8]}'
        self.other_owner: str = sweep.other_owner(self.prefix)
        self._made: list[str] = []
        self._groups: list[str] = []
        #: True once a behaviour has taken ports of the bench, which the next one needs.
        self._takes_ports = False
        self._open_driver()
        self.time = self.clock or self.driver.clock
        self.clocks = (SYSTEM_CLOCK, self.time)
        self.timeout_s = self.timeout_s or self.bench.timeout_s
        self.soon_s = self.soon_s or self.bench.soon_s
        self.short_s = self.short_s or self.bench.short_s
        self.build_arguments = self.build_arguments or self.bench.build_arguments
        self.port_ids = self.port_ids or self.bench.port_ids
        self.network_ids = self.network_ids or self.bench.network_ids
        self.images = self.images or self.bench.images
        self.group_ports = self.group_ports or self.bench.group_ports
        self.hosts_per_zone = self.hosts_per_zone or self.bench.hosts_per_zone
        self.addCleanup(self._sweep)

    def _open_driver(self) -> None:
        """Open the driver; if it has the wrong form, only the first behaviour fails."""
        cls = type(self)
        if wrong := vars(cls).get('_wrong_form'):
            raise CannotBeShown(f'not run, because {wrong} has failed')
        try:
            self.driver, self.bench = open_checked(self.make_driver)
        except WrongForm as exc:
            if '_opened' not in vars(cls):
                cls._wrong_form = self._testMethodName
            raise self.failureException(str(exc)) from exc.__cause__
        cls._opened = True
        # A behaviour can replace its driver by another of the same backend.
        self.addCleanup(lambda: self.driver.close())

    # ---- building --------------------------------------------------------

    def new_key(self) -> str:
        """Return an unused name, which is also an unused build key."""
        return f'{self.prefix}-{uuid.uuid4().hex[:8]}'

    def kind(self) -> AmphoraType:
        """Return a type that the backend builds; a virtual machine if it can."""
        kinds = self.driver.limits.amphora_types
        return AmphoraType.VM if AmphoraType.VM in kinds else min(kinds)

    def arguments(self, **given: Any) -> dict[str, Any]:
        """Return arguments of a build that the backend must accept."""
        key = self.new_key()
        base = {'amphora_type': self.kind(), 'build_key': key, 'name': key}
        if str(given.get('build_key')).startswith(self.prefix):
            # A build with the same key must be the same in all other arguments too.
            base['name'] = given['build_key']
        return {**base, **self.build_arguments, **given}

    def taken(self, **options: Any) -> dict[str, Any]:
        """Return those of the options that the backend supports."""
        refused = self.driver.limits.refused_options
        return {name: value for name, value in options.items() if name not in refused}

    def build(self, **given: Any) -> str:
        """Build an instance and return its id; the instance might still be building."""
        amphora_id = self.driver.build(**self.arguments(**given))
        self._made.append(amphora_id)
        return amphora_id

    def build_active(self, **given: Any) -> str:
        """Build an instance, and wait until it is active."""
        amphora_id = self.build(**given)
        self.settle(amphora_id)
        return amphora_id

    def suspended(self, **given: Any) -> str:
        """Build an instance, suspend it, and return its id."""
        amphora_id = self.build_active(**given)
        self.driver.suspend(amphora_id)
        self.settle(amphora_id, State.SUSPENDED)
        return amphora_id

    def described(self, **given: Any) -> Amphora:
        """Build an instance, and return its description from the backend."""
        return self.driver.get_amphora(amphora_id=self.build(**given))

    def build_for_other(self, **given: Any) -> str:
        """Build an instance that belongs to another site."""
        request = validation.build_request(
            self.driver.limits, self.arguments(**given), owner=self.other_owner
        )
        amphora_id: str = self.driver.perform(Call.BUILD, request)
        self._made.append(amphora_id)
        return amphora_id

    @contextlib.contextmanager
    def as_owner(self, owner: str) -> Iterator[None]:
        """Let the driver work for another site."""
        layers: list[Any] = [self.driver]
        while hasattr(layers[-1], 'inner'):
            layers.append(layers[-1].inner)
        before = [layer.owner for layer in layers]
        for layer in layers:
            layer.owner = owner
        try:
            yield
        finally:
            for layer, own in zip(layers, before, strict=True):
                layer.owner = own

    def new_group(self, name: str | None = None, policy: str = 'anti-affinity') -> ServerGroup:
        """Create a server group."""
        group = self.driver.create_server_group(name or self.new_key(), policy)
        self._groups.append(group.id)
        return group

    def make_resources(self) -> Sequence[Resource]:
        """Make a resource of each kind that no amphora uses; by default the bench does it."""
        return self.bench.leave_resources()

    def make_unowned(self, name: str) -> str:
        """Make a machine that belongs to nobody; by default the bench does it."""
        return self.bench.make_unowned(name)

    def unowned(self) -> Amphora:
        """Return a machine that belongs to nobody, and is removed at the end."""
        amphora_id = self.make_unowned(self.new_key())
        self._made.append(amphora_id)
        return self.driver.get_amphora(amphora_id=amphora_id)

    def leave_resources(self) -> Sequence[Resource]:
        """Make resources that no amphora uses, which are removed at the end."""
        left = self.make_resources()
        for one in left:
            self.addCleanup(sweep.clear, self.driver.delete_resource, one)
        return left

    def assert_not_built(self, **wrong: Any) -> None:
        """Fail unless a build is refused and builds nothing."""
        key, named = self.new_key(), ', '.join(sorted(wrong))
        with self.assertRaises(InvalidBuildRequest, msg=f'build() with this {named}'):
            self.build(**{'build_key': key, **wrong})
        self.assertIsNone(
            self.driver.find_build(key), f'build() with this {named}, refused, builds nothing'
        )

    def unknown_id(self) -> str:
        """Return an unused id in a form that every backend takes."""
        return str(uuid.uuid4())

    def both(self, amphora_id: str) -> tuple[Amphora, ComputeStatus]:
        """Return the description of an instance, and its status."""
        return self.driver.get_amphora(amphora_id=amphora_id), self.driver.status(amphora_id)

    # ---- abilities ----------------------------------------------

    def assert_refused(self, ability: Ability) -> None:
        """Fail unless the driver refuses an ability it lacks and names both in the error."""
        with self.assertRaises(UnsupportedOperation, msg=f'{ability.value}()') as caught:
            ask(self.driver, ability, self.unknown_id())
        self.assertIsInstance(caught.exception, NotImplementedError)
        self.assertIn(ability.value, str(caught.exception))
        self.assertIn(self.driver.name, str(caught.exception))

    def lacks(self, *abilities: Ability) -> bool:
        """Return True if the driver lacks an ability, which it must refuse."""
        lacking = [one for one in abilities if one not in self.driver.abilities]
        for ability in lacking:
            self.assert_refused(ability)
        return bool(lacking)

    def lacks_option(self, **option: Any) -> bool:
        """Return True if the backend does not support an option, which it must refuse."""
        if self.driver.limits.refused_options.isdisjoint(option):
            return False
        with self.assertRaises(
            InvalidBuildRequest, msg=f'{", ".join(option)}, one of the refused_options'
        ):
            self.build(**option)
        return True

    # ---- cleanup ---------------------------------------------------------

    def _sweep(self) -> None:
        # A guard can refuse all calls for a while after the faults of a behaviour.
        driver = sweep.without_guards(self.driver)
        doomed = sweep.sweep(driver, self.prefix, self._made)
        for group_id in self._groups:
            sweep.clear(driver.delete_server_group, group_id)
        if self._takes_ports:
            # A backend can free the ports of a machine only when the machine is gone.
            sweep.wait_until_gone(driver, doomed, self.time, self.timeout_s)


_F = TypeVar('_F', bound=ConformanceFixture)
_Behaviour = Callable[[_F], None]


def needs(*abilities: Ability) -> Callable[[_Behaviour[_F]], _Behaviour[_F]]:
    """Show that the driver refuses each of these abilities that it lacks."""

    def judged(behaviour: _Behaviour[_F]) -> _Behaviour[_F]:
        either = _unless(lambda self: self.lacks(*abilities), behaviour)
        calls = tuple(getattr(AmphoraComputeDriver, ability.value) for ability in abilities)
        either.contract = calls  # type: ignore[attr-defined]
        return either

    return judged


def takes(**option: Any) -> Callable[[_Behaviour[_F]], _Behaviour[_F]]:
    """Show that an option is refused where the backend does not support it."""
    return lambda behaviour: _unless(lambda self: self.lacks_option(**option), behaviour)


def _unless(
    lacking: Callable[[ConformanceFixture], bool], behaviour: _Behaviour[_F]
) -> _Behaviour[_F]:
    @functools.wraps(behaviour)
    def either(self: _F) -> None:
        if not lacking(self):
            behaviour(self)

    return either
