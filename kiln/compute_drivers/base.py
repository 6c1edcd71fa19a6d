"""The compute contract: public calls for a controller, hooks for a vendor.

The public methods check their arguments once and then call one *hook*, through
:meth:`AmphoraComputeDriver.perform`. A vendor writes hooks; a wrapper overrides
``perform`` alone. Nothing here waits, retries or starts threads.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

from kiln.clock import SYSTEM_CLOCK, Clock, Deadline, deadline_scope
from kiln.compute_drivers import finding, validation
from kiln.compute_drivers.arguments import AMPHORA_ID, checked
from kiln.compute_drivers.authoring.error_mapping import own_error, unsupported
from kiln.compute_drivers.calls import Call
from kiln.compute_drivers.hooks import ComputeHooks
from kiln.exceptions import (
    AmphoraComputeError,
    InstanceNotFoundError,
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

#: Increased when a driver written for the old contract could no longer work.
CONTRACT_VERSION = 1


class AmphoraComputeDriver(ComputeHooks):
    """Builds, finds, watches and deletes amphorae on one backend.

    A vendor writes ``_build``, ``_delete``, ``_get``, ``_list`` and ``limits``. The other
    hooks have defaults based on these, or are abilities that a driver gains by overriding
    them. Methods and hooks keep the signatures of this class; further arguments have
    defaults.
    """

    #: The contract that the driver was written for; no other contract is accepted.
    contract_version: ClassVar[int] = CONTRACT_VERSION
    #: Seconds after acceptance in which a build cannot finish, and so is not polled.
    soonest_build_s: ClassVar[float] = 0.0
    #: oslo.config options of the driver, read from the group of its backend. The value of a secret
    #: one is never logged, and shown neither in ``raw`` nor in an error or its causes.
    options: ClassVar[Sequence[Any]] = ()
    #: Abilities of the class that this instance lacks: an old API, a missing permission.
    missing_abilities: frozenset[Ability] = frozenset()
    #: Set by :meth:`open`; a driver that is constructed directly can keep these defaults.
    name: str = 'compute'
    owner: str = 'kiln'
    clock: Clock = SYSTEM_CLOCK
    opened_with: Any = None  # The options; the kit searches for the secret ones.

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
        """Return the driver of one configured backend, without using the network.

        ``conf`` has an attribute for each of the class's ``options``.
        """
        driver = cls(conf)  # type: ignore[call-arg]  # the vendor's __init__
        driver.name, driver.owner, driver.clock, driver.opened_with = name, owner, clock, conf
        return driver

    # ---- what a backend is and can do -----------------------------------

    @property
    @abc.abstractmethod
    def limits(self) -> Limits:
        """Limits of builds on the backend; usually a class attribute."""

    @property
    def abilities(self) -> frozenset[Ability]:
        """Abilities of this driver beside build, delete, find and list."""
        return self._declared - self.missing_abilities

    def capabilities(self) -> Capabilities:
        """Return abilities and limits as data; never calls the backend."""
        return Capabilities(driver=self.name, abilities=self.abilities, limits=self.limits)

    def check(self) -> DriverHealth:
        """Check the health of the backend, cheaply and without changing anything.

        Always a new check; the result of an earlier one is never returned.

        :raises ComputeServiceError: it cannot be used now.
        """
        health: DriverHealth = self.perform(Call.CHECK)
        return health

    def close(self) -> None:
        """Release connections, open files and threads; safe to repeat.

        A driver can have threads and files of its own from its first call on, and has none
        left soon after this.
        """

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
        """Request a new amphora; return its id once the backend has accepted.

        Safe to repeat with the same ``build_key``: the id of the first amphora is
        returned, and nothing is built. Does not wait until the amphora is active. A
        repeat must request the same type, flavor, image and name. They are compared as the
        requests wrote them: a repeat returns the first amphora even if the name of its image
        stands for another image by now, or for none. Keys belong to an owner:
        an amphora that another owner built with the key is neither returned nor changed.
        An amphora that has run disappears only by a delete: no build that is repeated,
        fails, is late or is cancelled removes it. A build that fails leaves no amphora,
        unless its error names the amphora.

        :raises InvalidBuildRequest: wrong arguments; nothing was sent.
        :raises QuotaExceeded: the quota of the project is exhausted; nothing was built.
        :raises InsufficientCapacity: the place has no room; nothing was built.
        :raises BuildConflict: a port, an address or a name is taken; nothing was built.
        :raises BuildDiffers: the key was used for another request; nothing was done.
        :raises BuildOutcomeUnknown: no answer; it might exist, see ``build_key``.
        :raises ServiceUnavailable: the request never arrived.
        """
        # Passed on by name: the request checks the type of each argument.
        request = validation.build_request(self.limits, locals(), owner=self.owner)
        with self._within(timeout):
            amphora_id: str = self.perform(Call.BUILD, request)
        return amphora_id

    def delete(self, amphora_id: str, *, timeout: float | None = None) -> None:
        """Request the removal of an amphora; return once the backend has accepted.

        Safe to repeat: an amphora that is already gone is a success.
        Does not wait: poll ``status`` until it raises InstanceNotFoundError.
        Accepted in every state, also while the amphora is built, rebooted or suspended.
        Once gone, an amphora is found neither by its id nor by its name or key, and stays
        gone.

        :raises DeleteFailed: refused; the amphora still exists.
        :raises ServiceTimeout: no answer; it might or might not be deleted.
        """
        with self._within(timeout):
            self._perform_checked(Call.DELETE, amphora_id)

    def status(self, amphora_id: str) -> ComputeStatus:
        """Return the current status of an amphora.

        ``.raw`` is the backend's original answer. DELETED is returned only if the backend
        itself reports it.

        :raises InstanceNotFoundError: the backend has no amphora with that id.
        """
        # Controllers that poll by themselves make this call most often: without the table.
        status: ComputeStatus = self.perform(Call.STATUS, AMPHORA_ID(amphora_id))
        return status

    def get_amphora(
        self, amphora_name: str | None = None, amphora_id: str | None = None
    ) -> Amphora:
        """Find an amphora by name or by id; if both are given, both must match.

        :raises InstanceNotFoundError: not found.
        :raises AmbiguousInstanceError: several have the name; none is chosen.
        """
        call, subject = self.look_up(amphora_name, amphora_id)
        return self.choose(self.perform(call, subject), amphora_name)

    # ---- many at once ---------------------------------------------------

    def find_build(self, build_key: str) -> Amphora | None:
        """Return the amphora built with that key; None only if it certainly does not exist."""
        found: Amphora | None = self._perform_checked(Call.FIND_BUILD, build_key)
        return found

    def list_amphorae(self, *, owner: str | None = None) -> Iterator[Amphora]:
        """Return every amphora of an owner, by default of this site."""
        owner = self.owner if owner is None else owner
        return iter(self._perform_checked(Call.LIST, owner))

    def statuses(self, amphora_ids: Iterable[str]) -> Mapping[str, ComputeStatus]:
        """Return the status of each amphora that exists, with few requests.

        An id missing from the result does not exist: the backend reported so.
        """
        ids = validation.check_ids(amphora_ids)
        if not ids:
            return {}
        found: Mapping[str, ComputeStatus] = self.perform(Call.STATUSES, ids)
        return found

    def changes(self, since: str = '') -> Changes:
        """Return what changed among this site's amphorae since a cursor.

        The empty cursor, an expired cursor, and a cursor that the driver did not make
        return everything (``complete``). A change can be returned twice, or in a later
        answer, but a caller that continues from cursor to cursor never misses a change.
        """
        changes: Changes = self._perform_checked(Call.CHANGES, since)
        return changes

    def reached(self, state: State, since: str) -> Collection[str] | None:
        """Return the ids of changed amphorae in a state, among the changes since a cursor.

        For callers that wait for nothing else, if this costs the backend far less than
        :meth:`changes`; None if it does not, or is not available now. Supports ACTIVE and
        ERROR, and reports nothing about tasks in progress.
        """
        ids: Collection[str] | None = self._perform_checked(Call.REACHED, state, since)
        return ids

    def cursor(self) -> str:
        """Return a cursor for all changes from now on; calls no backend.

        Empty, as here, if only :meth:`changes` can return a cursor. A driver whose cursors
        are timestamps can return one at once, so that watching a few of many amphorae does
        not require polling all of them first.
        """
        return ''

    def on_news(self, hurry: Callable[[], None]) -> None:
        """Call ``hurry`` whenever there might be a change to poll.

        A driver that receives notifications from its backend calls it, from any thread; a
        driver that has to poll never does. ``changes`` can then be called several times a
        second.
        """

    # ---- execution state ------------------------------------------------

    def suspend(self, amphora_id: str) -> None:
        """Request that an active amphora be suspended; a suspended amphora stays so.

        :raises InstanceStateConflict: its state does not allow suspending.
        """
        self._perform_checked(Call.SUSPEND, amphora_id)

    def resume(self, amphora_id: str) -> None:
        """Request that a suspended amphora be resumed.

        :raises NotSuspendedError: it was not suspended.
        """
        self._perform_checked(Call.RESUME, amphora_id)

    def reboot(self, amphora_id: str, *, hard: bool = False) -> None:
        """Request a reboot of an amphora; ``hard`` resets it as by its power switch.

        :raises InstanceStateConflict: its state does not allow a reboot.
        """
        self._perform_checked(Call.REBOOT, amphora_id, bool(hard))

    def rebuild(self, amphora_id: str, *, image_id: str | None = None) -> None:
        """Request that an amphora be rebuilt under its id, from its image or another.

        :raises InvalidRequest: the image does not exist.
        :raises InstanceStateConflict: its state does not allow a rebuild.
        """
        self._perform_checked(Call.REBUILD, amphora_id, image_id)

    # ---- ports, networks, groups ----------------------------------------

    def attach_port(self, amphora_id: str, port_id: str) -> Attachment:
        """Attach a port; succeed if it is already attached, in whatever state.

        The port outlives the amphora, with its addresses, as it belongs to its caller.

        :raises ResourceNotFoundError: the port does not exist.
        :raises InstanceStateConflict: the port is in use elsewhere, or the amphora's state
            does not allow attaching.
        """
        attachment: Attachment = self._perform_checked(Call.ATTACH_PORT, amphora_id, port_id)
        return attachment

    def detach_port(self, amphora_id: str, port_id: str) -> None:
        """Detach a port; succeed if it is not attached, in whatever state.

        A port of another amphora stays attached there.
        """
        self._perform_checked(Call.DETACH_PORT, amphora_id, port_id)

    def attach_network(
        self, amphora_id: str, network_id: str, *, address: str | None = None
    ) -> Attachment:
        """Attach a new port of a network, with a fixed address if one is given.

        Each call attaches another port, unless the backend has one port for each network of
        an amphora: it then returns the port that is attached.

        :raises InvalidRequest: what was given is not an IP address, or not one of the network.
        :raises ResourceNotFoundError: the network does not exist.
        :raises InstanceStateConflict: the address is taken, or the amphora's state does not
            allow attaching.
        """
        attachment: Attachment = self._perform_checked(
            Call.ATTACH_NETWORK, amphora_id, network_id, address
        )
        return attachment

    def detach_network(self, amphora_id: str, network_id: str) -> None:
        """Detach all ports of a network; succeed if none is attached, in whatever state."""
        self._perform_checked(Call.DETACH_NETWORK, amphora_id, network_id)

    def create_server_group(self, name: str, policy: str) -> ServerGroup:
        """Create a group: affinity, anti-affinity, or the soft form of either.

        Members of an affinity group share a host, and those of an anti-affinity group have
        distinct hosts. If no host is left that the policy allows, the build is refused with
        InsufficientCapacity, or ends in error with its code. A soft policy refuses no build.

        :raises InvalidRequest: the policy does not exist.
        """
        group: ServerGroup = self._perform_checked(Call.CREATE_SERVER_GROUP, name, policy)
        return group

    def delete_server_group(self, server_group_id: str) -> None:
        """Delete a group but not its members; a group already gone is a success.

        Other groups and their members stay as they are.
        """
        self._perform_checked(Call.DELETE_SERVER_GROUP, server_group_id)

    # ---- validation, resources, console ---------------------------------

    def validate_flavor(self, flavor: str) -> None:
        """Return if builds can use the flavor, or raise InvalidRequest."""
        self._perform_checked(Call.VALIDATE_FLAVOR, flavor)

    def validate_image(self, image_id: str) -> None:
        """Return if builds can use the image, or raise InvalidRequest."""
        self._perform_checked(Call.VALIDATE_IMAGE, image_id)

    def validate_zone(self, availability_zone: str) -> None:
        """Return if builds can use the availability zone, or raise InvalidRequest."""
        self._perform_checked(Call.VALIDATE_ZONE, availability_zone)

    def validate_network(self, network_id: str) -> None:
        """Return if builds can use the network, given as for a build, or raise InvalidRequest."""
        self._perform_checked(Call.VALIDATE_NETWORK, network_id)

    def validate_security_group(self, security_group: str) -> None:
        """Return if builds can use the security group, or raise InvalidRequest."""
        self._perform_checked(Call.VALIDATE_SECURITY_GROUP, security_group)

    def check_ports(
        self, sec_groups: Iterable[str], ports: Iterable[str], peers: Iterable[str] | None = None
    ) -> None:
        """Return if security groups open ports such as ``2377/tcp`` to other machines.

        The others have the groups ``peers``, by default the same ones. No groups stand for those
        of a build that names none. What the backend cannot decide counts as open.

        :raises InvalidRequest: a group does not exist, or ports are closed, which are named.
        """
        self._perform_checked(Call.CHECK_PORTS, sec_groups, ports, peers)

    def describe_image(self, image_id: str) -> ImageFacts:
        """Return the facts of an image that is given by its id or its name.

        :raises InvalidRequest: builds cannot use it.
        """
        described: ImageFacts = self._perform_checked(Call.DESCRIBE_IMAGE, image_id)
        return described

    def list_zones(self) -> tuple[str, ...]:
        """Return the sorted names of the zones that accept builds now.

        Empty only if builds accept any name of a zone, or none.
        """
        return tuple(sorted(self.perform(Call.LIST_ZONES)))

    def list_resources(self, owner: str | None = None) -> Iterator[Resource]:
        """Return this site's resources other than amphorae: ports, volumes, groups.

        Resources that an amphora uses can be left out.
        """
        owner = self.owner if owner is None else owner
        return iter(self._perform_checked(Call.LIST_RESOURCES, owner))

    def delete_resource(self, resource: Resource) -> None:
        """Delete a resource of this site; a resource already gone is a success.

        Deletes nothing else, neither other resources nor an amphora.

        :raises InvalidRequest: it belongs to another site, or its kind does not exist.
        :raises InstanceStateConflict: an amphora uses it; nothing was deleted.
        """
        self._perform_checked(Call.DELETE_RESOURCE, resource)

    def console_log(self, amphora_id: str, *, lines: int | None = None) -> str:
        """Return the last lines of an amphora's console log, or the whole log, as of now."""
        return str(self._perform_checked(Call.CONSOLE_LOG, amphora_id, lines))

    # ---- machines that belong to nobody -----------------------------------

    def claim(self, amphora_id: str, build_key: str) -> None:
        """Make a machine of the backend that belongs to nobody an amphora of this site.

        It is then listed, and found by the key, as if it had been built with it. The machine
        itself stays as it is: it is neither restarted nor renamed, and keeps its ports. Safe
        to repeat, also after a claim that was interrupted. A claim that is refused changes
        nothing. ``changes`` can leave it out, as the machine does not change.

        :raises InvalidRequest: it has another owner, or is this site's with another key.
        :raises BuildConflict: another amphora of this site has the key.
        :raises InstanceStateConflict: its state does not allow a claim.
        """
        self._perform_checked(Call.CLAIM, amphora_id, build_key)

    # ---- the only way to the hooks --------------------------------------

    def perform(self, call: Call, *args: Any) -> Any:
        """Call one hook with checked arguments; every error is raised as a kiln error.

        Wrappers override this and nothing else. Callers use the methods above.
        """
        if refusal := self.refusal(call):
            raise refusal
        try:
            result = getattr(self, call.hook)(*args)
            if isinstance(result, Iterator):
                # A lazy result would fail later, outside of every guard.
                result = tuple(result)
            return result
        # A vendor's code: an error that is not a kiln error becomes one.
        except Exception as exc:
            if call is Call.DELETE and isinstance(exc, InstanceNotFoundError):
                return None
            error = own_error(exc, call, args, backend=self.name, abilities=self.abilities)
            if error is exc:
                raise
            raise error from error.__cause__

    def _perform_checked(self, call: Call, *args: Any) -> Any:
        return self.perform(call, *checked(call, self.owner, args))

    def refusal(self, call: Call) -> AmphoraComputeError | None:
        """Return the error that would refuse such a call now, without making the call."""
        lacks = call.ability is not None and call.ability not in self.abilities
        return self._unsupported(call) if lacks else None

    def _unsupported(self, call: Call) -> UnsupportedOperation:
        return unsupported(call, self.name, self.abilities)

    def _within(self, timeout: float | None) -> Any:
        seconds = validation.check_timeout(timeout)
        return deadline_scope(None if seconds is None else Deadline.after(seconds, self.clock))

    # ---- the two halves of get_amphora, for callers of other calls --------

    def look_up(self, amphora_name: str | None, amphora_id: str | None) -> tuple[Call, str]:
        """Return the call, and its argument, that finds an amphora by name or id."""
        return finding.look_up(amphora_name, amphora_id)

    def choose(self, found: Amphora | Sequence[Amphora], amphora_name: str | None) -> Amphora:
        """Return the one amphora that matches the result of a look-up, or raise."""
        return finding.choose(found, amphora_name, backend=self.name)
