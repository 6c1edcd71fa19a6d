"""Idempotent create and delete of Nova servers: no duplicates, no orphans."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Collection, Sequence
from typing import Any

from kiln.clock import Clock
from kiln.compute_drivers.authoring.adoption import adopted
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.authoring.openstack_networks import NO_NETWORK, split
from kiln.compute_drivers.nova import translate
from kiln.compute_drivers.nova.api.client import Services
from kiln.compute_drivers.nova.building import body
from kiln.compute_drivers.nova.building.choice import choose
from kiln.compute_drivers.nova.building.deleted_servers import Departures
from kiln.compute_drivers.nova.building.port_cleanup import PortReaper
from kiln.compute_drivers.nova.building.port_locks import KeyedLock, PortLocks
from kiln.compute_drivers.nova.building.unverified import Unproven
from kiln.compute_drivers.nova.catalogue import Catalogue
from kiln.exceptions import (
    AmphoraComputeError,
    BuildConflict,
    InstanceNotFoundError,
    Outcome,
    ServiceUnavailable,
)
from kiln.models import BuildRequest, State

#: How many builds in doubt, and servers with a known port, are remembered.
_MEMORY = 20_000
# From this microversion on, a list has the servers of cells that are down.
_DOWN_CELLS = 69
#: Seconds without requests for the ports of servers after such a request has failed.
_PROVE_AGAIN_S = 0.5


class Memory(dict[str, Any]):
    """A bounded dict: the newest entries stay, and dropped ones are requested again."""

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        if len(self) > _MEMORY:
            # Another thread might have removed the same entry.
            self.pop(next(iter(self)), None)


class Builds:
    """Builds servers by their build keys."""

    def __init__(
        self,
        conf: Any,
        services: Services,
        catalogue: Catalogue,
        ports: PortLocks,
        clock: Clock,
    ) -> None:
        self._conf = conf
        self._services = services
        self._catalogue = catalogue
        self._ports = ports
        self._reaper = PortReaper(ports, clock)
        self.departures = Departures(clock)
        #: Turns of the threads that work on one build key.
        self.turns = KeyedLock()
        # Build keys whose last request might have made a server, and the server
        # that was chosen for the key since.
        self._doubted = Memory()
        # Servers chosen after a doubt, which might have lost their port to a twin.
        self._suspects = Memory()
        # When the ports of suspects can be requested again after a failure.
        self._prove_at = float('-inf')
        # Suspects whose ports could not be read so far.
        self.unproven = Unproven()
        # The lock ports of the servers made here, and the build keys of the
        # servers that were found.
        self._port_of = Memory()
        self._key_of = Memory()
        self._clock = clock
        #: When the create request of each server made here was sent.
        self.sent = Memory()

    # ---- building --------------------------------------------------------

    def build(self, request: BuildRequest) -> str:
        """Return the id of the server of a build key, created now or found."""
        asked = Asked(
            verb='build', subject=request.name, build_key=request.build_key, looking=True
        )
        if request.fresh and request.build_key not in self._doubted:
            return self._make(asked, request, self._chosen(asked, request), again=False)
        with self.turns.hold(request.build_key):
            # First of all: the name of its image can stand for another by now, or for none.
            found = self._kept(asked, self._twins(asked, request.owner), request)
            if found is not None:
                return str(found['id'])
            return self._make(asked, request, self._chosen(asked, request), again=True)

    def _chosen(self, asked: Asked, request: BuildRequest) -> body.Chosen:
        conf = self._conf
        content = functools.partial(body.content_of, how=conf.file_injection)
        return choose(
            asked, request, conf, self._catalogue,
            content=content, imageless=bool(conf.boot_volume_size),
        )  # fmt: skip

    def _make(
        self, asked: Asked, request: BuildRequest, chosen: body.Chosen, *, again: bool
    ) -> str:
        try:
            lock, networks = self._lock(asked, request, chosen, again=again)
        except AmphoraComputeError:
            # The port might exist: the next attempt looks for it.
            self._doubted.setdefault(request.build_key, None)
            raise
        try:
            server_id = self._create(asked, request, chosen, lock, networks)
        except BuildConflict as exc:
            found = self._holder(asked, request, [*request.port_ids, *lock]) if again else None
            if found is None:
                self._release(asked, lock, exc)
                raise
            server_id = found
        except AmphoraComputeError as exc:
            if exc.http_status == 400 and again and lock and self._ports.is_gone(asked, lock[0]):
                # The port belonged to the last server of this key, and went with that server.
                return self._make(asked, request, chosen, again=True)
            self._release(asked, lock, exc)
            if exc.http_status == 400:
                # A remembered id might have been deleted since.
                self._catalogue.forget()
            raise
        if lock:
            self._port_of[server_id] = lock[0]
        if again and (lock or request.port_ids):
            # An earlier request might still compete for the same ports.
            self._take(request.build_key, server_id)
        elif request.build_key in self._doubted:
            # The server of an earlier request might still appear, and is the older one.
            self._doubted[request.build_key] = server_id
        return server_id

    def _lock(
        self, asked: Asked, request: BuildRequest, chosen: body.Chosen, *, again: bool
    ) -> tuple[list[str], Sequence[str]]:
        """Return the lock port, if one is used, and the networks that Nova is to plug."""
        lockable = chosen.networks and chosen.networks != NO_NETWORK
        if not self._conf.port_lock or request.port_ids or not lockable:
            return [], chosen.networks
        network_id, address = split(chosen.networks[0])
        port_id = self._ports.take(
            asked,
            request.owner,
            network_id,
            address=address,
            security_group_ids=chosen.security_groups,
            again=again,
        )
        return [port_id], chosen.networks[1:]

    def _create(
        self,
        asked: Asked,
        request: BuildRequest,
        chosen: body.Chosen,
        lock: list[str],
        networks: Sequence[str],
    ) -> str:
        version = body.PERSONALITY if chosen.content.personality else self._services.version(asked)
        ports = [*request.port_ids, *lock]
        sent = body.create_body(
            asked, request, chosen, self._conf, ports=ports, networks=networks, version=version
        )
        before = request.build_key in self._doubted
        if not before:
            self._doubted[request.build_key] = None
        certain, sent_at = False, self._clock.monotonic()
        try:
            create = dataclasses.replace(asked, making=True, looking=False)
            answer = self._services.ask(create, 'POST', '/servers', body=sent, version=version)
            certain = True
        except AmphoraComputeError as exc:
            certain = exc.outcome is Outcome.NOT_APPLIED
            raise
        finally:
            # The answer to this request does not settle an earlier request.
            if certain and not before:
                self._doubted.pop(request.build_key, None)
        server_id = str(answer['server']['id'])
        self.sent[server_id] = sent_at
        return server_id

    def _release(self, asked: Asked, lock: list[str], exc: AmphoraComputeError) -> None:
        # While a create request might still arrive, its port must stay.
        if lock and exc.outcome is Outcome.NOT_APPLIED and asked.build_key not in self._doubted:
            self._ports.drop(asked, lock[0])

    def _holder(self, asked: Asked, request: BuildRequest, port_ids: Sequence[str]) -> str | None:
        """Return the server of this build that holds one of its ports."""
        for port_id in port_ids:
            holder = self._ports.holder(asked, port_id)
            if holder is None:
                continue
            answer = self._services.ask(asked, 'GET', f'/servers/{holder}')
            if translate.is_of(answer['server'], request.owner, request.build_key):
                return adopted(request, translate.as_built(answer['server']))
        return None

    # ---- finding ---------------------------------------------------------

    def find(self, asked: Asked, owner: str) -> dict[str, Any] | None:
        """Return the server of a build; None only if the build certainly has no server.

        Twins, made by requests that seemed lost, are deleted.
        """
        assert asked.build_key is not None
        with self.turns.hold(asked.build_key):
            twins = self._twins(asked, owner)
            kept = self._kept(asked, twins)
            if kept is None:
                self.check_cells(asked)
                if asked.build_key in self._doubted and self._conf.port_lock:
                    # A create request that still arrives cannot run without its port.
                    self._ports.drop_build(asked, owner)
                return None
            return self.accepted(asked, kept)

    def _twins(self, asked: Asked, owner: str) -> list[dict[str, Any]]:
        query = {'tags': f'{translate.OWNER_TAG}{owner},{translate.KEY_TAG}{asked.build_key}'}
        answer = self._services.ask(asked, 'GET', '/servers/detail', query=query)
        # A twin is deleted, so a server of another case must not count as one.
        return [one for one in answer['servers'] if translate.is_of(one, owner, asked.build_key)]

    def _kept(
        self, asked: Asked, twins: list[dict[str, Any]], request: BuildRequest | None = None
    ) -> dict[str, Any] | None:
        """Choose the server of the build; delete its twins, if all come from builds.

        :raises BuildDiffers: the server was built with other arguments; nothing was deleted.
        """
        if not twins:
            return None
        assert asked.build_key is not None
        taken = self._doubted.get(asked.build_key)

        def worse(server: dict[str, Any]) -> tuple[Any, ...]:
            failed = translate.state_of(server) in (State.ERROR, State.DELETING)
            return server['id'] != taken, failed, server['created'], server['id']

        kept, *others = sorted(twins, key=worse)
        if not all(map(translate.is_built, twins)):
            # A claim and a build have raced. A server that was made by hand is not the twin of a
            # late request, and nobody knows which of the two is in use.
            others = []
        if request is not None:
            adopted(request, translate.as_built(kept))
        self._key_of[kept['id']] = asked.build_key
        if asked.build_key in self._doubted or others:
            self._take(asked.build_key, kept['id'])
        for other in others:
            if translate.state_of(other) is not State.DELETING:
                self._services.ask(asked, 'DELETE', f'/servers/{other["id"]}')
        return kept

    def _take(self, build_key: str, server_id: str) -> None:
        self._doubted[build_key] = server_id
        self._suspects[server_id] = build_key

    def check_cells(self, asked: Asked) -> None:
        """Raise if a cell is down: its servers cannot be found by their tags."""
        if not body.at_least(self._services.version(asked), _DOWN_CELLS):
            return
        # Only a list without filters has the servers of a cell that is down.
        for server in self._services.ask(asked, 'GET', '/servers')['servers']:
            if server.get('status') == 'UNKNOWN':
                raise asked.error(
                    ServiceUnavailable,
                    f'a cell of Nova is down, and the build might be in it (as server '
                    f'{server["id"]} is).',
                )

    def accepted(self, asked: Asked, server: dict[str, Any]) -> dict[str, Any]:
        """Return a server with the state that kiln takes it to have.

        A server whose delete was accepted is deleting, even if its build continues.
        A server that lost its port is in error: when two requests compete for a
        port, the clean-up of the loser takes the port from the winner, which Nova
        still reports as ACTIVE.
        """
        server_id = server['id']
        if server_id in self.departures and translate.state_of(server) is State.ACTIVE:
            return server | {'OS-EXT-STS:task_state': 'deleting'}
        if server_id not in self._suspects or translate.state_of(server) is not State.ACTIVE:
            self.unproven.judged(server_id)
            return server
        proven = self._has_port(asked, server_id)
        if proven is None:
            self.unproven.add(server_id)
            return server | {'OS-EXT-STS:task_state': 'spawning'}
        self.unproven.judged(server_id)
        if proven:
            self._suspects.pop(server_id, None)
            return server
        return server | {
            'status': 'ERROR',
            'OS-EXT-STS:vm_state': 'error',
            'fault': {'message': 'It runs, but lost its port to another request for it.'},
        }

    def doubtful(self, server_ids: Collection[str]) -> bool:
        """Return True if Nova's state might be wrong for one of these servers."""
        return any(one in self._suspects or one in self.unproven for one in server_ids)

    def unheard(self, heard: Collection[str]) -> list[str]:
        """Return the servers to request by id: answers about changes should have had them."""
        found = self.departures.unheard(heard)
        if self._clock.monotonic() >= self._prove_at:
            found += [one for one in self.unproven.ids() if one not in heard and one not in found]
        return found

    def gone(self, server_id: str) -> None:
        """Record that a server no longer exists."""
        self.unproven.forget(server_id)
        self.departures.ended(server_id)

    def _has_port(self, asked: Asked, server_id: str) -> bool | None:
        """Return True if a server has a port; None if that cannot be read now.

        This can run within an answer about hundreds of servers. One failed request
        must not discard the whole answer, and many must not use up its time: the
        other servers of a storm would then wait forever.
        """
        if self._clock.monotonic() < self._prove_at:
            return None
        try:
            answer = self._services.ask(asked, 'GET', f'/servers/{server_id}/os-interface')
        except AmphoraComputeError as exc:
            if not exc.retryable:
                raise
            self._prove_at = self._clock.monotonic() + _PROVE_AGAIN_S
            return None
        return bool(answer['interfaceAttachments'])

    # ---- deleting --------------------------------------------------------

    def delete(self, asked: Asked, owner: str) -> None:
        """Delete a server and the port that was made for it."""
        assert asked.amphora_id is not None
        # After the delete, the ports no longer name their server.
        ports = self._ports_of(asked, owner, asked.amphora_id) if self._conf.port_lock else []
        try:
            self._services.ask(asked, 'DELETE', f'/servers/{asked.amphora_id}')
        except InstanceNotFoundError:
            self.gone(asked.amphora_id)
            self._reap(ports)
            raise
        except AmphoraComputeError:
            if ports:
                self._port_of[asked.amphora_id] = ports[0]
            raise
        self.departures.began(asked.amphora_id)
        self._reap(ports)

    def _ports_of(self, asked: Asked, owner: str, server_id: str) -> list[str]:
        """Return the ports that were made for a server."""
        if known := self._port_of.pop(server_id, None):
            return [known]
        if (build_key := self._key_of.get(server_id)) is None:
            if found := self._ports.of_server(asked, owner, server_id):
                return found
            # The server never had a host, or its build failed on one: Nova has released
            # its port, which now names only its build.
            with contextlib.suppress(InstanceNotFoundError):
                looked = dataclasses.replace(asked, looking=True)
                answer = self._services.ask(looked, 'GET', f'/servers/{server_id}')
                build_key = translate.key_of(answer['server'])
        return self._ports.of_build(asked, owner, build_key, server_id) if build_key else []

    def _reap(self, ports: list[str]) -> None:
        for port_id in ports:
            self._reaper.add(port_id)

    def close(self) -> None:
        """Stop the background thread."""
        self._reaper.close()
