"""Client of a Docker Engine: the dozen requests that the driver needs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import TracebackType
from typing import Any
from urllib.parse import quote, urlencode

from .line import Line
from .values import EngineInfo, Peer, Role, Swarm, Task

#: The response to a join or init comes when it is done; an engine gives up after 20 s.
_JOIN_S = 15.0
_SWARM_PORT = 2377


class Engine:
    """One engine. Used by one thread, and closed by the code that opened it.

    :raises Silent: each call: no response; a change might have been made.
    :raises Refused: each call: the engine refused, with a reason.
    """

    def __init__(self, line: Line, address: str) -> None:
        self._line = line
        #: The address at which other engines reach it.
        self.address = address

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._line.close()

    # ---- any engine --------------------------------------------------------------

    def info(self) -> EngineInfo:
        """Return the state that the engine reports."""
        return EngineInfo.read(self._line.ask('GET', '/info'))

    def found(self, *, force_new: bool = False) -> None:
        """Make the engine initialize a swarm.

        :param force_new: Continue the current swarm, with the engine as its only manager.
        """
        body = {**_bind(self.address), 'ForceNewCluster': force_new}
        self._line.ask('POST', '/swarm/init', body, timeout_s=_JOIN_S)

    def join(self, manager: Engine, token: str) -> None:
        """Make the engine join the swarm of a manager."""
        remote = f'{_bracketed(manager.address)}:{_SWARM_PORT}'
        body = {**_bind(self.address), 'RemoteAddrs': [remote], 'JoinToken': token}
        self._line.ask('POST', '/swarm/join', body, timeout_s=_JOIN_S)

    def leave(self, *, force: bool = False) -> None:
        """Make the engine leave its swarm; force it where a clean leave is impossible."""
        path = f'/swarm/leave?force={str(force).lower()}'
        self._line.ask('POST', path, timeout_s=_JOIN_S)

    # ---- managers only -----------------------------------------------------------

    def swarm(self) -> Swarm:
        """Return the swarm; refused without a quorum."""
        return Swarm.read(self._line.ask('GET', '/swarm'))

    def rotate_token(self, swarm: Swarm, role: Role) -> None:
        """Rotate the join token of a role, which invalidates the old one.

        Refused if the swarm has changed since it was read.
        """
        query = {'version': swarm.index, f'rotate{role.name.title()}Token': 'true'}
        self._line.ask('POST', f'/swarm/update?{urlencode(query)}', swarm.spec)

    def rotate_authority(self, swarm: Swarm) -> None:
        """Start to renew the certificates of the swarm and of each node in it."""
        authority = dict(swarm.spec.get('CAConfig') or {})
        authority['ForceRotate'] = authority.get('ForceRotate', 0) + 1
        spec = {**swarm.spec, 'CAConfig': authority}
        self._line.ask('POST', f'/swarm/update?version={swarm.index}', spec)

    def peers(self) -> tuple[Peer, ...]:
        """Return all nodes of the swarm; refused without a quorum."""
        return tuple(map(Peer.read, self._line.ask('GET', '/nodes')))

    def change(self, peer: Peer, spec: Mapping[str, Any]) -> None:
        """Set role, availability and labels; refused if the node has changed since it was read."""
        path = f'/nodes/{quote(peer.id)}/update?version={peer.index}'
        self._line.ask('POST', path, spec)

    def remove(self, peer: Peer) -> None:
        """Remove a worker from the swarm, whether its engine runs or not."""
        self._line.ask('DELETE', f'/nodes/{quote(peer.id)}?force=true')

    def tasks(self, peer: Peer | None = None) -> tuple[Task, ...]:
        """Return the tasks of a node, or of all nodes."""
        query = urlencode({'filters': json.dumps({'node': [peer.id]})}) if peer else ''
        return tuple(map(Task.read, self._line.ask('GET', f'/tasks?{query}') or ()))

    def services(self) -> tuple[Mapping[str, Any], ...]:
        """Return the services in the form of the engine."""
        return tuple(self._line.ask('GET', '/services') or ())


def _bind(address: str) -> dict[str, Any]:
    # It listens on all addresses, and advertises the address in kiln's records.
    anywhere = '[::]' if ':' in address else '0.0.0.0'  # noqa: S104  # Swarm's, on the node
    return {'ListenAddr': f'{anywhere}:{_SWARM_PORT}', 'AdvertiseAddr': _bracketed(address)}


def _bracketed(address: str) -> str:
    return f'[{address}]' if ':' in address else address
