"""The vendor's half of the compute contract: the hooks, with their defaults.

A hook receives arguments that were already checked, speaks the backend's
language, and raises kiln's errors. It returns when the backend has accepted,
never waits for the effect, and may be called from many threads at once.
"""

from __future__ import annotations

import abc
from collections.abc import Collection, Iterable, Mapping, Sequence

from kiln.clock import SYSTEM_CLOCK, Clock
from kiln.compute_drivers.calls import Call
from kiln.exceptions import InstanceNotFoundError, UnsupportedOperation
from kiln.models import (
    Amphora,
    Attachment,
    BuildRequest,
    Changes,
    ComputeStatus,
    DriverHealth,
    ImageFacts,
    ImageFile,
    Resource,
    ServerGroup,
    State,
)

_NOBODY = '00000000-0000-0000-0000-000000000000'


class ComputeHooks(abc.ABC):
    """Four hooks to write, seven to make faster, sixteen abilities to have or not."""

    owner: str
    clock: Clock = SYSTEM_CLOCK

    # ---- a driver must have these ---------------------------------------

    @abc.abstractmethod
    def _build(self, request: BuildRequest) -> str:
        """Have an amphora built; return its id.

        Store ``request.build_key`` and ``request.owner`` on the instance
        itself, in the same step that makes it. If an instance with that key
        exists, return ``adopted(request, found)`` of ``kiln.compute_drivers.adoption``:
        its id, or :class:`~kiln.exceptions.BuildDiffers` where it is not what is asked
        for. An answer that was lost is :class:`~kiln.exceptions.BuildOutcomeUnknown`,
        never a guess.
        """

    @abc.abstractmethod
    def _delete(self, amphora_id: str) -> None:
        """Have an amphora removed; InstanceNotFoundError counts as success."""

    @abc.abstractmethod
    def _get(self, amphora_id: str) -> Amphora:
        """Return one amphora, or raise InstanceNotFoundError if there is none."""

    @abc.abstractmethod
    def _list(self, owner: str) -> Iterable[Amphora]:
        """Return every amphora that carries this owner, whatever its state."""

    # ---- right as they are, to be overridden where a backend is faster ---

    def _find(self, name: str) -> Sequence[Amphora]:
        """Return this site's amphorae of that name: none, one or several."""
        return [amphora for amphora in self._list(self.owner) if amphora.name == name]

    def _find_build(self, build_key: str) -> Amphora | None:
        """Return the amphora built with the key; None only if there is none.

        ``served`` of what is returned decides whether a failed build removes it: say
        whether the machine has ever run, or leave it None.
        Where a request thought to be lost may come late, several may have the
        key: keep what was found before, or the first, and delete the others.
        """
        for amphora in self._list(self.owner):
            if amphora.build_key == build_key:
                return amphora
        return None

    def _status(self, amphora_id: str) -> ComputeStatus:
        """Return the status of one amphora."""
        return self._get(amphora_id).status(self.clock.time())

    def _statuses(self, amphora_ids: tuple[str, ...]) -> Mapping[str, ComputeStatus]:
        """Return the status of each amphora that exists."""
        now = self.clock.time()
        wanted = frozenset(amphora_ids)
        found = {
            amphora.id: amphora.status(now)
            for amphora in self._list(self.owner)
            if amphora.id in wanted
        }
        # A list may leave out what a broken part of the backend holds, or what
        # another site owns, so absence is asked for by id.
        return found | self._statuses_by_id(one for one in amphora_ids if one not in found)

    def _statuses_by_id(self, amphora_ids: Iterable[str]) -> dict[str, ComputeStatus]:
        found = {}
        for amphora_id in amphora_ids:
            try:
                found[amphora_id] = self._status(amphora_id)
            except InstanceNotFoundError:
                continue
        return found

    def _changes(self, since: str) -> Changes:
        """Return what changed since the cursor; here always everything."""
        now = self.clock.time()
        statuses = tuple(amphora.status(now) for amphora in self._list(self.owner))
        return Changes(statuses=statuses, complete=True)

    def _reached(self, state: State, since: str) -> Collection[str] | None:
        """Return who is in a state, of what changed since; here no cheaper than changes."""
        return None

    def _check(self) -> DriverHealth:
        """Look whether the backend answers, by asking for what cannot be."""
        started = self.clock.monotonic()
        try:
            self._get(_NOBODY)
        except InstanceNotFoundError:
            pass
        return DriverHealth(healthy=True, latency_s=self.clock.monotonic() - started)

    # ---- abilities: overriding a hook declares it ------------------------

    def _suspend(self, amphora_id: str) -> None:
        """Suspend an active amphora; one that is suspended is left so."""
        raise NotImplementedError

    def _resume(self, amphora_id: str) -> None:
        """Let a suspended amphora go on, or raise NotSuspendedError."""
        raise NotImplementedError

    def _reboot(self, amphora_id: str, hard: bool) -> None:
        """Reboot an amphora, softly or by its power switch."""
        raise NotImplementedError

    def _rebuild(self, amphora_id: str, image_id: str | None) -> None:
        """Make an amphora anew under its id; None keeps its image."""
        raise NotImplementedError

    def _attach_port(self, amphora_id: str, port_id: str) -> Attachment:
        """Attach a port; one that hangs there already is a success."""
        raise NotImplementedError

    def _detach_port(self, amphora_id: str, port_id: str) -> None:
        """Detach a port; one that does not hang there is a success."""
        raise NotImplementedError

    def _attach_network(self, amphora_id: str, network_id: str, address: str | None) -> Attachment:
        """Attach a new port of a network."""
        raise NotImplementedError

    def _detach_network(self, amphora_id: str, network_id: str) -> None:
        """Detach all ports of a network; where none hangs it is a success."""
        raise NotImplementedError

    def _create_server_group(self, name: str, policy: str) -> ServerGroup:
        """Create a group of instances with a placement policy."""
        raise NotImplementedError

    def _delete_server_group(self, server_group_id: str) -> None:
        """Delete a group; one already gone is a success."""
        raise NotImplementedError

    def _validate_flavor(self, flavor: str) -> None:
        """Raise InvalidRequest unless builds may use the flavor."""
        raise NotImplementedError

    def _validate_image(self, image_id: str) -> None:
        """Raise InvalidRequest unless builds may use the image."""
        raise NotImplementedError

    def _validate_zone(self, availability_zone: str) -> None:
        """Raise InvalidRequest unless builds may use the zone."""
        raise NotImplementedError

    def _describe_image(self, image_id: str) -> ImageFacts:
        """Return what is said of an image; raise InvalidRequest if builds may not use it."""
        raise NotImplementedError

    def _list_zones(self) -> Sequence[str]:
        """Return the names of the zones in which builds may be made now."""
        raise NotImplementedError

    def _list_resources(self, owner: str) -> Iterable[Resource]:
        """Return what carries this owner beside amphorae."""
        raise NotImplementedError

    def _delete_resource(self, resource: Resource) -> None:
        """Delete a resource; one already gone is a success."""
        raise NotImplementedError

    def _console_log(self, amphora_id: str, lines: int | None) -> str:
        """Return the last lines of the console, or all of them."""
        raise NotImplementedError

    # ---- for people at a command line, not for controllers ----------------

    def import_image(self, image: ImageFile) -> str:
        """Make an image of a root file system, and return its id; takes as long as it takes.

        One of that name whose content is the same is left as it is.

        :raises InvalidRequest: it is no image that the backend can use.
        """
        raise UnsupportedOperation(
            f'Cannot import image {image.name}: its backend takes no root file systems.'
        )


#: The calls about one amphora: those whose hook takes its id before all else.
ON_AMPHORA = frozenset(
    call
    for call in Call
    if getattr(ComputeHooks, call.hook).__code__.co_varnames[1:2] == ('amphora_id',)
)
