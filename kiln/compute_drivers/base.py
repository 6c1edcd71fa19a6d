"""The compute contract: what a controller calls and what a vendor fills in.

The public methods check their arguments once and then ask one *hook*, through
:meth:`AmphoraComputeDriver.perform`. A vendor writes hooks; a wrapper
overrides ``perform`` alone. Nothing here waits, retries or starts threads.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

from kiln.clock import SYSTEM_CLOCK, Clock, Deadline, deadline_scope
from kiln.compute_drivers import validation
from kiln.compute_drivers.arguments import checked
from kiln.compute_drivers.calls import Call
from kiln.compute_drivers.hooks import ComputeHooks
from kiln.compute_drivers.own_errors import own_error, unsupported
from kiln.exceptions import (
    AmbiguousInstanceError,
    AmphoraComputeError,
    InstanceNotFoundError,
    InvalidRequest,
    UnsupportedOperation,
)
from kiln.models import (
    Ability,
    Amphora,
    AmphoraType,
    Attachment,
    Capabilities,
    Changes,
    ComputeStatus,
    DriverHealth,
    ImageFacts,
    Limits,
    Resource,
    ServerGroup,
    State,
)

#: Raised when a driver written for the old contract could no longer work.
CONTRACT_VERSION = 1


class AmphoraComputeDriver(ComputeHooks):
    """Builds, finds, watches and deletes amphorae on one backend.

    A vendor writes ``_build``, ``_delete``, ``_get``, ``_list`` and ``limits``;
    the other hooks have defaults on top of these, or are abilities that a
    driver has by overriding them.
    """

    contract_version: ClassVar[int] = CONTRACT_VERSION
    #: Seconds from a build's acceptance in which it cannot be done: so long nobody looks.
    soonest_build_s: ClassVar[float] = 0.0
    #: oslo.config options of the driver, read from its backend's own group.
    options: ClassVar[Sequence[Any]] = ()
    #: Abilities the class has but this instance lacks: an old API, a missing right.
    missing_abilities: frozenset[Ability] = frozenset()
    #: Set by :meth:`open`; a driver made by hand may keep these.
    name: str = 'compute'
    owner: str = 'kiln'
    clock: Clock = SYSTEM_CLOCK

    _declared: ClassVar[frozenset[Ability]] = frozenset()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._declared = frozenset(
            call.ability
            for call in Call
            if call.ability and getattr(cls, call.hook) is not getattr(ComputeHooks, call.hook)
        )

    @classmethod
    def open(cls, conf: Any, *, name: str, owner: str, clock: Clock = SYSTEM_CLOCK) -> Self:
        """Return the driver of one configured backend; touch no network yet.

        ``conf`` has an attribute for each of the class's ``options``.
        """
        driver = cls(conf)  # type: ignore[call-arg]  # the vendor's __init__
        driver.name, driver.owner, driver.clock = name, owner, clock
        return driver

    # ---- what a backend is and can do -----------------------------------

    @property
    @abc.abstractmethod
    def limits(self) -> Limits:
        """What the backend accepts in a build; usually a class attribute."""

    @property
    def abilities(self) -> frozenset[Ability]:
        """What this driver can do beside build, delete, find and list."""
        return self._declared - self.missing_abilities

    def capabilities(self) -> Capabilities:
        """Return what the driver can do, as data; never asks the backend."""
        return Capabilities(driver=self.name, abilities=self.abilities, limits=self.limits)

    def check(self) -> DriverHealth:
        """Look at the backend, cheaply and without changing anything.

        :raises ComputeServiceError: it cannot be used now.
        """
        health: DriverHealth = self.perform(Call.CHECK)
        return health

    def close(self) -> None:
        """Give back connections and threads; safe to repeat."""

    # ---- the four of the founding note ----------------------------------

    def build(
        self,
        amphora_type: AmphoraType | str = AmphoraType.VM,
        amphora_flavor: str | None = None,
        image_id: str | None = None,
        keys: Iterable[str] | None = None,
        sec_groups: Iterable[str] | None = None,
        network_ids: Iterable[str] | None = None,
        config_drive_files: Mapping[str, Any] | None = None,
        user_data: Any = None,
        *,
        name: str | None = None,
        build_key: str | None = None,
        port_ids: Iterable[str] | None = None,
        availability_zone: str | None = None,
        server_group_id: str | None = None,
        metadata: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> str:
        """Ask for a new amphora; return its id once the backend has agreed.

        Safe to repeat with the same ``build_key``: the first instance's id is
        returned, and nothing is built. Does not wait until it runs. A repeat must
        ask for the same type, flavor, image and name.

        :raises InvalidBuildRequest: wrong arguments; nothing was sent.
        :raises QuotaExceeded: the project may have no more; nothing was built.
        :raises InsufficientCapacity: no room there; nothing was built.
        :raises BuildConflict: a port or name is taken; nothing was built.
        :raises BuildDiffers: the key built something else; nothing was done.
        :raises BuildOutcomeUnknown: no answer; it may exist, see ``build_key``.
        :raises ServiceUnavailable: the request never arrived.
        """
        # The arguments go on by their names: the request checks the type of each.
        request = validation.build_request(self.limits, locals(), owner=self.owner)
        with self._within(timeout):
            amphora_id: str = self.perform(Call.BUILD, request)
        return amphora_id

    def delete(self, amphora_id: str, *, timeout: float | None = None) -> None:
        """Ask the backend to remove an amphora; return once it has agreed.

        Safe to repeat: an amphora already gone is a success.
        Does not wait: poll ``status`` until it raises InstanceNotFoundError.

        :raises DeleteFailed: refused; the amphora still exists.
        :raises ServiceTimeout: no answer; it may or may not go.
        """
        with self._within(timeout):
            self._perform_checked(Call.DELETE, amphora_id)

    def status(self, amphora_id: str) -> ComputeStatus:
        """Return what the backend says of an amphora now.

        ``.raw`` is the backend's own answer. DELETED is returned only where
        the backend itself says so.

        :raises InstanceNotFoundError: the backend knows none of that id.
        """
        status: ComputeStatus = self._perform_checked(Call.STATUS, amphora_id)
        return status

    def get_amphora(
        self, amphora_name: str | None = None, amphora_id: str | None = None
    ) -> Amphora:
        """Find an amphora by name or by id; where both are given both must fit.

        :raises InstanceNotFoundError: there is none.
        :raises AmbiguousInstanceError: several have the name; none is chosen.
        """
        call, subject = self.look_up(amphora_name, amphora_id)
        return self.choose(self.perform(call, subject), amphora_name)

    # ---- many at once ---------------------------------------------------

    def find_build(self, build_key: str) -> Amphora | None:
        """Return the amphora built with that key; None only if certain there is none."""
        found: Amphora | None = self._perform_checked(Call.FIND_BUILD, build_key)
        return found

    def list_amphorae(self, *, owner: str | None = None) -> Iterator[Amphora]:
        """Return every amphora of one owner, this site where none is named."""
        owner = self.owner if owner is None else owner
        return iter(self._perform_checked(Call.LIST, owner))

    def statuses(self, amphora_ids: Iterable[str]) -> Mapping[str, ComputeStatus]:
        """Return the status of each amphora that exists, for few requests.

        An id that is not in the answer does not exist: the backend said so.
        """
        ids = validation.check_ids(amphora_ids)
        if not ids:
            return {}
        found: Mapping[str, ComputeStatus] = self.perform(Call.STATUSES, ids)
        return found

    def changes(self, since: str = '') -> Changes:
        """Return what changed among this site's amphorae since a cursor.

        The empty cursor, and one too old, answer with everything
        (``complete``). A change may be told twice, or in a later answer,
        never left out by who goes on from cursor to cursor.
        """
        changes: Changes = self._perform_checked(Call.CHANGES, since)
        return changes

    def reached(self, state: State, since: str) -> Collection[str] | None:
        """Return the ids of those in a state, among what changed since a cursor.

        For who waits for nothing else, where that costs the backend far less than
        :meth:`changes`; None where it does not, or now cannot be told. It tells of
        ACTIVE and of ERROR, and of tasks under way nothing.
        """
        ids: Collection[str] | None = self._perform_checked(Call.REACHED, state, since)
        return ids

    def cursor(self) -> str:
        """Return a cursor that tells of what changes from now on; asks nobody.

        Empty, as here, where only an answer of :meth:`changes` can give one. A driver
        whose cursors are moments has one at hand, and who watches a few of its many
        amphorae need not ask for all of them first.
        """
        return ''

    def on_news(self, hurry: Callable[[], None]) -> None:
        """Have ``hurry`` called when there may be something new to look at.

        A driver that is told of changes by its backend does so, from any
        thread; one that has to ask never does. It may be asked for changes
        several times a second then.
        """

    # ---- execution state ------------------------------------------------

    def suspend(self, amphora_id: str) -> None:
        """Ask that an active amphora be suspended; a suspended one is left so.

        :raises InstanceStateConflict: it is in no state to be suspended.
        """
        self._perform_checked(Call.SUSPEND, amphora_id)

    def resume(self, amphora_id: str) -> None:
        """Ask that a suspended amphora go on.

        :raises NotSuspendedError: it was not suspended.
        """
        self._perform_checked(Call.RESUME, amphora_id)

    def reboot(self, amphora_id: str, *, hard: bool = False) -> None:
        """Ask that an amphora be rebooted; hard means as by its power switch.

        :raises InstanceStateConflict: it is in no state to be rebooted.
        """
        self._perform_checked(Call.REBOOT, amphora_id, bool(hard))

    def rebuild(self, amphora_id: str, *, image_id: str | None = None) -> None:
        """Ask that an amphora be made anew under its id, from its image or another.

        :raises InvalidRequest: there is no such image.
        :raises InstanceStateConflict: it is in no state to be rebuilt.
        """
        self._perform_checked(Call.REBUILD, amphora_id, image_id)

    # ---- ports, networks, groups ----------------------------------------

    def attach_port(self, amphora_id: str, port_id: str) -> Attachment:
        """Attach a port; one that hangs there already is a success.

        :raises InstanceStateConflict: the port is in use elsewhere.
        """
        attachment: Attachment = self._perform_checked(Call.ATTACH_PORT, amphora_id, port_id)
        return attachment

    def detach_port(self, amphora_id: str, port_id: str) -> None:
        """Detach a port; one that does not hang there is a success."""
        self._perform_checked(Call.DETACH_PORT, amphora_id, port_id)

    def attach_network(
        self, amphora_id: str, network_id: str, *, address: str | None = None
    ) -> Attachment:
        """Attach a new port of a network, with a fixed address if one is given."""
        attachment: Attachment = self._perform_checked(
            Call.ATTACH_NETWORK, amphora_id, network_id, address
        )
        return attachment

    def detach_network(self, amphora_id: str, network_id: str) -> None:
        """Detach all ports of a network; where none hangs it is a success."""
        self._perform_checked(Call.DETACH_NETWORK, amphora_id, network_id)

    def create_server_group(self, name: str, policy: str) -> ServerGroup:
        """Create a group: affinity, anti-affinity, or the soft form of either."""
        group: ServerGroup = self._perform_checked(Call.CREATE_SERVER_GROUP, name, policy)
        return group

    def delete_server_group(self, server_group_id: str) -> None:
        """Delete a group, its members stay; one already gone is a success."""
        self._perform_checked(Call.DELETE_SERVER_GROUP, server_group_id)

    # ---- validation, resources, console ---------------------------------

    def validate_flavor(self, flavor: str) -> None:
        """Return if builds may use the flavor.

        :raises InvalidRequest: they may not.
        """
        self._perform_checked(Call.VALIDATE_FLAVOR, flavor)

    def validate_image(self, image_id: str) -> None:
        """Return if builds may use the image.

        :raises InvalidRequest: they may not.
        """
        self._perform_checked(Call.VALIDATE_IMAGE, image_id)

    def validate_zone(self, availability_zone: str) -> None:
        """Return if builds may use the availability zone.

        :raises InvalidRequest: they may not.
        """
        self._perform_checked(Call.VALIDATE_ZONE, availability_zone)

    def describe_image(self, image_id: str) -> ImageFacts:
        """Return what is said of an image that is given by its id or its name.

        :raises InvalidRequest: builds may not use it.
        """
        described: ImageFacts = self._perform_checked(Call.DESCRIBE_IMAGE, image_id)
        return described

    def list_zones(self) -> tuple[str, ...]:
        """Return the names of the zones in which builds may be made now, in order."""
        return tuple(sorted(self.perform(Call.LIST_ZONES)))

    def list_resources(self, owner: str | None = None) -> Iterator[Resource]:
        """Return what this site made beside amphorae: ports, volumes, groups."""
        owner = self.owner if owner is None else owner
        return iter(self._perform_checked(Call.LIST_RESOURCES, owner))

    def delete_resource(self, resource: Resource) -> None:
        """Delete a resource of this site; one already gone is a success.

        :raises InvalidRequest: it is not this site's.
        """
        self._perform_checked(Call.DELETE_RESOURCE, resource)

    def console_log(self, amphora_id: str, *, lines: int | None = None) -> str:
        """Return the last lines an amphora wrote on its console, or all of them."""
        return str(self._perform_checked(Call.CONSOLE_LOG, amphora_id, lines))

    # ---- the one door to the hooks --------------------------------------

    def perform(self, call: Call, *args: Any) -> Any:
        """Ask one hook with checked arguments; every error leaves as kiln's own.

        Wrappers override this and nothing else. Callers use the methods above.
        """
        if call.ability is not None and call.ability not in self.abilities:
            raise self._unsupported(call)
        try:
            result = getattr(self, call.hook)(*args)
            if isinstance(result, Iterator):
                # A lazy answer would fail later, outside of every guard.
                result = tuple(result)
            return result
        # A vendor's code: what is none of kiln's errors becomes one.
        except Exception as exc:
            if call is Call.DELETE and isinstance(exc, InstanceNotFoundError):
                return None
            error = own_error(exc, call, args, backend=self.name, abilities=self.abilities)
            if error is exc:
                raise
            raise error from error.__cause__

    def _perform_checked(self, call: Call, *args: Any) -> Any:
        return self.perform(call, *checked(call, self.owner, *args))

    def refusal(self, call: Call) -> AmphoraComputeError | None:
        """Return the error such a call would be refused with now, without making it."""
        if call.ability is not None and call.ability not in self.abilities:
            return self._unsupported(call)
        return None

    def _unsupported(self, call: Call) -> UnsupportedOperation:
        return unsupported(call, self.name, self.abilities)

    def _within(self, timeout: float | None) -> Any:
        seconds = validation.check_timeout(timeout)
        return deadline_scope(None if seconds is None else Deadline.after(seconds, self.clock))

    # ---- the two halves of get_amphora, for who asks in another way ------

    def look_up(self, amphora_name: str | None, amphora_id: str | None) -> tuple[Call, str]:
        """Return the call, and its argument, that finds an amphora by name or id."""
        if amphora_name is not None:
            amphora_name = validation.check_text('amphora_name', amphora_name)
        if amphora_id is not None:
            return Call.GET, validation.check_text('amphora_id', amphora_id)
        if amphora_name is not None:
            return Call.FIND, amphora_name
        raise InvalidRequest('Cannot find an amphora: give its name or its id.')

    def choose(self, found: Amphora | Sequence[Amphora], amphora_name: str | None) -> Amphora:
        """Return the one amphora that the answer to a look-up is about, or raise."""
        candidates = [found] if isinstance(found, Amphora) else found
        matching = [a for a in candidates if amphora_name is None or a.name == amphora_name]
        if not matching:
            others = ''.join(f' Id {a.id} is called {a.name!r}.' for a in candidates)
            raise InstanceNotFoundError(
                f'Cannot find {amphora_name!r}: {self.name!r} has no such amphora.{others}',
                backend=self.name,
            )
        if len(matching) > 1:
            ids = ', '.join(amphora.id for amphora in matching)
            raise AmbiguousInstanceError(
                f'Cannot choose {amphora_name!r}: {len(matching)} amphorae have that name: {ids}.',
                backend=self.name,
            )
        return matching[0]
