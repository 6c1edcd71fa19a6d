"""Hooks of the compute contract: the part that a vendor writes, with defaults.

A hook receives checked arguments, calls the backend's API, and raises kiln's errors. It
returns when the backend has accepted, never waits for the effect, and can be called from
many threads at once. It ends by the deadline of its call
(:func:`kiln.clock.current_deadline`), even if the backend is silent, with an error that is
retryable. When a backend answers again after an outage, the driver works again by itself, and
finds all that was built before.

Several drivers, in any number of processes, work on one backend at the same time. What one
of them has built, every other describes, lists, finds, builds again to the same id, changes
and deletes: nothing that another driver needs is kept in memory alone. A call changes only
the amphora that it names; amphorae with the same name or key, of any owner, stay as they
are. An id is accepted whatever the owner of its amphora, and neither a name nor a key is
taken for an id. Owners, keys and names that differ only in capitals are different. An id is
compared as a whole and as it was returned: any other text, of whatever form, is the id of no
amphora.

An action on an amphora can be repeated while it is under way: the repeat is accepted, or
refused with InstanceStateConflict, and the amphora ends as if it had been requested once.

An error of the backend is raised as the kiln error that fits; an error of any other class
is a defect of the driver. The error of a build has its ``build_key``, that of a call about
an amphora its ``amphora_id``, and ``outcome`` states what is left in the backend. The error
of a call about a port, a network, a flavor, an image, a zone or a resource has the id or name
that was given as its ``resource_id``. InstanceStateConflict is retryable as long as the
amphora is busy, and not in a state in which it stays until somebody acts on it. If the state
of the amphora does not allow a port to be attached, the conflict does not name the port: a
caller can then know it from a port that is in use.

An error is a value: it names its subject, its facts are plain data that agree with each
other, and another process can read it. Every call about an amphora that does not exist
raises InstanceNotFoundError, which is never to be retried; only a delete succeeds.
"""

from __future__ import annotations

import abc
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import ClassVar

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
    """Four required hooks, seven with slow defaults, and optional abilities."""

    owner: str
    clock: Clock = SYSTEM_CLOCK
    #: Up to this many statuses are read one by one; for more, one list is cheaper.
    most_read_by_id: ClassVar[int] = 0

    # ---- required of every driver ----------------------------------------

    @abc.abstractmethod
    def _build(self, request: BuildRequest) -> str:
        """Request an amphora; return its id.

        Store ``request.build_key`` and ``request.owner`` on the amphora itself, in the
        same step that makes it. If an amphora with that key exists, return
        ``adopted(request, found)`` of ``kiln.compute_drivers.authoring.adoption``: its id, or
        :class:`~kiln.exceptions.BuildDiffers` if it does not match the request. If the
        answer was lost, raise :class:`~kiln.exceptions.BuildOutcomeUnknown`, and never
        guess.
        All of the request takes effect, or the build is refused: nothing is dropped. What
        the amphora reports of it is as in the request, in any script. It has the ports and
        networks that were requested, and no others unless none was requested. A build that is
        refused gives back the ports and other resources that it took.
        """

    @abc.abstractmethod
    def _delete(self, amphora_id: str) -> None:
        """Request the removal of an amphora; InstanceNotFoundError counts as success."""

    @abc.abstractmethod
    def _get(self, amphora_id: str) -> Amphora:
        """Return one amphora, or raise InstanceNotFoundError if it does not exist."""

    @abc.abstractmethod
    def _list(self, owner: str) -> Iterable[Amphora]:
        """Return every amphora that carries this owner, in any state, to the last page."""

    # ---- correct as they are; override them if the backend can be faster ---

    def _find(self, name: str) -> Sequence[Amphora]:
        """Return this site's amphorae of that name: none, one or several."""
        return [amphora for amphora in self._list(self.owner) if amphora.name == name]

    def _find_build(self, build_key: str) -> Amphora | None:
        """Return the amphora built with the key; None only if it does not exist.

        The ``served`` field of the result decides whether a failed build removes it: set
        whether the amphora has ever run, or leave it None.
        If a request that was considered lost can arrive late, several amphorae can have the
        key: keep the amphora that was returned before, or the first, and delete the others.
        """
        amphorae = self._list(self.owner)
        return next((amphora for amphora in amphorae if amphora.build_key == build_key), None)

    def _status(self, amphora_id: str) -> ComputeStatus:
        """Return the status of one amphora."""
        return self._get(amphora_id).status(self.clock.time())

    def _statuses(self, amphora_ids: tuple[str, ...]) -> Mapping[str, ComputeStatus]:
        """Return the status of each amphora that exists."""
        if len(amphora_ids) <= self.most_read_by_id:
            return self._statuses_by_id(amphora_ids)
        now = self.clock.time()
        wanted = frozenset(amphora_ids)
        found = {
            amphora.id: amphora.status(now)
            for amphora in self._list(self.owner)
            if amphora.id in wanted
        }
        # A list can leave out what a broken part of the backend holds, or what another
        # site owns, so absence is confirmed by id.
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
        """Return what changed since the cursor; this default returns everything."""
        now = self.clock.time()
        statuses = tuple(amphora.status(now) for amphora in self._list(self.owner))
        return Changes(statuses=statuses, complete=True)

    def _reached(self, state: State, since: str) -> Collection[str] | None:
        """Return the changed ids in a state; this default is not cheaper than changes."""
        return None

    def _check(self) -> DriverHealth:
        """Check that the backend answers, by reading an amphora that cannot exist."""
        started = self.clock.monotonic()
        try:
            self._get(_NOBODY)
        except InstanceNotFoundError:
            pass
        return DriverHealth(healthy=True, latency_s=self.clock.monotonic() - started)

    # ---- abilities: overriding a hook declares it ------------------------

    def _suspend(self, amphora_id: str) -> None:
        """Suspend an active amphora; a suspended amphora stays so."""
        raise NotImplementedError

    def _resume(self, amphora_id: str) -> None:
        """Resume a suspended amphora, or raise NotSuspendedError."""
        raise NotImplementedError

    def _reboot(self, amphora_id: str, hard: bool) -> None:
        """Reboot an amphora, softly or by its power switch."""
        raise NotImplementedError

    def _rebuild(self, amphora_id: str, image_id: str | None) -> None:
        """Rebuild an amphora under its id; None keeps its image."""
        raise NotImplementedError

    def _attach_port(self, amphora_id: str, port_id: str) -> Attachment:
        """Attach a port; succeed if it is already attached, in whatever state."""
        raise NotImplementedError

    def _detach_port(self, amphora_id: str, port_id: str) -> None:
        """Detach a port; succeed if it is not attached, in whatever state."""
        raise NotImplementedError

    def _attach_network(self, amphora_id: str, network_id: str, address: str | None) -> Attachment:
        """Attach a new port of a network; ``address`` is an IP address, or None."""
        raise NotImplementedError

    def _detach_network(self, amphora_id: str, network_id: str) -> None:
        """Detach all ports of a network; succeed if none is attached, in whatever state."""
        raise NotImplementedError

    def _create_server_group(self, name: str, policy: str) -> ServerGroup:
        """Create a group of amphorae with a placement policy."""
        raise NotImplementedError

    def _delete_server_group(self, server_group_id: str) -> None:
        """Delete a group; a group already gone is a success."""
        raise NotImplementedError

    def _validate_flavor(self, flavor: str) -> None:
        """Raise InvalidRequest unless builds can use the flavor."""
        raise NotImplementedError

    def _validate_image(self, image_id: str) -> None:
        """Raise InvalidRequest unless builds can use the image."""
        raise NotImplementedError

    def _validate_zone(self, availability_zone: str) -> None:
        """Raise InvalidRequest unless builds can use the zone."""
        raise NotImplementedError

    def _validate_network(self, network_id: str) -> None:
        """Raise InvalidRequest unless builds can use the network, or ``NETWORK=ADDRESS``."""
        raise NotImplementedError

    def _validate_security_group(self, security_group: str) -> None:
        """Raise InvalidRequest unless builds can use the security group."""
        raise NotImplementedError

    def _check_ports(
        self,
        sec_groups: tuple[str, ...],
        ports: tuple[str, ...],
        peers: tuple[str, ...] | None,
    ) -> None:
        """Raise InvalidRequest with the ports that the groups do not open to machines of peers.

        Peers that are None are the groups themselves; an empty tuple stands for the groups of
        a build that names none. What is open to some addresses counts as open.
        """
        raise NotImplementedError

    def _describe_image(self, image_id: str) -> ImageFacts:
        """Return the facts of an image; raise InvalidRequest if builds cannot use it."""
        raise NotImplementedError

    def _list_zones(self) -> Sequence[str]:
        """Return the names of the zones that accept builds now."""
        raise NotImplementedError

    def _list_resources(self, owner: str) -> Iterable[Resource]:
        """Return the resources, other than amphorae, that carry this owner."""
        raise NotImplementedError

    def _delete_resource(self, resource: Resource) -> None:
        """Delete a resource; a resource already gone is a success."""
        raise NotImplementedError

    def _console_log(self, amphora_id: str, lines: int | None) -> str:
        """Return the last lines of the console, or all of them."""
        raise NotImplementedError

    def _claim(self, amphora_id: str, build_key: str) -> None:
        """Give an amphora that belongs to nobody this site's owner and a build key.

        Write the key before the owner, or both at once: an amphora that carries the owner has
        its key as well, wherever a claim was interrupted. What others have written on the
        amphora stays. If it is claimed already,
        :func:`kiln.compute_drivers.authoring.claiming.is_claimed` says so, or raises what fits.
        """
        raise NotImplementedError

    # ---- for the command line, not for controllers -------------------------

    def import_image(self, image: ImageFile) -> str:
        """Create an image from a root file system and return its id; has no time limit.

        An image with the same name and content is left as it is.

        :raises InvalidRequest: the backend cannot use the image.
        """
        raise UnsupportedOperation(
            f'Cannot import image {image.name}: its backend takes no root file systems.'
        )


#: Calls about one amphora: those whose hook takes its id as the first argument.
ON_AMPHORA = frozenset(
    call
    for call in Call
    if getattr(ComputeHooks, call.hook).__code__.co_varnames[1:2] == ('amphora_id',)
)
